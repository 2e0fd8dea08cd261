#include "isa/iterations.hpp"

namespace kpu {

std::optional<std::vector<Interval>> loop_ranges(const BoundProgram& program, const Nesting& nesting,
                                                 uint32_t statement) {
    std::vector<Interval> ranges;
    for (const uint32_t index : loops_around(nesting, statement)) {
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

Visited for_each_iteration(const BoundProgram& program, const Nesting& nesting, uint32_t statement,
                           uint64_t& budget, const std::function<bool(const LoopValues&)>& visit) {
    std::vector<const BoundLoop*> loops;
    for (const uint32_t index : loops_around(nesting, statement)) {
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

}  // namespace kpu
