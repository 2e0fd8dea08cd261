#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "base/clock.hpp"
#include "execution/controller.hpp"
#include "model/sequencer/sequencer.hpp"
#include "model/sequencer/task_board.hpp"
#include "model/task/task_observer.hpp"
#include "model/unit/error_slot.hpp"

namespace kpu::model {

/// Conditions that end a call of the kernel early.
struct StopControl {
    bool at_task = false;                          ///< after the next completion
    const std::atomic<bool>* interrupt = nullptr;  ///< may be null
    // results
    bool task_completed = false;
    bool interrupted = false;
    bool finished = false;
    bool asked = false;  ///< set by Device::pause()
};

/// The last task that completed.
struct CompletedTask {
    uint32_t serial = traces::no_task;
    uint32_t statement = 0;
    LoopValues loops;
    uint16_t unit = traces::no_unit;
    Cycles start = 0, end = 0;
};

/// Joins the sequencers: waits until every request of an instant is in, takes them in one delta, and in the
/// next gives ready tasks to free units, earliest issued first. sequencer.md has the rules.
class TaskArbiter : public sc_core::sc_module, public ArbiterInterface, public execution::ControlListener {
  public:
    SC_HAS_PROCESS(TaskArbiter);
    struct Parts {
        const std::vector<traces::UnitInfo>* units = nullptr;
        std::vector<uint32_t> partner_bytes_per_cycle;  ///< indexed by engine: bytes per cycle of its DMAs
        std::vector<uint16_t> sequencer_units;          ///< unit ids
        Clock core{1};
        Cycles dispatch_cycles = 1;
        Cycles launch_cycles = 0;  ///< before the first dispatch of each sequencer
        const BoundProgram* program = nullptr;
        TaskBoard* board = nullptr;
        TaskObservers observers;
        StopControl* stop = nullptr;
        ErrorSlot* errors = nullptr;
    };
    TaskArbiter(const sc_core::sc_module_name& name, Parts parts);
    /// Connects the arbiter; called once, before the first step.
    void attach(execution::Controller& controller, std::vector<Sequencer*> sequencers);

    const char* kind() const override { return "task_arbiter"; }

    sc_core::sc_export<ArbiterInterface> requests;

    void task_completed(TaskCommand& command) override;
    void issue_free(TaskCommand& command) override;
    void product_wanted(const ProductRequest& request) override;
    void on_issue(execution::TaskInstance& task) override;
    void on_ready(execution::TaskInstance& task) override;

    const CompletedTask& last_completed() const { return last_; }
    const std::vector<TaskCommand*>& running() const { return running_; }
    /// Returns the completed instances of a statement.
    uint64_t completions(uint32_t statement) const {
        return statement < completions_.size() ? completions_[statement].count : 0;
    }
    /// Returns when the last of them completed.
    Cycles completed_at(uint32_t statement) const {
        return statement < completions_.size() ? completions_[statement].last : 0;
    }

  private:
    struct Placement {
        execution::TaskInstance* task = nullptr;
        uint16_t unit = traces::no_unit, partner = traces::no_unit;
        uint32_t sequencer = 0;
        const ProductRequest* product = nullptr;
    };
    /// A launch of a kernel that runs: units that are free join it as long as it has workgroups for them.
    struct Launch {
        execution::TaskInstance* task = nullptr;
        const TaskQueue* queue = nullptr;
        uint16_t first_unit = traces::no_unit;
        uint64_t most_units = 1;
        std::vector<uint16_t> units;  ///< that have it
        std::shared_ptr<values::kernel::SharedLaunch> shared;
    };
    void wake();
    void arbitrate();
    static bool requests_may_come();
    void collect();
    bool complete(TaskCommand& command);
    void note_completion(const TaskCommand& command);
    void dispatch(Cycles now);
    bool place(const TaskQueue& wanted, Cycles now, Placement& best) const;
    uint16_t free_array(const ProductRequest& request) const;
    void place_product(Cycles now, Placement& best) const;
    void start(const Placement& placement, Cycles now);
    void give(const Placement& placement, const Launch* launch, Cycles now);
    bool may_join(const Launch& launch, uint16_t unit) const;
    bool join(Cycles now);
    bool leave(const TaskCommand& command);
    uint32_t sequencer_of(const TaskQueue& wanted, uint16_t unit) const;
    Cycles next_dispatch() const;
    template <class Call>
    void tell(Call call) {
        for (TaskObserver* observer : parts_.observers) call(*observer);
    }

    Parts parts_;
    execution::Controller* controller_ = nullptr;
    std::vector<Sequencer*> sequencers_;
    bool started_ = false;
    std::vector<uint32_t> load_;         ///< tasks running on each engine
    std::vector<Cycles> dispatch_free_;  ///< indexed by sequencer
    std::vector<TaskCommand*> completed_, freed_;
    std::vector<TaskCommand*> done_;  ///< only within collect(): its memory is kept
    std::vector<TaskCommand*> running_;
    std::vector<const ProductRequest*> products_;  ///< that no array has yet
    std::vector<Launch> launches_;                 ///< in order of start
    CompletedTask last_;
    struct Completions {
        uint64_t count = 0;
        Cycles last = 0;
    };
    std::vector<Completions> completions_;  ///< indexed by statement, as far as needed
    sc_core::sc_event arbitrate_;
};

}  // namespace kpu::model
