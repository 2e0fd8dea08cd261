#include "base/terminal_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

namespace kpu {
namespace {

/// Of a character of UTF-8.
struct Decoded {
    uint32_t code = 0;
    size_t size = 0;  ///< bytes; 0: no character begins here
};

/// As Unicode's table 3-7 allows it: the shortest form, no surrogates.
Decoded decode(std::string_view text) {
    const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
    if (byte(0) < 0x80) return {byte(0), 1};
    const size_t size = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
    if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < size) return {};
    uint32_t code = byte(0) & (0x7fu >> size);
    for (size_t i = 1; i < size; ++i) {
        if ((byte(i) & 0xc0) != 0x80) return {};
        code = code << 6 | (byte(i) & 0x3f);
    }
    constexpr std::array<uint32_t, 5> least{0, 0, 0x80, 0x800, 0x10000};
    const bool surrogate = code >= 0xd800 && code <= 0xdfff;
    if (code < least[size] || code > 0x10ffff || surrogate) return {};
    return {code, size};
}

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
        const Decoded next = decode(text.substr(at, 4));
        const auto into = std::back_inserter(out);
        if (next.size == 0) {
            fmt::format_to(into, "\\x{:02x}", static_cast<uint8_t>(text[at]));
        } else if (!is_hidden(next.code)) {
            out += text.substr(at, next.size);
        } else if (next.code < 0x80) {
            fmt::format_to(into, "\\x{:02x}", next.code);
        } else if (next.code < 0x10000) {
            fmt::format_to(into, "\\u{:04x}", next.code);
        } else {
            fmt::format_to(into, "\\U{:08x}", next.code);
        }
        at += std::max<size_t>(next.size, 1);
    }
    return out;
}

}  // namespace kpu
