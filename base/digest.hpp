#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kpu {

/// Computes CRC-32C (Castagnoli) as iSCSI and ext4 use it: crc32c("123456789") == 0xe3069283. `seed`
/// continues an earlier one.
uint32_t crc32c(std::string_view bytes, uint32_t seed = 0);
/// Returns the SHA-256 in lower-case hexadecimal.
std::string sha256_hex(std::string_view bytes);
/// Returns the same of a file's content. Throws UserError when it cannot be read.
std::string sha256_hex_of_file(const std::string& path);

}  // namespace kpu
