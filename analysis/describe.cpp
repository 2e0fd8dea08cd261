#include "analysis/describe.hpp"

#include <fmt/format.h>

#include "isa/iterations.hpp"

namespace kpu::analysis {

std::string task_text(const BoundProgram& program, uint32_t statement, const LoopValues& loops,
                      bool with_place) {
    const std::string text =
        fmt::format("task `{}`{}", program.tasks[program.statements[statement].index].name,
                    in_iteration(program, statement, loops));
    return with_place ? text + place_text(program, statement) : text;
}

std::string bytes_text(const BoundProgram& program, uint32_t buffer, uint64_t first, uint64_t last) {
    const BoundBuffer& home = program.buffers[buffer];
    const std::string level =
        home.level == Level::l1 ? fmt::format("L1[{}]", home.engine) : std::string(kpu::name_of(home.level));
    return first == last ? fmt::format("byte {} of {} buffer `{}`", first, level, home.name)
                         : fmt::format("bytes {}..{} of {} buffer `{}`", first, last, level, home.name);
}

uint64_t offset_in(const BoundProgram& program, uint32_t buffer, uint64_t address) {
    return address - program.buffers[buffer].base;
}

}  // namespace kpu::analysis
