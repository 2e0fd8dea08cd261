#pragma once

#include <array>
#include <memory>
#include <vector>

#include "execution/controller.hpp"
#include "model/accounting/device_timeline.hpp"
#include "model/accounting/energy_booking.hpp"
#include "model/accounting/execution.hpp"
#include "model/accounting/segment.hpp"
#include "model/accounting/waiting.hpp"
#include "model/accounting/work_counts.hpp"
#include "model/accounting/work_table.hpp"
#include "model/sequencer/task_board.hpp"
#include "model/unit/command_protocol.hpp"
#include "platforms/platform.pb.h"
#include "traces/event.hpp"
#include "traces/writers.hpp"

namespace kpu::model {

/// Gives every core cycle of every task unit one cause. accounting.md has the rules. Executing units are
/// charged at completion, when their time is known; the others whenever time moves, from the state before it
/// does.
class Accounting {
  public:
    struct Parts {
        const BoundProgram* program = nullptr;
        const proto::Platform* platform = nullptr;
        const std::vector<traces::UnitInfo>* units = nullptr;  ///< of the device, the device's own row last
        const TaskBoard* board = nullptr;
        Clock core{1};
        traces::EventSink* sink = nullptr;       ///< may be null
        traces::EnergyLedger* ledger = nullptr;  ///< may be null
    };
    explicit Accounting(const Parts& parts);
    void attach(const execution::Controller& controller) { waiting_.attach(controller); }
    bool traces() const { return parts_.sink != nullptr; }

    /// Time reaches `now`, and nothing that happens at `now` has happened yet.
    void advance(Cycles now);
    void issued(const execution::TaskInstance& task);
    void ready(const execution::TaskInstance& task);
    void started(const TaskCommand& command);
    void completed(const TaskCommand& command);
    /// Entries of a sequencer's token table that are taken from now on; for the trace.
    void tokens(uint16_t sequencer_unit, uint32_t count);
    /// A sequencer is busy over [from, to).
    void dispatched(uint16_t sequencer_unit, Cycles from, Cycles to);

    /// Closes every row at `end`; `running`: tasks that will not complete.
    void finish(Cycles end, const std::vector<TaskCommand*>& running);

    /// What the DRAM did of its own accord: energy of no operation.
    void dram_background(const DramCounters& all, Cycles end) {
        if (energy_) energy_->dram_background(all, end);
    }

    // After finish:
    Cycles cycles(uint16_t unit, traces::Cause cause) const {
        return accounts_[unit].cycles[static_cast<size_t>(cause)];
    }
    const DeviceTimeline& device() const { return *device_; }
    std::vector<traces::OpRow> op_rows() const;  ///< the background last
    const WorkCounts& work() const { return work_; }
    /// What the traced tasks did: index = value of their work records; hops are left to the device.
    const WorkTable& work_table() const { return work_table_; }
    Cycles unattributed() const;

    /// What a unit does at cycle `now`, at which the run stopped; `running`: the tasks that execute.
    struct Now {
        traces::Cause cause;
        uint32_t task = traces::no_task;
    };
    Now state_of(uint16_t unit, Cycles now, const std::vector<TaskCommand*>& running) const;

  private:
    struct Account {
        /// Not yet counted, in time order without gaps; the first one is not done.
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
        uint64_t macs = 0;
        uint64_t bytes[3] = {0, 0, 0};
    };
    void wait(uint16_t unit, Cycles until);
    void append(uint16_t unit, Segment segment);
    void flush(uint16_t unit);
    void count(uint16_t unit, const Segment& segment);
    void settle_execution(uint16_t unit, const TaskReport& report, uint32_t serial);
    void settle_waits(const TaskReport& report, uint32_t serial);
    void settle(uint16_t unit, size_t index, const Pieces& pieces);
    void trace_bytes(uint16_t unit, const TaskReport& report);
    void count_work(const TaskCommand& command);
    void trace_queues();
    void trace_counter(traces::CounterId counter, uint16_t unit, uint64_t time_ps, uint64_t value);
    void settle_device();
    void trace_work(const TaskCommand& command);
    traces::Event event_of(traces::EventKind kind, uint32_t task, uint32_t op) const;
    void record(traces::EventKind kind, uint16_t unit, uint32_t task, uint32_t op, int64_t value);
    OpAccount& op_account(uint32_t op) { return ops_[std::min<size_t>(op, ops_.size() - 1)]; }

    Parts parts_;
    Waiting waiting_;
    WorkCounts work_;
    WorkTable work_table_;
    std::unique_ptr<EnergyBooking> energy_;
    std::vector<Account> accounts_;
    /// Units that some task of the program may take. The others have nothing to do all the time: they cost
    /// nothing.
    std::vector<uint16_t> able_, unable_;
    std::vector<OpAccount> ops_;  ///< the background last
    std::unique_ptr<DeviceTimeline> device_;
    Cycles now_ = 0;
    uint32_t completing_ = traces::no_task;  ///< the task that completed last
    std::vector<uint64_t> moved_;            ///< by unit: bytes, for the trace
    std::vector<uint32_t> tokens_;           ///< by unit: as recorded last
    std::vector<uint64_t> queued_;           ///< by unit: the same
};

}  // namespace kpu::model
