#pragma once

#include "isa/bound_program.hpp"
#include "runtime/driver.hpp"
#include "traces/stats.hpp"

namespace kpu::runtime {

/// Statistics `throughput.*` of a program that does a stated number of inferences in one run; after a run with time.
void add_throughput(traces::StatSet& stats, const BoundProgram& program, const Driver& driver);

}  // namespace kpu::runtime
