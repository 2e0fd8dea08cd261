#pragma once
// The estimate that is reported (estimated_cycles): a list schedule of the tasks of the emitted program. Tasks are
// issued, get ready and take units as they do in the model; each lasts as its closed form says, and transfers share
// what lies on their way like fluids. docs/networks_measured.md says how near it comes to the simulation.
#include <cstdint>
#include <map>
#include <vector>

#include "compiler/estimate/bound.hpp"
#include "compiler/estimate/energy.hpp"
#include "compiler/target/target.hpp"
#include "isa/bound_program.hpp"

namespace kpu::estimate {

struct Estimate {
    double cycles = 0;  ///< until the last task is complete
    /// Indexed like BoundProgram::ops, as ops.csv charges them; sums to `cycles`.
    std::vector<double> charged;
    uint64_t tasks = 0;  ///< that were executed
    Energy energy;
    std::vector<Bound> bounds;   ///< indexed like BoundProgram::ops
    std::vector<uint64_t> macs;  ///< MACs of all tasks, indexed like BoundProgram::ops
};

/// Extent of an estimate.
enum class Detail : uint8_t {
    times,  ///< cycles, who is charged, tasks: enough to compare programs
    all,    ///< energy, bounds and MACs too
};

/// `launches`: what kernels do, by statement. Deterministic.
Estimate estimate(const BoundProgram& program, const compiler::Target& target,
                  const std::map<uint32_t, kernels::Work>& launches, Detail detail = Detail::all);

}  // namespace kpu::estimate
