#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace kpu {

/// A file, or its first `limit` bytes; "-" is standard input. Throws UserError naming the file and the
/// system's reason.
std::string read_file(const std::string& path, size_t limit = SIZE_MAX);

}  // namespace kpu
