#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "values/kernel/races.hpp"
#include "values/kernel/tiles/tile_machine.hpp"

namespace kpu::values::kernel {

using Grid = std::array<uint64_t, 3>;
constexpr uint64_t max_workgroups = uint64_t{1} << 48;

/// Returns the workgroups that a launch without `grid` has: as many invocations as its outputs have elements,
/// and its inputs too where it has no output, uses workgroup memory or atomics. `elements`: of each buffer
/// that is not workgroup memory, in order.
Grid inferred_grid(const Code& code, const std::vector<uint64_t>& elements);
/// Throws UserError: a grid of nothing, or of more invocations than u32 ids have room for.
void check_grid(const Code& code, const Grid& grid);

struct LaunchLimits {
    uint64_t steps = UINT64_MAX;  ///< lane-statements
    const std::atomic<bool>* interrupt = nullptr;
    bool interrupted() const { return interrupt != nullptr && interrupt->load(std::memory_order_relaxed); }
    class StepObserver* observer = nullptr;  ///< for run_launch: told of each statement
    bool races = false;                      ///< for run_launch: look for races
    uint64_t order_seed = 0;                 ///< for run_launch: other than 0: workgroups in a shuffled order
};

struct LaunchResult {
    bool complete = true;  ///< else a limit was reached, or it was interrupted
    uint64_t steps = 0;    ///< lane-statements executed
    Grid grid{1, 1, 1};
    std::vector<OutsideAccess> outside;
    std::vector<KernelRace> races;
    unsigned workers = 0;             ///< units that executed workgroups of it
    std::vector<uint32_t> unwatched;  ///< buffers that are too large to look for races in
};

/// The workgroups of a launch, which its workers take one after the other, x fastest.
class LaunchWork {
  public:
    /// Clears the buffers of `storage` (one for each buffer that is not workgroup memory) that start as zeros. Throws
    /// UserError for what is wrong with the launch.
    LaunchWork(const Code& code, const Grid& grid, const std::vector<uint64_t>& scalars,
               const std::vector<Bytes>& storage, bool races);

    /// Shuffles the order from now on.
    void shuffle(uint64_t seed);
    /// Runs on operands that have no values: where copies begin that depends on them is anywhere, chosen by
    /// this number.
    void without_values(uint64_t seed) { without_values_ = seed; }
    bool left() const { return next_ < workgroups_; }
    uint64_t take() { return order_.empty() ? next_++ : order_[next_++]; }
    const Code& code() const { return code_; }
    /// Returns the result of all workers so far.
    LaunchResult result() const;

  private:
    friend class LaunchWorker;
    const Code& code_;
    const Grid grid_;
    const std::vector<uint64_t> scalars_;
    const std::vector<Bytes> storage_;
    uint64_t next_ = 0, workgroups_ = 0;
    std::vector<uint64_t> order_;  ///< empty: as they are counted
    std::optional<RaceShadow> shadow_;
    bool watches_copies_ = false;  ///< rule set xla
    std::optional<uint64_t> without_values_;
    std::vector<KernelRace> copy_races_;  ///< races of workers that have ended
    std::vector<OutsideAccess> outside_;  ///< accesses of workers that have ended
    uint64_t steps_ = 0;
    unsigned workers_ = 0;  ///< that took a workgroup
};

/// Executes workgroups of a launch a statement at a time, for all lanes that stand there; of rule set xla, the one
/// invocation.
class LaunchWorker {
  public:
    explicit LaunchWorker(LaunchWork& work);
    ~LaunchWorker();
    LaunchWorker(const LaunchWorker&) = delete;
    LaunchWorker& operator=(const LaunchWorker&) = delete;

    void observe(StepObserver& observer);
    bool done() const { return done_; }  ///< no workgroup is left
    /// Adds what happened outside of buffers to the launch; called at the end without a call of its own.
    void stop();
    /// Executes a statement, in a FloatEnvironment. Throws SimulationError for what the kernel does.
    void step();
    uint32_t statement() const {
        return tiles_ ? tiles_->statement() : batch_->statement();
    }  ///< that step() executes
    uint32_t active() const { return tiles_ ? 1 : batch_->active(); }
    const Batch& batch() const { return *batch_; }  ///< rule set gpu
    /// Returns the contents of a buffer.
    Bytes bytes(uint32_t buffer) const { return tiles_ ? tiles_->bytes(buffer) : memory_->bytes(buffer); }
    bool has_tiles() const { return tiles_.has_value(); }
    TileMachine& tiles() { return *tiles_; }  ///< rule set xla
    const TileMachine& tiles() const { return *tiles_; }
    const Code& code() const { return work_.code_; }

  private:
    void execute();
    void begin_next();

    LaunchWork& work_;
    std::optional<Memory> memory_;
    std::optional<Batch> batch_;
    std::optional<RaceWatch> watch_;
    std::optional<TileMachine> tiles_;
    bool took_ = false, done_ = false;
};

/// Runs all workgroups, x fastest, on `storage` (one for each buffer that is not workgroup memory). Those that
/// start as zeros are cleared before. Throws UserError for what is wrong with the launch, SimulationError for what
/// the kernel does.
LaunchResult run_launch(const Code& code, const Grid& grid, const std::vector<uint64_t>& scalars,
                        const std::vector<Bytes>& storage, const LaunchLimits& limits = {});
/// Returns the same, by the interpreter.
LaunchResult run_reference(const Code& code, const Grid& grid, const std::vector<uint64_t>& scalars,
                           const std::vector<Bytes>& storage, const LaunchLimits& limits = {});

}  // namespace kpu::values::kernel
