#include "base/terminal_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

#include "base/append_format.hpp"
#include "base/utf8.hpp"

namespace kpu {
namespace {

struct Range {
    uint32_t first, last;
};
/// Unicode's categories Cc, Cf, Zl and Zp, without the signs of scripts among Cf, and letters that are blank.
constexpr std::array<Range, 16> hidden{{{0x0, 0x8},
                                        {0xb, 0x1f},
                                        {0x7f, 0x9f},
                                        {0xad, 0xad},
                                        {0x61c, 0x61c},
                                        {0x115f, 0x1160},
                                        {0x180e, 0x180e},
                                        {0x200b, 0x200f},
                                        {0x2028, 0x202e},
                                        {0x2060, 0x206f},
                                        {0x3164, 0x3164},
                                        {0xfeff, 0xfeff},
                                        {0xfff9, 0xfffb},
                                        {0x1bca0, 0x1bca3},
                                        {0x1d173, 0x1d17a},
                                        {0xe0000, 0xe007f}}};

bool is_hidden(uint32_t code) {
    return std::any_of(hidden.begin(), hidden.end(),
                       [=](const Range& range) { return code >= range.first && code <= range.last; });
}

}  // namespace

std::string terminal_text(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
        const Utf8Character next = utf8_character(text.substr(at));
        if (next.size == 0) {
            append_format(out, "\\x{:02x}", static_cast<uint8_t>(text[at]));
        } else if (!is_hidden(next.code)) {
            out += text.substr(at, next.size);
        } else if (next.code < 0x80) {
            append_format(out, "\\x{:02x}", next.code);
        } else if (next.code < 0x10000) {
            append_format(out, "\\u{:04x}", next.code);
        } else {
            append_format(out, "\\U{:08x}", next.code);
        }
        at += std::max<size_t>(next.size, 1);
    }
    return out;
}

}  // namespace kpu
