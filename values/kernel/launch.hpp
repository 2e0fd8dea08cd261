#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "values/kernel/batch.hpp"

namespace kpu::values::kernel {

using Grid = std::array<uint64_t, 3>;
constexpr uint64_t max_workgroups = uint64_t{1} << 48;

/// The workgroups that a launch without `grid` has: as many invocations as its outputs have elements, and its
/// inputs too where it has no output, uses workgroup memory or atomics. `elements`: of each buffer that is not
/// workgroup memory, in order.
Grid inferred_grid(const Code& code, const std::vector<uint64_t>& elements);
/// Throws UserError: a grid of nothing, or of more invocations than u32 ids have room for.
void check_grid(const Code& code, const Grid& grid);

struct LaunchLimits {
    uint64_t steps = UINT64_MAX;  ///< lane-statements
    const std::atomic<bool>* interrupt = nullptr;
    class StepObserver* observer = nullptr;  ///< of run_launch: told of each statement
};

struct LaunchResult {
    bool complete = true;  ///< else a limit was reached, or it was interrupted
    uint64_t steps = 0;    ///< lane-statements executed
    std::vector<OutsideAccess> outside;
};

/// A launch that is executed a statement at a time, for all lanes that stand there: workgroup after workgroup, x
/// fastest.
class Launch {
  public:
    /// Clears the buffers that start as zeros. Throws UserError for what is wrong with the launch.
    Launch(const Code& code, const Grid& grid, const std::vector<uint64_t>& scalars,
           const std::vector<Bytes>& storage);

    void observe(StepObserver* observer) { batch_.observe(observer); }
    bool done() const { return workgroup_ == workgroups_; }
    /// Executes a statement, in a FloatEnvironment. Throws SimulationError for what the kernel does.
    void step();
    const Batch& batch() const { return batch_; }
    const Code& code() const { return code_; }
    uint64_t steps() const { return steps_; }  ///< lane-statements so far
    std::vector<OutsideAccess> outside() const { return memory_.outside(); }

  private:
    void begin_next();

    const Code& code_;
    const Grid grid_;
    Memory memory_;
    Batch batch_;
    uint64_t workgroup_ = 0, workgroups_ = 0;  ///< that runs, of all
    uint64_t steps_ = 0;
};

/// Runs all workgroups, x fastest, on `storage` (one for each buffer that is not workgroup memory). Those that
/// start as zeros are cleared before. Throws UserError for what is wrong with the launch, SimulationError for what
/// the kernel does.
LaunchResult run_launch(const Code& code, const Grid& grid, const std::vector<uint64_t>& scalars,
                        const std::vector<Bytes>& storage, const LaunchLimits& limits = {});
/// The same, by the interpreter.
LaunchResult run_reference(const Code& code, const Grid& grid, const std::vector<uint64_t>& scalars,
                           const std::vector<Bytes>& storage, const LaunchLimits& limits = {});

}  // namespace kpu::values::kernel
