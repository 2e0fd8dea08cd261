#pragma once

#include <memory>

#include "analysis/schedule_check.hpp"

namespace kpu::analysis {

/// A program with the fixes of its findings made, and what is left to find in it.
struct Mended {
    std::shared_ptr<const Module> module;
    BoundProgram program;  ///< program of `module`
    ScheduleReport left;
    uint64_t changes = 0;  ///< tokens added, windows narrowed
};

/// Adds dependencies and tokens of earlier iterations, and narrows loop windows until no race is left, checking again after each round. What a
/// dependency or a window cannot mend stays in `left`. The program was bound with these parameters and
/// limits.
Mended mend(BoundProgram program, const ParamBindings& params, const DeviceLimits& limits);

}  // namespace kpu::analysis
