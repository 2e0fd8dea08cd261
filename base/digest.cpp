#include "base/digest.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <boost/crc.hpp>
#include <boost/iostreams/device/mapped_file.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/diagnostics.hpp"

namespace kpu {
namespace {

uint32_t crc32c_table(std::string_view bytes, uint32_t seed) {
    // Boost wants its remainder before output reflection and the final xor: its constructor takes it
    // unreflected.
    uint32_t reflected = ~seed, initial = 0;
    for (int bit = 0; bit < 32; ++bit) initial |= ((reflected >> bit) & 1u) << (31 - bit);
    boost::crc_optimal<32, 0x1EDC6F41, 0, 0xFFFFFFFF, true, true> crc(initial);
    crc.process_bytes(bytes.data(), bytes.size());
    return crc.checksum();
}

#if defined(__x86_64__)
/// Takes one instruction per 8 bytes: checking weights of gigabytes must cost less than reading them.
__attribute__((target("sse4.2"))) uint32_t crc32c_hardware(std::string_view bytes, uint32_t seed) {
    uint64_t crc = ~seed;
    const char* p = bytes.data();
    size_t left = bytes.size();
    for (; left >= 8; left -= 8, p += 8) {
        uint64_t word;
        std::memcpy(&word, p, 8);
        crc = __builtin_ia32_crc32di(crc, word);
    }
    auto tail = static_cast<uint32_t>(crc);
    for (; left > 0; --left, ++p) tail = __builtin_ia32_crc32qi(tail, static_cast<unsigned char>(*p));
    return ~tail;
}
#endif

}  // namespace

uint32_t crc32c(std::string_view bytes, uint32_t seed) {
#if defined(__x86_64__)
    static const bool hardware = __builtin_cpu_supports("sse4.2") != 0;
    if (hardware) return crc32c_hardware(bytes, seed);
#endif
    return crc32c_table(bytes, seed);
}

std::string sha256_hex(std::string_view bytes) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned size = 0;
    if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1) {
        throw InternalError("SHA-256 failed");
    }
    std::string hex;
    for (unsigned i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
    return hex;
}

std::string sha256_hex_of_file(const std::string& path) {
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    if (!error && size == 0) return sha256_hex("");  // an empty file cannot be mapped
    try {
        if (!error) {
            const boost::iostreams::mapped_file_source file(path);
            return sha256_hex({file.data(), file.size()});
        }
    } catch (const std::exception&) {  // its text says less than errno
        error = std::error_code(errno, std::generic_category());
    }
    throw UserError(fmt::format("{}: cannot read: {}. Fix: name a file that exists and can be read.", path,
                                error.message()));
}

}  // namespace kpu
