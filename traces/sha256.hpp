#pragma once

#include <string>
#include <string_view>

namespace kpu::traces {

/// SHA-256 as 64 lower-case hexadecimal digits.
std::string sha256_hex(std::string_view bytes);
/// The same of a file's content, read in pieces. Throws UserError when it cannot be read.
std::string sha256_hex_of_file(const std::string& path);

}  // namespace kpu::traces
