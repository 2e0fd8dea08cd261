#include "isa/iterations.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace kpu {

std::vector<uint32_t> loops_around(const BoundProgram& program, uint32_t statement) {
    std::vector<uint32_t> loops;
    for (int32_t s = program.statements[statement].parent; s >= 0;
         s = program.statements[static_cast<size_t>(s)].parent) {
        loops.push_back(static_cast<uint32_t>(s));
    }
    std::reverse(loops.begin(), loops.end());
    return loops;
}

std::optional<std::vector<Interval>> loop_ranges(const BoundProgram& program, uint32_t statement) {
    std::vector<Interval> ranges;
    for (const uint32_t index : loops_around(program, statement)) {
        const BoundLoop& loop = program.loops[program.statements[index].index];
        const auto first = bound_of(loop.first, ranges), last = bound_of(loop.last, ranges);
        if (!first || !last) return std::nullopt;
        ranges.push_back({first->lo, last->hi});
        if (first->lo > last->hi) break;  // inner loops do not run either
    }
    return ranges;
}

namespace {

LoopValues values_of(const std::vector<int64_t>& variables, size_t depth) {
    LoopValues values;
    for (size_t d = 0; d < depth; ++d) values.push(variables[d]);
    return values;
}

}  // namespace

Visited for_each_iteration(const BoundProgram& program, uint32_t statement, uint64_t& budget,
                           const std::function<bool(const LoopValues&)>& visit) {
    std::vector<const BoundLoop*> loops;
    for (const uint32_t index : loops_around(program, statement)) {
        loops.push_back(&program.loops[program.statements[index].index]);
    }
    if (loops.empty()) return visit({}) ? Visited::all : Visited::stopped;
    std::vector<int64_t> value(loops.size()), last(loops.size());
    const auto enter = [&](size_t d) {
        const LoopValues outer = values_of(value, d);
        value[d] = loops[d]->first.eval(outer);
        last[d] = loops[d]->last.eval(outer);
    };
    size_t depth = 0;
    enter(0);
    while (true) {
        if (budget == 0) return Visited::too_many;
        --budget;
        if (value[depth] > last[depth]) {  // this loop is done: step the one around it
            if (depth == 0) return Visited::all;
            --depth;
        } else if (depth + 1 < loops.size()) {
            enter(++depth);
            continue;
        } else if (!visit(values_of(value, loops.size()))) {
            return Visited::stopped;
        }
        if (value[depth] == INT64_MAX) return Visited::too_many;
        ++value[depth];
    }
}

std::vector<std::pair<std::string, int64_t>> iteration_of(const BoundProgram& program, uint32_t statement,
                                                          const LoopValues& loops) {
    std::vector<std::pair<std::string, int64_t>> iteration;
    const std::vector<uint32_t> around = loops_around(program, statement);
    for (size_t d = 0; d < std::min<size_t>(around.size(), loops.depth); ++d)
        iteration.emplace_back(program.loops[program.statements[around[d]].index].variable, loops[d]);
    return iteration;
}

std::string iteration_text(const BoundProgram& program, uint32_t statement, const LoopValues& loops) {
    std::string text;
    for (const auto& [variable, value] : iteration_of(program, statement, loops))
        text += fmt::format("{}{}={}", text.empty() ? "" : ", ", variable, value);
    return text;
}

std::string in_iteration(const BoundProgram& program, uint32_t statement, const LoopValues& loops) {
    const std::string text = iteration_text(program, statement, loops);
    return text.empty() ? text : fmt::format(" ({})", text);
}

std::string place_text(const BoundProgram& program, uint32_t statement) {
    const SourcePos pos = program.pos_of(statement);
    return pos.line == 0 ? std::string() : fmt::format(" at {}:{}:{}", pos.file, pos.line, pos.column);
}

std::string place_text(const BoundProgram& program, const BoundTask& task) {
    if (!program.carries_places) return {};
    for (uint32_t s = 0; s < program.statements.size(); ++s) {
        const BoundStatement& statement = program.statements[s];
        if (statement.kind == BoundStatement::Kind::task && &program.tasks[statement.index] == &task)
            return place_text(program, s);
    }
    return {};
}

}  // namespace kpu
