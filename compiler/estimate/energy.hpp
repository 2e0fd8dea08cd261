#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "compiler/target/target.hpp"
#include "isa/bound_program.hpp"
#include "traces/active_intervals.hpp"
#include "traces/ledger.hpp"

namespace kpu::estimate {

/// Estimated energy of a compiled program: what its tasks do, counted from their shapes, at the prices by
/// which the model books it; static power for as long as the schedule takes.
struct Energy {
    double total_pj = 0;        ///< all, with static energy and that of no operation
    std::vector<double> by_op;  ///< indexed like BoundProgram::ops: dynamic, as ops.csv has it
};

/// Collects when the clocks of the components run.
class Activity {
  public:
    Activity(const BoundProgram& program, const platforms::Platform& platform);
    void add(uint32_t task, double from, double to);
    /// Returns the cycles, by component, until the end.
    std::array<double, traces::component_count> on(double cycles);

  private:
    struct Use {
        traces::Component unit = traces::Component::dma;
        bool l1 = false, links = false;
        double l2_cycles = 0;
    };
    std::vector<Use> uses_;                        ///< indexed by task
    std::vector<traces::ActiveIntervals> active_;  ///< indexed by component
};

/// Course of a schedule, indexed like BoundProgram::tasks.
struct Course {
    double cycles = 0;
    std::vector<uint64_t> instances;  ///< number of times that each came
    /// Own cycles of computations, in all: what no other task of the unit shares.
    std::vector<double> own_cycles;
    std::array<double, traces::component_count> on{};
};

/// Estimates the energy; all 0 where the table does not describe the device (platforms/energy.md).
Energy energy_of(const BoundProgram& program, const compiler::Target& target, const Course& course,
                 const std::map<uint32_t, kernels::Work>& launches);

}  // namespace kpu::estimate
