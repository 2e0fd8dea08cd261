#include "traces/sha256.hpp"

#include <fmt/format.h>

#include <boost/iostreams/device/mapped_file.hpp>
#include <filesystem>

#include "isa/diagnostics.hpp"
#include "isa/digest.hpp"

namespace kpu::traces {

std::string sha256_hex_of_file(const std::string& path) {
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    if (!error && size == 0) return sha256_hex("");  // an empty file cannot be mapped
    try {
        if (error) throw std::runtime_error(error.message());
        const boost::iostreams::mapped_file_source file(path);
        return sha256_hex({file.data(), file.size()});
    } catch (const std::exception& failure) {
        throw UserError(fmt::format("{}: cannot read: {}. Fix: name a file that exists and can be read.",
                                    path, failure.what()));
    }
}

}  // namespace kpu::traces
