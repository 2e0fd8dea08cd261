#pragma once

#include "isa/bound_program.hpp"
#include "runtime/simulation.hpp"

namespace kpu::runtime {

/// What a run will take, before it starts.
struct RunEstimate {
    double tasks = 0;         ///< instances of its tasks; of loops whose bounds move, the middle counts
    double values_bytes = 0;  ///< memory image and host arrays, all of it touched
    double event_bytes = 0;   ///< recorded events, while they are sorted; right to about a factor of two
    double bytes() const { return values_bytes + event_bytes; }
};
RunEstimate estimate_run(const BoundProgram& program, const SimulationOptions& options);

/// What putting so many kept event records in order takes beside them, at most.
uint64_t ordering_bytes(uint64_t records);

}  // namespace kpu::runtime
