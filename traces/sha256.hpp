#pragma once

#include <string>

namespace kpu::traces {

/// SHA-256 of a file's content as 64 lower-case hexadecimal digits (of bytes: isa/digest.hpp). Throws
/// UserError when the file cannot be read.
std::string sha256_hex_of_file(const std::string& path);

}  // namespace kpu::traces
