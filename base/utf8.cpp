#include "base/utf8.hpp"

#include <array>

namespace kpu {

Utf8Character utf8_character(std::string_view text) {
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

bool is_valid_utf8(std::string_view text) {
    while (!text.empty()) {
        const size_t size = utf8_character(text).size;
        if (size == 0) return false;
        text.remove_prefix(size);
    }
    return true;
}

}  // namespace kpu
