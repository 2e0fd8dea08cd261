#include "base/read_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "base/diagnostics.hpp"

namespace kpu {
namespace {

struct Close {
    void operator()(std::FILE* file) const {
        if (file != stdin) std::fclose(file);
    }
};

}  // namespace

std::string read_file(const std::string& path, size_t limit) {
    const auto fail = [&path] {
        const std::string name = path == "-" ? "<stdin>" : path.empty() ? "<empty name>" : path;
        Diagnostics diagnostics;
        diagnostics.error({name, 0, 0},
                          fmt::format("cannot read: {}. Fix: name a file that exists and can be read.",
                                      std::strerror(errno)));
        throw UserError(std::move(diagnostics));
    };
    const std::unique_ptr<std::FILE, Close> file(path == "-" ? stdin : std::fopen(path.c_str(), "rb"));
    if (!file) fail();
    std::string bytes;
    std::array<char, 1 << 16> block;
    errno = 0;
    while (const size_t count =
               std::fread(block.data(), 1, std::min(block.size(), limit - bytes.size()), file.get()))
        bytes.append(block.data(), count);
    if (std::ferror(file.get()) != 0) fail();  // a directory opens, and fails here
    return bytes;
}

}  // namespace kpu
