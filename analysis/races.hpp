#pragma once

#include <vector>

#include "analysis/schedule_check.hpp"
#include "execution/schedule_order.hpp"

namespace kpu::analysis {

/// Pairs of tasks that touch a common byte, one of them writing, and that nothing orders: one finding each.
std::vector<Finding> find_races(const BoundProgram& program, const execution::ScheduleOrder& order);

}  // namespace kpu::analysis
