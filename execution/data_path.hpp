#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "execution/controller.hpp"
#include "execution/hazards.hpp"
#include "execution/race_history.hpp"
#include "isa/bound_program.hpp"
#include "values/compute.hpp"
#include "values/memory_image.hpp"

namespace kpu::execution {

/// Effects of running tasks on memory, for both drivers.
///
/// A task sees its inputs as of its start and publishes all outputs at its completion. To compute less, it is
/// evaluated late: at its completion, or just before another task's outputs replace what it reads.
///
/// Two hazards are reported. A read of bytes that nobody wrote; and a race: two accesses to common bytes, one
/// of them a write, in an order that nothing guarantees, found when the later one starts. A program with more
/// than ScheduleOrder::max_tasks statements in loops has only those races found whose tasks are in flight together.
class DataPath {
  public:
    /// memory and backend null: timing mode, no values; what is written is then followed without bytes, and
    /// the inputs and data of the program count as written. With values, the caller writes inputs and data to
    /// `memory`.
    DataPath(const BoundProgram& program, values::MemoryImage* memory, values::ComputeBackend* backend,
             bool report_hazards);
    ~DataPath();

    /// Prepares, before the first task, how its races are found, which takes its time for long programs.
    /// False: it was interrupted, and may be asked for again.
    bool prepare(const std::atomic<bool>* interrupt);

    /// Reports the start of a task. Report the completions of an instant before its starts. `through`: how
    /// its unit reaches the memory, until the task is complete; null: the memory itself. A unit executes
    /// kernels itself, statement by statement.
    void task_started(const TaskInstance& instance, values::MemoryMap* through = nullptr);
    /// Publishes a task's outputs. Called before Controller::completed(), while the instance is valid. Throws
    /// UserError from the arithmetic. `launch`: what a kernel did that its unit executed.
    void task_completed(const TaskInstance& instance, const values::kernel::LaunchResult* launch = nullptr);

    const HazardLog& hazards() const { return log_; }
    /// Returns what kernels did outside of their buffers.
    Diagnostics findings() const { return executor_ ? executor_->findings() : Diagnostics(); }
    /// Returns the results of each task; empty without values.
    std::vector<values::Executor::Results> results() const {
        return executor_ ? executor_->results() : std::vector<values::Executor::Results>();
    }
    /// Limits the lane-statements that one launch of a kernel may execute.
    void limit_kernels(uint64_t steps) {
        if (executor_) executor_->limit_kernels(steps);
    }
    /// Sets what kernels look at while they run; task_completed() throws LaunchInterrupted then, and may be
    /// called again.
    void interrupt_kernels(const std::atomic<bool>* interrupt) {
        if (executor_) executor_->interrupt_kernels(interrupt);
    }

  private:
    struct Operand {
        const BoundRegion* region = nullptr;
        values::Footprint bytes;
        uint64_t end = 0;
    };
    /// An occurrence that may turn out to be benign when its writer commits.
    struct Conflict {
        size_t finding = 0;
        uint32_t other = 0;       ///< serial of the other task
        bool both_write = false;  ///< decided by the commit that comes last
    };
    struct InFlight {
        const TaskInstance* instance = nullptr;
        values::MemoryMap* memory = nullptr;  ///< that its bytes are read from and written to
        std::vector<Operand> inputs, outputs;
        std::vector<Conflict> conflicts;  ///< in which this task is a writer
        bool contended = false;  ///< another task in flight reads what this one writes, or writes the same
        bool evaluated = false;
        bool elsewhere = false;  ///< a kernel that its unit executes: its bytes change all the time
        std::vector<values::PendingWrite> pending;
    };

    void fill(std::vector<Operand>& operands, const std::vector<values::RegionView>& views) const;
    void check_against(InFlight& later, InFlight& earlier);
    void note(HazardKind kind, InFlight& later, InFlight& earlier, const Operand& a, const Operand& b);
    void follow_races(const std::atomic<bool>* interrupt);
    void find_races(InFlight& task);
    void check_written(const InFlight& task, const Operand& input);
    void publish(InFlight& task);
    void fix_inputs(InFlight& task);
    void note_races(const TaskInstance& instance, const values::kernel::LaunchResult* launch);
    static bool reads_of(const InFlight& reader, const InFlight& writer);
    void evaluate(InFlight& task);
    bool changes_nothing(const InFlight& task);
    void settle_conflicts(const InFlight& task, bool benign);
    void mark_written(const Operand& output);
    values::MemoryImage& written() { return memory_ ? *memory_ : *shadow_; }

    const BoundProgram& program_;
    values::MemoryImage* memory_;
    std::optional<values::MemoryImage> shadow_;  ///< timing mode: only its written map is used
    std::optional<values::Executor> executor_;
    bool report_;
    HazardLog log_;
    bool prepared_ = false;
    std::optional<RaceHistory> history_;  ///< none: only tasks in flight together are compared
    std::vector<RaceHistory::Operand> reads_, writes_;
    std::vector<Race> races_;
    std::vector<values::Footprint> shapes_;           ///< indexed by region, at address 0
    std::vector<std::unique_ptr<InFlight>> running_;  ///< in order of start
    std::vector<std::unique_ptr<InFlight>> spare_;
    std::vector<uint8_t> scratch_;
};

/// Bytes that one execution of a task moves per level, and its multiply-accumulates.
struct TaskTraffic {
    uint64_t macs = 0;
    std::array<uint64_t, 3> read{}, written{};  ///< indexed by Level
};
TaskTraffic traffic_of(const BoundProgram& program, const BoundTask& task);

}  // namespace kpu::execution
