#pragma once

#include <optional>

#include "execution/functional.hpp"
#include "platforms/platform.hpp"
#include "traces/stats.hpp"

namespace kpu::runtime {

/// Functional mode has no model of time. Its estimate is the roofline bound: the larger of the time of all
/// array work at peak and of all DRAM traffic at peak bandwidth. A timed run is never faster. Unknown (0)
/// without a platform.
Cycles estimate_cycles(const BoundProgram& program, const execution::FunctionalDriver& driver,
                       const std::optional<platforms::Platform>& platform);

/// Statistics of a functional run: work done, hazards, the estimate.
void functional_stats(const BoundProgram& program, const execution::FunctionalDriver& driver,
                      const std::optional<platforms::Platform>& platform, traces::StatSet& stats);

}  // namespace kpu::runtime
