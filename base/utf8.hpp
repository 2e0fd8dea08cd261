#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kpu {

/// A character of UTF-8.
struct Utf8Character {
    uint32_t code = 0;
    size_t size = 0;  ///< bytes; 0: no character begins here
};

/// Returns the character that a text, which is not empty, begins with. As Unicode's table 3-7 allows it: the
/// shortest form, no surrogates.
Utf8Character utf8_character(std::string_view text);
/// True if a text consists of such characters.
bool is_valid_utf8(std::string_view text);

}  // namespace kpu
