#include "analysis/describe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace kpu::analysis {

std::string task_text(const BoundProgram& program, uint32_t statement, const LoopValues& loops,
                      bool with_place) {
    std::vector<std::string> parts;
    size_t depth = loops.depth;
    for (int32_t s = program.statements[statement].parent; s >= 0 && depth > 0;
         s = program.statements[static_cast<size_t>(s)].parent) {
        const BoundLoop& loop = program.loops[program.statements[static_cast<size_t>(s)].index];
        parts.push_back(fmt::format("{}={}", loop.variable, loops[--depth]));
    }
    std::reverse(parts.begin(), parts.end());
    std::string text = fmt::format("task `{}`", program.tasks[program.statements[statement].index].name);
    if (!parts.empty()) text += fmt::format(" ({})", fmt::join(parts, ", "));
    if (!with_place || statement >= program.positions.size() || program.positions[statement].line == 0)
        return text;
    const SourcePos& pos = program.positions[statement];
    return text + fmt::format(" at {}:{}:{}", pos.file, pos.line, pos.column);
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
