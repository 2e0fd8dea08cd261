#pragma once

#include <string>
#include <string_view>

namespace kpu {

/// Returns text as a terminal may be given it. What would move its cursor, colour it, or turn or hide what is
/// read (control characters but line feed and tab, of 8 bits too; marks of direction, of no width; bytes that
/// are no UTF-8) stands as \x1b or \u202e. Names of files and models come from others.
std::string terminal_text(std::string_view text);

}  // namespace kpu
