#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "execution/controller.hpp"
#include "execution/data_path.hpp"
#include "execution/run_status.hpp"
#include "isa/bound_program.hpp"
#include "values/compute.hpp"
#include "values/memory_image.hpp"

namespace kpu::execution {

struct FunctionalOptions {
    /// Each task draws a rank from `seed` when it becomes ready, and the lowest goes first: so a task may be
    /// left for a whole run, which shows a missing dependency sooner than an even choice. Else the earliest
    /// issued.
    bool random_order = false;
    uint64_t seed = 0;
    uint64_t max_tasks = UINT64_MAX;  ///< limit over the whole life of the driver
    uint32_t num_engines = 1;
    uint64_t kernel_steps = UINT64_MAX;  ///< lane-statements of one launch of a kernel
    bool report_hazards = true;  ///< races by the order that the program guarantees, reads of unwritten bytes
};

/// Runs a program without a model of time: each task at once and alone, in any order that the tokens allow.
/// The token table does not limit it. Values are those of a timed run whenever the program has no hazards.
class FunctionalDriver : private ControlListener {
  public:
    /// The task that completed last, for stepping.
    struct Completed {
        uint32_t serial = 0;
        uint32_t statement = 0;
        LoopValues loops;
    };

    /// The caller has written inputs and data to `memory`; it and `backend` outlive the driver.
    FunctionalDriver(const BoundProgram& program, values::MemoryImage& memory,
                     values::ComputeBackend& backend, const FunctionalOptions& options);

    /// Runs at most `tasks` tasks; `interrupt` (may be null) is looked at before each, and in
    /// kernels. Throws UserError and
    /// SimulationError as the controller and the arithmetic do.
    RunStatus run(uint64_t tasks = UINT64_MAX, const std::atomic<bool>* interrupt = nullptr);

    const Controller& controller() const { return controller_; }
    const HazardLog& hazards() const { return data_.hazards(); }
    Diagnostics findings() const { return data_.findings(); }
    std::vector<values::Executor::Results> results() const { return data_.results(); }  ///< indexed by task
    uint64_t completed() const { return controller_.completed_count(); }
    const Completed& last_completed() const { return last_; }  ///< after at least one task
    /// Returns the most tasks issued and not complete at one time, by engine: entries of a token table
    /// without limit.
    const std::vector<uint32_t>& peak_tokens() const { return peak_tokens_; }
    /// Executions of each task of the program so far, parallel to BoundProgram::tasks.
    const std::vector<uint64_t>& executions() const { return executions_; }
    /// Returns the multiply-accumulates and bytes of all executions so far.
    TaskTraffic total_traffic() const;

  private:
    void on_issue(TaskInstance&) override {}
    void on_ready(TaskInstance& instance) override;
    TaskInstance& start_next();
    void note_tokens();

    struct Ready {
        uint64_t rank = 0;
        TaskInstance* instance = nullptr;
        bool operator<(const Ready& other) const {
            return rank != other.rank ? rank > other.rank : instance->serial > other.instance->serial;
        }
    };

    const BoundProgram& program_;
    const FunctionalOptions options_;
    SplitMix64 random_;
    bool started_ = false;
    std::vector<Ready> ready_;        ///< a heap, the next one on top
    TaskInstance* halted_ = nullptr;  ///< the one that started and was interrupted; it goes on first
    std::vector<uint64_t> executions_;
    std::vector<uint32_t> peak_tokens_;
    Completed last_;
    Controller controller_;
    DataPath data_;
};

}  // namespace kpu::execution
