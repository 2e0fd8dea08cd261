#pragma once

#include <cstdint>
#include <vector>

#include "isa/bound_program.hpp"

namespace kpu::execution {

/// Facts about a loop that the order of a program's tasks needs.
struct LoopFacts {
    uint64_t least_iterations = 0;  ///< each time it is reached; fewer where that is not known
    bool longer_than_window = false;
    bool never_empty() const { return least_iterations > 0; }
};
/// Returns the facts of every loop, parallel to BoundProgram::loops, by interval arithmetic and, where that
/// does not decide, a bounded number of evaluations.
std::vector<LoopFacts> loop_facts(const BoundProgram& program);

}  // namespace kpu::execution
