// Runs exported Pallas calls without a device: each line of the input names an export and a folder with in_N.bin, and
// out_N.bin are written there, or error.txt. With an argument the kernels are printed.
#include <fstream>
#include <iostream>
#include <sstream>

#include "tests/compiler/pallas/run_export.hpp"

namespace kpu::compiler::pallas {
namespace {

std::string file_bytes(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream bytes;
    bytes << file.rdbuf();
    return bytes.str();
}

void run(const std::string& path, const std::string& folder, bool print) {
    const Export source = read_export(file_bytes(path), path);
    std::vector<Blob> inputs;
    for (const Array& array : source.arrays) {
        if (array.role != Array::Role::input) continue;
        const std::string bytes = file_bytes(folder + "/in_" + std::to_string(inputs.size()) + ".bin");
        inputs.emplace_back(bytes.begin(), bytes.end());
    }
    size_t number = 0;
    for (const Blob& bytes : run_export(source, inputs, print)) {
        std::ofstream file(folder + "/out_" + std::to_string(number++) + ".bin", std::ios::binary);
        file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    }
}

}  // namespace
}  // namespace kpu::compiler::pallas

int main(int argc, char**) {
    std::string path, folder;
    while (std::cin >> path >> folder) {
        try {
            kpu::compiler::pallas::run(path, folder, argc > 1);
        } catch (const std::exception& error) {
            std::ofstream(folder + "/error.txt") << error.what();
        }
    }
}
