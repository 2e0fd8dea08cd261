// Writes random programs as .kpu files: random_programs PLATFORM FIRST COUNT FOLDER
#include <fmt/format.h>

#include <cstdlib>

#include "base/text_output.hpp"
#include "isa/container.hpp"
#include "platforms/platform.hpp"
#include "tests/model/random_program.hpp"

int main(int argc, char** argv) {
    if (argc != 5) {
        fmt::print(stderr, "usage: random_programs PLATFORM FIRST COUNT FOLDER\n");
        return 1;
    }
    const auto platform = kpu::platforms::load(argv[1]);
    const uint64_t first = std::strtoull(argv[2], nullptr, 10), count = std::strtoull(argv[3], nullptr, 10);
    for (uint64_t seed = first; seed < first + count; ++seed) {
        const bool all_opcodes = seed % 2 == 1, careless = seed % 5 == 0;
        const kpu::model::RandomProgram program(platform, seed, careless, all_opcodes);
        kpu::write_container(program.program().build(), fmt::format("{}/{}_{}.kpu", argv[4], argv[1], seed));
    }
    return 0;
}
