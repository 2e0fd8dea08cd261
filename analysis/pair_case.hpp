#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "execution/access_frontier.hpp"
#include "execution/schedule_order.hpp"
#include "isa/bound_program.hpp"

namespace kpu::analysis {

using execution::Access;

/// Instances of two accesses that nothing orders: those that share the iterations of the first `shared`
/// common loops and, if `cross`, differ in the next one by less than its window (else they share all common
/// loops), except where an escape orders them. Access a stands first in the text, or is the same task.
struct PairCase {
    Access a, b;
    size_t shared = 0;
    bool cross = false;
    std::vector<execution::Escape> escapes;  ///< that order a before b
    std::vector<execution::Escape> back;     ///< that order b before a, when a is of the later iteration
    uint64_t distance = 0;                   ///< cross: only iterations exactly so far apart; 0: all
};

/// A loop variable of the two instances: of both, of a alone or of b alone.
struct PairVariable {
    uint32_t loop = 0;
    bool of_a = false, of_b = false;
};
/// Returns the variables in the order in which bounds may be computed: shared ones, the two that differ, the
/// rest of a, then of b.
std::vector<PairVariable> variables_of(const execution::ScheduleOrder& order, const PairCase& pair);

/// Witness of a race: two unordered instances that touch a common byte.
struct Witness {
    LoopValues a, b;
};
enum class Verdict : uint8_t { disjoint, overlap, unknown };

/// Tries the instances one after the other, at most `budget` of them, which is reduced by those tried.
/// `unknown`: the budget did not suffice, or an address could not be computed.
Verdict search_pair(const BoundProgram& program, const execution::ScheduleOrder& order, const PairCase& pair,
                    uint64_t& budget, Witness& witness);

}  // namespace kpu::analysis
