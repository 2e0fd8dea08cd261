#pragma once

#include <vector>

#include "analysis/schedule_check.hpp"
#include "isa/device_limits.hpp"

namespace kpu::analysis {

/// Buffers that nothing touches.
std::vector<Finding> find_unused_buffers(const BoundProgram& program);

/// Transfers that bring the same bytes to the same place in every iteration of a loop.
std::vector<Finding> find_hoistable_reloads(const BoundProgram& program);

/// Tokens of loops that never run: they are satisfied at once and order nothing.
std::vector<Finding> find_empty_tokens(const BoundProgram& program);

/// Programs that come to a stand under the device's max_active_tokens: tasks that wait hold every entry of
/// the table that what they wait for would need. Tries some orders of completion, so it refutes and never
/// proves. `tasks`: of a longer program only so many are tried.
std::vector<Finding> find_table_deadlocks(const BoundProgram& program, const DeviceLimits& limits,
                                          uint64_t tasks);

/// Returns the most tasks in flight at one time by engine, without a limit, when the oldest ready one always
/// completes next; empty when the program has more `tasks`.
std::vector<uint32_t> peak_tokens(const BoundProgram& program, const DeviceLimits& limits, uint64_t tasks);

/// Engines of whose tasks more are in flight than the device's token table holds: issue waits there.
std::vector<Finding> find_token_limits(const std::vector<uint32_t>& peaks, const DeviceLimits& limits);

}  // namespace kpu::analysis
