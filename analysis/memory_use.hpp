#pragma once

#include <vector>

#include "analysis/schedule_check.hpp"

namespace kpu::analysis {

struct MemoryReport {
    std::vector<Finding> findings;
    std::vector<MemoryUse> use;  ///< use of the levels that the program uses
    bool complete = true;        ///< else the walk stopped at its bound: dead writes and use are not given
};

/// Follows every byte through the tasks in the order of the text, which is a legal order; in a program
/// without races every other order reads the same. Finds reads of bytes that nothing wrote and writes that
/// nothing reads. Races are the statements that a race finding names: what they read is uncertain, and not
/// repeated.
MemoryReport follow_memory(const BoundProgram& program, const std::vector<Finding>& races,
                           const FollowBounds& bounds);

}  // namespace kpu::analysis
