#include "traces/sha256.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>

#include "isa/diagnostics.hpp"

namespace kpu::traces {

namespace {

class Digest {
  public:
    Digest() : context_(EVP_MD_CTX_new()) {
        if (!context_ || EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) != 1) {
            throw InternalError("SHA-256 is not available in this OpenSSL");
        }
    }
    void update(const void* data, size_t size) {
        if (EVP_DigestUpdate(context_.get(), data, size) != 1) throw InternalError("SHA-256 failed");
    }
    std::string hex() {
        std::array<unsigned char, EVP_MAX_MD_SIZE> bytes;
        unsigned int size = 0;
        if (EVP_DigestFinal_ex(context_.get(), bytes.data(), &size) != 1)
            throw InternalError("SHA-256 failed");
        std::string text;
        for (unsigned int i = 0; i < size; ++i) fmt::format_to(std::back_inserter(text), "{:02x}", bytes[i]);
        return text;
    }

  private:
    struct Free {
        void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
    };
    std::unique_ptr<EVP_MD_CTX, Free> context_;
};

struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

std::string sha256_hex(std::string_view bytes) {
    Digest digest;
    digest.update(bytes.data(), bytes.size());
    return digest.hex();
}

std::string sha256_hex_of_file(const std::string& path) {
    const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rb"));
    std::array<char, 1 << 16> block;
    Digest digest;
    if (file) {
        while (const size_t count = std::fread(block.data(), 1, block.size(), file.get())) {
            digest.update(block.data(), count);
        }
    }
    if (!file || std::ferror(file.get()) != 0) {
        throw UserError(fmt::format("{}: cannot read: {}. Fix: name a file that exists and can be read.",
                                    path, std::strerror(errno)));
    }
    return digest.hex();
}

}  // namespace kpu::traces
