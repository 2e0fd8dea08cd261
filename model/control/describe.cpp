#include "model/control/describe.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace kpu::control {

std::string iteration_text(const BoundProgram& program, uint32_t statement, const LoopValues& loops) {
    std::vector<std::string> parts;
    size_t depth = loops.depth;
    for (int32_t s = program.statements[statement].parent; s >= 0 && depth > 0;
         s = program.statements[static_cast<size_t>(s)].parent) {
        const BoundLoop& loop = program.loops[program.statements[static_cast<size_t>(s)].index];
        parts.push_back(fmt::format("{}={}", loop.variable, loops[--depth]));
    }
    std::reverse(parts.begin(), parts.end());
    return fmt::format("{}", fmt::join(parts, ", "));
}

std::string iteration_text(const BoundProgram& program, const TaskInstance& instance) {
    return iteration_text(program, instance.statement, instance.loops);
}

std::string place_text(const BoundProgram& program, uint32_t statement) {
    if (statement >= program.positions.size()) return {};
    const SourcePos& pos = program.positions[statement];
    if (pos.line == 0) return {};
    return fmt::format(" at {}:{}:{}", pos.file, pos.line, pos.column);
}

std::string statement_text(const BoundProgram& program, uint32_t statement, const LoopValues& loops) {
    const BoundStatement& s = program.statements[statement];
    std::string what = fmt::format("statement {}", statement);
    if (s.kind == BoundStatement::Kind::task) what = fmt::format("task `{}`", program.tasks[s.index].name);
    if (s.kind == BoundStatement::Kind::loop)
        what = fmt::format("loop over `{}`", program.loops[s.index].variable);
    if (s.kind == BoundStatement::Kind::wait) what = "wait";
    const std::string iteration = iteration_text(program, statement, loops);
    if (!iteration.empty()) what += fmt::format(" ({})", iteration);
    return what + place_text(program, statement);
}

}  // namespace kpu::control
