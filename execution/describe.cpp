#include "execution/describe.hpp"

#include <fmt/format.h>

#include "isa/iterations.hpp"

namespace kpu::execution {

std::string iteration_text(const BoundProgram& program, const TaskInstance& instance) {
    return kpu::iteration_text(program, instance.statement, instance.loops);
}

std::string statement_text(const BoundProgram& program, uint32_t statement, const LoopValues& loops) {
    const BoundStatement& s = program.statements[statement];
    std::string what = fmt::format("statement {}", statement);
    if (s.kind == BoundStatement::Kind::task) what = fmt::format("task `{}`", program.tasks[s.index].name);
    if (s.kind == BoundStatement::Kind::loop)
        what = fmt::format("loop over `{}`", program.loops[s.index].variable);
    if (s.kind == BoundStatement::Kind::wait) what = "wait";
    return what + in_iteration(program, statement, loops) + place_text(program, statement);
}

}  // namespace kpu::execution
