#pragma once

#include <memory>

#include "analysis/schedule_check.hpp"

namespace kpu::analysis {

/// Extends the report of check_schedule() on `module` bound with `given` to every value that its parameters
/// may have: those that `given` does not name go over their ranges. What only other values show says so in
/// its message. When the values are too many, the ends of the ranges and the neighbours of the defaults stand
/// for them, and a finding `not_proved` names those checked.
ScheduleReport check_other_values(const std::shared_ptr<const Module>& module, const ParamBindings& given,
                                  const DeviceLimits& limits, ScheduleReport report);

}  // namespace kpu::analysis
