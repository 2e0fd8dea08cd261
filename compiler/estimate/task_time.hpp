#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "compiler/estimate/sharing.hpp"
#include "compiler/target/target.hpp"
#include "isa/bound_program.hpp"

namespace kpu::estimate {

/// Time of a task, alone, in core cycles; model/unit/unit.md has the meaning of the terms.
struct TaskTime {
    bool moves = false;
    bool overlaps = false;  ///< the next task may enter its unit before this one is complete
    double in_l1 = 0;       ///< cycles of all of its engine's L1
    // computations
    double lead = 0, entry_gap = 0, fill = 0, steady = 0, drain = 0, occupancy = 0;
    double operands = 0;  ///< from the start: the last operand is in, less when it is due from the begin
    double result = 0;    ///< after the drain: the rest of the result, and until it is visible
    // transfers: descriptor, then a flow, then the way of its last byte
    double before = 0, behind = 0, port = 0;
    Flow flow;
};

constexpr size_t system_link = 1, l2_ports = 2, first_engine_link = 3;

/// Times of all tasks of a program, indexed like BoundProgram::tasks. Flows have a demand for each of the
/// `resources`: after the engines' links DRAM's channels, one by one, if some task's rows lie in few of them.
struct TaskTimes {
    std::vector<TaskTime> of;
    size_t resources = 0;
};
TaskTimes task_times(const BoundProgram& program, const compiler::Target& target,
                     const std::map<uint32_t, kernels::Work>& launches);

}  // namespace kpu::estimate
