#pragma once

#include <array>
#include <memory>
#include <vector>

#include "model/accounting/device_timeline.hpp"
#include "model/accounting/execution.hpp"
#include "model/accounting/segment.hpp"
#include "model/accounting/waiting.hpp"
#include "model/accounting/work_counts.hpp"
#include "model/sequencer/task_board.hpp"
#include "model/task/task_observer.hpp"
#include "traces/event.hpp"
#include "traces/writers.hpp"

namespace kpu::model {

/// Gives every core cycle of every task unit one cause. accounting.md has the rules. Executing units are
/// charged at completion, when their time is known; the others whenever time moves, from the state before it
/// does.
class Accounting : public TaskObserver {
  public:
    struct Parts {
        const BoundProgram* program = nullptr;
        /// Units of the device, the device's own row last.
        const std::vector<traces::UnitInfo>* units = nullptr;
        const TaskBoard* board = nullptr;
        Clock core{1};
        traces::EventSink* sink = nullptr;  ///< may be null
    };
    explicit Accounting(const Parts& parts);
    void attach(const execution::Controller& controller) { waiting_.attach(controller); }

    void advanced(Cycles now) override;
    void issued(const execution::TaskInstance& task) override;
    void dispatched(uint16_t sequencer_unit, Cycles from, Cycles to) override;
    void started(const TaskCommand& command) override;
    void completed(const TaskCommand& command) override;
    /// Closes every row.
    void finished(Cycles end, const std::vector<TaskCommand*>& running) override;

    // After finished():
    Cycles cycles(uint16_t unit, traces::Cause cause) const {
        return accounts_[unit].cycles[static_cast<size_t>(cause)];
    }
    const DeviceTimeline& device() const { return *device_; }
    std::vector<traces::OpRow> op_rows(const WorkCounts& work) const;  ///< the background last
    Cycles unattributed() const;

    /// Activity of a unit at cycle `now`, at which the run stopped; `running`: the tasks that execute.
    struct Now {
        traces::Cause cause;
        uint32_t task = traces::no_task;
    };
    Now state_of(uint16_t unit, Cycles now, const std::vector<TaskCommand*>& running) const;

  private:
    struct Account {
        /// Segments not yet counted, in time order without gaps; the first one is not done.
        std::vector<Segment> open;
        std::array<Cycles, traces::cause_count> cycles{};
        WorkCarry carry;
        int executing = 0;
        bool ever = false;
        bool tasks = false, compute = false;
        Cycles known_to = 0;  ///< end of the last segment
        traces::Cause recorded = traces::Cause::unattributed;
        uint32_t recorded_task = traces::no_task;
        int64_t recorded_blame = traces::blame_none;
    };
    struct OpAccount {
        Cycles first = ~Cycles{0}, last = 0;
        std::array<Cycles, traces::unit_cause_count> causes{};
    };
    void wait(uint16_t unit, Cycles until);
    void append(uint16_t unit, Segment segment);
    void flush(uint16_t unit);
    void count(uint16_t unit, const Segment& segment);
    void record(uint16_t unit, const Segment& segment);
    void settle_task(const TaskCommand& command);
    void settle_execution(uint16_t unit, const TaskCommand& command);
    void settle_waits(const TaskCommand& command);
    void settle(uint16_t unit, size_t index, const Pieces& pieces);
    void settle_device();
    OpAccount& op_account(uint32_t op) { return ops_[std::min<size_t>(op, ops_.size() - 1)]; }

    Parts parts_;
    Waiting waiting_;
    std::vector<Account> accounts_;
    /// Units that some task of the program may take. The others have nothing to do all the time: they cost
    /// nothing.
    std::vector<uint16_t> able_, unable_;
    std::vector<OpAccount> ops_;  ///< the background last
    std::unique_ptr<DeviceTimeline> device_;
    Cycles now_ = 0;
};

}  // namespace kpu::model
