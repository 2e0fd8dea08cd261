#include "execution/loop_facts.hpp"

#include <algorithm>

#include "base/diagnostics.hpp"
#include "isa/expr.hpp"
#include "isa/iterations.hpp"

namespace kpu::execution {
namespace {

constexpr uint64_t evaluation_budget = 1 << 14;  ///< evaluations of loop bounds, for all loops together

uint64_t iterations_of(int64_t first, int64_t last) {
    if (last < first) return 0;
    const uint64_t span = static_cast<uint64_t>(last) - static_cast<uint64_t>(first);
    return span == UINT64_MAX ? span : span + 1;
}

uint64_t least_iterations(const BoundProgram& program, uint32_t statement, uint64_t& budget) {
    const BoundLoop& loop = program.loops[program.statements[statement].index];
    uint64_t by_ranges = 0;
    if (const auto ranges = loop_ranges(program, statement)) {
        const auto first = bound_of(loop.first, *ranges), last = bound_of(loop.last, *ranges);
        if (first && last) by_ranges = iterations_of(first->hi, last->lo);
    }
    const bool exact = loop.first.is_constant() && loop.last.is_constant();
    if (exact || by_ranges > loop.max_in_flight) return by_ranges;
    uint64_t least = UINT64_MAX;
    try {
        const Visited visited = for_each_iteration(program, statement, budget, [&](const LoopValues& outer) {
            least = std::min(least, iterations_of(loop.first.eval(outer), loop.last.eval(outer)));
            return true;
        });
        return visited == Visited::all ? std::max(least, by_ranges) : by_ranges;
    } catch (const UserError&) {
        return by_ranges;  // the run says so when it gets there
    }
}

}  // namespace

std::vector<LoopFacts> loop_facts(const BoundProgram& program) {
    std::vector<LoopFacts> facts(program.loops.size());
    uint64_t budget = evaluation_budget;
    for (uint32_t s = 0; s < program.statements.size(); ++s) {
        if (program.statements[s].kind != BoundStatement::Kind::loop) continue;
        const uint32_t index = program.statements[s].index;
        facts[index].least_iterations = least_iterations(program, s, budget);
        facts[index].longer_than_window = facts[index].least_iterations > program.loops[index].max_in_flight;
    }
    return facts;
}

}  // namespace kpu::execution
