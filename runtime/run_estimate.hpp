#pragma once

#include "isa/bound_program.hpp"
#include "runtime/simulation.hpp"

namespace kpu::runtime {

/// Estimate of a run, before it starts.
struct RunEstimate {
    double tasks = 0;         ///< instances of its tasks; of loops whose bounds move, the middle counts
    double values_bytes = 0;  ///< memory image and host arrays, all of it touched
    double event_bytes = 0;   ///< recorded events, most of them on disk; right to about a factor of two
};
RunEstimate estimate_run(const BoundProgram& program, const SimulationOptions& options);

}  // namespace kpu::runtime
