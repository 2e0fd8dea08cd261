#include "base/read_file.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/diagnostics.hpp"

namespace kpu {

InputFile::InputFile(const std::string& path)
    : name_(path == "-"    ? "<stdin>"
            : path.empty() ? "<empty name>"
                           : path),
      file_(path == "-" ? stdin : std::fopen(path.c_str(), "rb")) {
    if (!file_) fail();
}

void InputFile::fail() const {
    Diagnostics diagnostics;
    diagnostics.error(
        {name_, 0, 0},
        fmt::format("cannot read: {}. Fix: name a file that exists and can be read.", std::strerror(errno)));
    throw UserError(std::move(diagnostics));
}

void InputFile::read(size_t count, std::string& bytes) {
    std::array<char, 1 << 16> block;
    errno = 0;
    while (count > 0) {
        const size_t got = std::fread(block.data(), 1, std::min(block.size(), count), file_.get());
        if (got == 0) break;
        bytes.append(block.data(), got);
        count -= got;
    }
    if (std::ferror(file_.get()) != 0) fail();  // a directory opens, and fails here
}

std::optional<uint64_t> InputFile::size() const {
    struct stat status {};
    if (::fstat(::fileno(file_.get()), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
    return static_cast<uint64_t>(status.st_size);
}

bool InputFile::is_device() const {
    struct stat status {};
    return ::fstat(::fileno(file_.get()), &status) == 0 && S_ISCHR(status.st_mode);
}

std::string read_file(const std::string& path, size_t limit) {
    InputFile file(path);
    const size_t most = file.is_device() ? max_device_bytes : max_text_bytes;
    const auto refuse = [&file, most] {
        throw UserError(
            fmt::format("{}: has more than {} bytes, which no such file needs. Fix: name another file.",
                        file.name(), most));
    };
    const uint64_t wanted = std::min<uint64_t>(limit, file.size().value_or(0));
    if (wanted > most) refuse();
    std::string bytes;
    file.read(std::min(limit, most + 1), bytes);
    if (bytes.size() > most) refuse();
    return bytes;
}

}  // namespace kpu
