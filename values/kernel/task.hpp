#pragma once

#include <map>
#include <optional>
#include <vector>

#include "values/compute.hpp"
#include "values/kernel/launch.hpp"

namespace kpu::values::kernel {

/// Operands of a launch in a program.
class LaunchOperands {
  public:
    /// Target of the kernel's loads and stores: copies of the operands as they are now, or the bytes of the
    /// memory themselves. Operands with gaps, in memories without bytes, or of which only a part is an output
    /// are copies either way.
    enum class Access { copies, in_place };
    /// Throws UserError: scalars that do not fit.
    LaunchOperands(MemoryMap& memory, const BoundTask& task, const std::vector<RegionView>& inputs,
                   const std::vector<RegionView>& outputs, const LoopValues& loops, Access access);

    const Grid& grid() const { return grid_; }
    const std::vector<uint64_t>& scalars() const { return scalars_; }
    const std::vector<Bytes>& storage() const { return storage_; }
    /// False: some memory has no bytes, and zeros stand for them.
    bool has_values() const { return has_values_; }
    /// Takes the contents of the outputs' copies, in their order.
    std::vector<PendingWrite> take_results();

  private:
    void take_operand(size_t place, const CodeBuffer& buffer, Access access);
    void keep_outside_range(const CodeBuffer& buffer, std::vector<uint8_t>& bytes,
                            const RegionView& view) const;

    MemoryMap& memory_;
    const BoundTask& task_;
    const std::vector<RegionView>&inputs_, &outputs_;
    /// Indexed by buffer that is not workgroup memory; empty: in place.
    std::vector<std::vector<uint8_t>> copies_;
    std::vector<Bytes> storage_;
    Grid grid_{1, 1, 1};
    std::vector<uint64_t> scalars_;
    bool has_values_ = true;
};

/// Returns the workgroups that a launch has, known without its operands' values. At most UINT32_MAX.
uint64_t workgroups_of(const BoundProgram& program, const BoundTask& task, const LoopValues& loops);

/// A launch on several units: made by the one that begins first.
struct SharedLaunch {
    std::optional<LaunchOperands> operands;
    std::optional<LaunchWork> work;
    unsigned workers = 0;  ///< units that have it
    /// Indexed by engine: places for workgroup memory that are taken.
    std::map<uint16_t, std::vector<bool>> rooms;
};

/// A kernel went beyond its limit of steps.
class StepLimitError : public SimulationError {
  public:
    using SimulationError::SimulationError;
};

/// Someone interrupted a kernel, of which nothing is left then: it can be run again.
class LaunchInterrupted : public std::exception {
  public:
    const char* what() const noexcept override { return "a kernel was interrupted"; }
};

/// Runs a launch, all of it, and gives what it leaves in its outputs. Throws SimulationError where the kernel fails,
/// StepLimitError where it goes beyond its limit, LaunchInterrupted.
LaunchResult evaluate_launch(MemoryMap& memory, const BoundTask& task, const std::vector<RegionView>& inputs,
                             const std::vector<RegionView>& outputs, const LoopValues& loops,
                             const LaunchLimits& limits, std::vector<PendingWrite>& writes);

}  // namespace kpu::values::kernel
