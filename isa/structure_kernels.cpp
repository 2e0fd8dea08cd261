// Form of the files of kernels that travel with a program.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "base/text.hpp"
#include "isa/kernel/lexer.hpp"
#include "isa/structure.hpp"

namespace kpu {

std::string escaped(const std::string& name) {
    std::string text;
    for (const char c : name.substr(0, 64)) {
        text += c >= ' ' && c <= '~' ? std::string(1, c)
                                     : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
    return text;
}

bool is_kernel_file_name(std::string_view name) {
    constexpr std::string_view ending = ".kern";
    if (name.size() <= ending.size() || name.size() > 128 || name[0] == '.' || name[0] == '-' ||
        !ends_with(name, ending))
        return false;
    return std::all_of(name.begin(), name.end(), [](char c) {
        return kernel::is_identifier(std::string(1, c)) || (c >= '0' && c <= '9') || c == '-' || c == '.';
    });
}

/// Checks names of kernel files, which are written beside a program's text, so their names lead nowhere else.
void check_kernel_files(const KPUProgram& program, const std::string& origin) {
    std::unordered_set<std::string_view> paths, names;
    for (int i = 0; i < program.kernel_file_size(); ++i) {
        const proto::KernelFile& file = program.kernel_file(i);
        const auto fail = [&](std::string_view field, const std::string& text) {
            throw UserError(
                fmt::format("{}: malformed program: kernel_file[{}]{} {}", origin, i, field, text));
        };
        if (!is_kernel_file_name(file.path()))
            fail(".path", fmt::format("is `{}`. Fix: a name of letters, digits, _ - and ., ending in .kern.",
                                      escaped(file.path())));
        if (!paths.insert(file.path()).second) fail(".path", "is used twice. Fix: merge the files.");
        for (const proto::KernelBody& body : file.kernel()) {
            kernel::check_form(body, origin);
            if (!names.insert(body.name()).second)
                fail("", fmt::format("has a second kernel `{}`. Fix: rename one.", body.name()));
        }
    }
}

}  // namespace kpu
