#include "compiler/nem_text/write_text.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "base/read_file.hpp"
#include "base/text_output.hpp"
#include "isa/container.hpp"
#include "isa/nem/nem.hpp"

namespace kpu::compiler {
namespace {

namespace fs = std::filesystem;

std::string data_file_name(const std::string& text_path, int index) {
    return fmt::format("{}.{}.data", fs::path(text_path).filename().string(), index);
}

}  // namespace

void write_text(const Module& module, const std::string& path) {
    const fs::path folder = fs::path(path).parent_path();
    for (int i = 0; i < module.program.data_size(); ++i) {
        if (!module.program.data(i).path().empty()) continue;
        write_file((folder / data_file_name(path, i)).string(), module.data[static_cast<size_t>(i)].bytes());
    }
    for (const proto::KernelFile& file : module.program.kernel_file()) {
        const fs::path beside = folder / file.path();
        const std::string text = nem::print_kernels(file);
        std::error_code unreadable;
        if (fs::exists(beside, unreadable)) {
            if (read_file(beside.string()) == text) continue;
            throw UserError(fmt::format(
                "{}: the file exists and holds other kernels. Fix: write the program into another "
                "folder, or move that file away.",
                beside.string()));
        }
        write_file(beside.string(), text);
    }
    write_file(path, nem::print(module));
}

void load_data(Module& module) {
    const std::string folder = fs::path(module.origin).parent_path().string();
    for (int i = 0; i < module.program.data_size(); ++i) {
        proto::Data entry = module.program.data(i);
        if (entry.path().empty()) entry.set_path(data_file_name(module.origin, i));
        module.data[static_cast<size_t>(i)] =
            load_side_file(entry, folder);  // the reader left a place for it
    }
}

}  // namespace kpu::compiler
