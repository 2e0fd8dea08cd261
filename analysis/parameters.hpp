#pragma once

#include <memory>

#include "analysis/schedule_check.hpp"

namespace kpu::analysis {

/// Checks a schedule for every value that its parameters may have: `program` is `module` bound with `given`,
/// and the parameters that `given` does not name go over their ranges. What only other values than those of
/// `program` show says so in its message. When the values are too many, the ends of the ranges and the
/// neighbours of the defaults stand for them, and a finding `not_proved` names those checked.
ScheduleReport check_all_values(const std::shared_ptr<const Module>& module, const ParamBindings& given,
                                const BoundProgram& program, const DeviceLimits& limits);

}  // namespace kpu::analysis
