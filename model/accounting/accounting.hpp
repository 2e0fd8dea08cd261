#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/accounting/device_timeline.hpp"
#include "model/accounting/energy_booking.hpp"
#include "model/control/controller.hpp"
#include "model/sequencer/task_board.hpp"
#include "model/worker/command_protocol.hpp"
#include "platforms/platform.pb.h"
#include "traces/event.hpp"
#include "traces/stats.hpp"
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
    void attach(const control::Controller& controller) { controller_ = &controller; }

    /// Time reaches `now`, and nothing that happens at `now` has happened yet.
    void advance(Cycles now);
    void issued(const control::TaskInstance& task);
    void ready(const control::TaskInstance& task);
    void started(const TaskCommand& command);
    void completed(const TaskCommand& command);
    /// Entries of a sequencer's token table that are taken from now on; for the trace.
    void tokens(uint16_t sequencer_unit, uint32_t count);
    /// A sequencer is busy over [from, to).
    void dispatched(uint16_t sequencer_unit, Cycles from, Cycles to);

    /// Closes every row at `end`; `running`: tasks that will not complete.
    void finish(Cycles end, const std::vector<TaskCommand*>& running);

    /// DRAM refreshes of the whole run: energy of no operation.
    void refreshed(uint64_t count, Cycles end) {
        if (energy_) energy_->refreshes(count, end);
    }

    // After finish:
    Cycles cycles(uint16_t unit, traces::Cause cause) const {
        return accounts_[unit].cycles[static_cast<size_t>(cause)];
    }
    const DeviceTimeline& device() const { return *device_; }
    std::vector<traces::OpRow> op_rows() const;  ///< the background last
    uint64_t macs() const;
    /// sum over types of MACs / MACs per cycle of all arrays of the device
    double compute_cycles_at_peak() const;
    uint64_t bytes(Level level, bool read) const { return bytes_[static_cast<size_t>(level)][read ? 0 : 1]; }
    /// Scratchpads have no cache. Hits: accesses of what asks this level first that it served (of L1: operand
    /// reads of compute tasks; of L2: reads by or for the engines); misses: those served from below it.
    uint64_t hits(Level level) const { return hits_[static_cast<size_t>(level)]; }
    uint64_t misses(Level level) const { return misses_[static_cast<size_t>(level)]; }
    Cycles unattributed() const;

    /// What a unit does at this instant; for the state of a stopped run.
    struct Now {
        traces::Cause cause;
        uint32_t task = traces::no_task;
    };
    Now state_of(uint16_t unit) const;

  private:
    struct Segment {
        enum class Kind : uint8_t { done, executing, on_transfer };
        Cycles from = 0, to = 0;
        traces::Cause cause = traces::Cause::unattributed;
        Kind kind = Kind::done;
        bool work = false;                ///< part of an executing task
        uint32_t task = traces::no_task;  ///< executing or waiting
        uint32_t op = traces::background_op;
        uint32_t transfer = traces::no_task;  ///< on_transfer: whose limiter decides
        int64_t blame = traces::blame_none;
    };
    struct Account {
        std::deque<Segment> open;  ///< not yet counted, in time order without gaps
        std::array<Cycles, traces::cause_count> cycles{};
        uint64_t carry_q16 = 0,
                 move_carry_q16 = 0;  ///< work and bytes done and not yet counted as a useful cycle
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
        double peak_cycles = 0;
        uint64_t bytes[3] = {0, 0, 0};
    };
    using Pieces = std::vector<Segment>;

    Segment waiting_cause(uint16_t unit) const;
    Segment cause_of_wait(const control::TaskInstance& task) const;
    void append(uint16_t unit, Segment segment);
    void flush(uint16_t unit);
    void count(uint16_t unit, const Segment& segment);
    void settle_execution(uint16_t unit, const TaskReport& report, uint32_t serial, uint32_t op);
    Pieces compute_pieces(Account& account, const TaskReport& report) const;
    Pieces mover_pieces(Account& account, const TaskReport& report) const;
    void settle_waits(const TaskReport& report, uint32_t serial);
    void replace(std::deque<Segment>& open, size_t index, const Pieces& pieces);
    void count_streams(const TaskCommand& command);
    void count_hits(const StreamUse& use, bool mover);
    void trace_bytes(uint16_t unit, const TaskReport& report);
    void count_work(const TaskCommand& command);
    void settle_device();
    void record(traces::EventKind kind, uint16_t unit, uint32_t task, uint32_t op, int64_t value);
    OpAccount& op_account(uint32_t op) { return ops_[std::min<size_t>(op, ops_.size() - 1)]; }

    Parts parts_;
    const control::Controller* controller_ = nullptr;
    std::unique_ptr<EnergyBooking> energy_;
    std::vector<Account> accounts_;
    std::vector<OpAccount> ops_;  ///< the background last
    std::unique_ptr<DeviceTimeline> device_;
    Cycles now_ = 0;
    struct TypeWork {
        uint64_t macs = 0;
        uint64_t peak_q16 = 0;  ///< of all arrays
    };
    std::map<std::string, TypeWork> by_type_;
    uint64_t bytes_[3][2] = {};
    uint64_t hits_[3] = {}, misses_[3] = {};
    std::vector<uint64_t> moved_;   ///< by unit: bytes, for the trace
    std::vector<uint32_t> tokens_;  ///< by unit: as recorded last
};

/// What a consumer that waits for data is charged when its stream is limited by `cause`.
traces::Cause stall_of(traces::Cause limiter);

}  // namespace kpu::model
