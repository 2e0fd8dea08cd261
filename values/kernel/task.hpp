#pragma once

#include <vector>

#include "values/compute.hpp"
#include "values/kernel/launch.hpp"

namespace kpu::values::kernel {

/// What a launch of a program runs on: copies of its operands, as they are now.
struct LaunchData {
    std::vector<std::vector<uint8_t>> buffers;  ///< of each buffer that is not workgroup memory, in order
    Grid grid{1, 1, 1};
    std::vector<uint64_t> scalars;

    std::vector<Bytes> storage();
};

/// Throws UserError: scalars and grids that do not fit.
LaunchData launch_data(const MemoryMap& memory, const BoundTask& task, const std::vector<RegionView>& inputs,
                       const std::vector<RegionView>& outputs, const LoopValues& loops);

/// Runs a launch, all of it, and gives what it leaves in its outputs. Throws SimulationError where the kernel fails
/// or goes beyond its limits.
LaunchResult evaluate_launch(const MemoryMap& memory, const BoundTask& task,
                             const std::vector<RegionView>& inputs, const std::vector<RegionView>& outputs,
                             const LoopValues& loops, const LaunchLimits& limits,
                             std::vector<PendingWrite>& writes);

/// Throws the error of a kernel that went beyond its limit.
[[noreturn]] void fail_limit(const Code& code, uint64_t steps);

}  // namespace kpu::values::kernel
