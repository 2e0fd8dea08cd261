#pragma once

#include <string>

#include "compiler/tile_schedule/check.hpp"
#include "compiler/tile_schedule/schedule.hpp"
#include "isa/module.hpp"

namespace kpu::tile_schedule {

/// Returns a legal schedule as a program: LOAD and STORE become transfers, EXECUTE a gemm.acc, a ReLU and a
/// conversion tasks of their own; dependences become tokens and nothing else orders the tasks, so what is
/// independent overlaps. `analysis` is of this schedule, with dependences. Throws ScheduleError when it found
/// errors.
Module lower(const Schedule& schedule, const Analysis& analysis, const std::string& name);

}  // namespace kpu::tile_schedule
