#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"
#include "isa/unit_kind.hpp"

namespace kpu::traces {

/// Cause of a unit's state. Names are group.cause, as in stats.json and the VCD.
enum class Cause : uint8_t {
    busy_useful,
    busy_fill_drain,
    busy_padding,
    busy_overhead,
    stalled_structural,
    stalled_backpressure,
    stalled_configuration,
    stalled_dependency,
    stalled_issue_window,
    stalled_operand_dram_bandwidth,
    stalled_operand_dram_latency,
    stalled_operand_dram_bank_conflict,
    stalled_operand_dram_turnaround,
    stalled_operand_dram_imbalance,
    stalled_refresh,
    stalled_operand_interconnect,
    stalled_operand_bank_conflict,
    stalled_operand_sram_access,
    stalled_dma_issue,
    idle_no_work,
    idle_finished,
    device_busy_compute,    ///< device only
    device_stalled_memory,  ///< device only
    device_idle_other,      ///< device only
    unattributed,           ///< must never be counted
};
constexpr int cause_count = 25;
std::string_view group_of(Cause cause);    ///< busy, stalled, idle
std::string_view name_of(Cause cause);     ///< useful, dependency, ...
std::string_view meaning_of(Cause cause);  ///< one sentence
/// Returns "group.cause", as in stats.json, the stall trace and the VCD.
std::string_view full_name_of(Cause cause);
/// True if the cause is one that only the device as a whole has.
constexpr bool is_device_cause(Cause cause) {
    return cause == Cause::device_busy_compute || cause == Cause::device_stalled_memory ||
           cause == Cause::device_idle_other;
}
/// Causes a unit can have: the first ones of the enumeration.
constexpr int unit_cause_count = 21;

struct UnitInfo {
    std::string name;  ///< e0_nmu0, e0_dma1, sdma0, ddr0, e0_l1, l2, link_sys, device
    UnitKind kind = UnitKind::device;
    int engine = -1;  ///< -1: device level
    int index = 0;
    /// Best work per core cycle: MACs of its base type, elements, bytes. 0: not known.
    double peak_per_cycle = 0;
    double area_mm2 = 0;  ///< area of its silicon; 0: not known
};

constexpr uint16_t no_unit = 0xffff;
constexpr uint32_t no_task = 0xffffffff;
/// `op` of work that belongs to no operation (refresh, idle work): the row `__background`.
constexpr uint32_t background_op = 0xffffffff;
constexpr std::string_view background_name = "__background";

/// Kinds of event records. `op` is the operation index (or background_op) in every record but `issue`.
enum class EventKind : uint8_t {
    issue,  ///< a task instance was issued: task, op = statement, value = innermost loop variable, cause = an
            ///< IssueCause, reserved = 1 + serial of the task whose completion let it be issued (0: none)
    loop,   ///< outer loop values of that instance: unit = depth (0 = outermost), value = loop variable
    ready,  ///< its tokens are satisfied; reserved as in issue: the task whose token was the last
    begin,  ///< unit starts executing task; value = engine of the sequencer that dispatched it
    end,    ///< unit completes task
    cause,  ///< unit's state from here on: cause, task = executing or waiting task (or none), value = blame.
            ///< Before its first record a unit is idle.no_work; of several at one time the last one counts.
    counter,  ///< unit's counter `cause` (a CounterId) has value from here on
    flow,     ///< token: task = consumer, value = producer task, cause = 1: of an earlier iteration
    op,       ///< task belongs to operation `op`: not written; op is in every record
    energy,   ///< value = count of action `unit` (an ActionId), spread over `duration()` core cycles from
              ///< time_ps; burner() is the unit that burns it
    active,   ///< component `unit` (a Component) does something for `duration()` core cycles from time_ps
    work,     ///< work of a task: value = index into RunInfo::works; at its end
    access,   ///< a request of `unit` comes to a memory: value = its address (isa/bus_address.hpp), cause = 0
              ///< read, 1 write, reserved = bytes. Only in recordings that have them (RunInfo::accesses)
    bank,  ///< a bank of the DRAM channel `unit` is used for task: value = the unit that asked, reserved = bank,
    ///< cause = BankUse::code(). Posted writes may be later than the end of the run. Only in recordings
    ///< that have accesses, of DRAM with controllers (RunInfo::dram_banks)
};
constexpr int event_kind_count = 14;

/// Event that held back the control thread which issued a task, until another task completed.
enum class IssueCause : uint8_t {
    start,   ///< nothing: the program began
    token,   ///< a wait, or a task that the text waits for (sync)
    table,   ///< the token table was full
    window,  ///< max_in_flight of a loop
    limit    ///< the simulator's own limit of live tasks
};
constexpr int issue_cause_count = 5;

/// queue_depth and tokens_in_flight keep their value until the next record. `bytes` is a running sum that grows
/// evenly from record to record, so a unit records it at the start and the end of every burst of activity.
/// power_mw is not written: power comes from the energy records.
enum class CounterId : uint8_t { queue_depth, tokens_in_flight, bytes, power_mw };
constexpr int counter_count = 4;

/// A record, 32 bytes, plain. Records of one unit are in time order; the whole log is sorted on output.
struct Event {
    uint64_t time_ps = 0;
    int64_t value = 0;
    uint32_t task =
        no_task;      ///< serial of the task instance, numbered from 0; energy, active: low half of duration
    uint32_t op = 0;  ///< operation index
    uint16_t unit = no_unit;
    EventKind kind = EventKind::cause;
    uint8_t cause = 0;  ///< Cause or CounterId
    uint32_t reserved =
        0;  ///< energy, active: see set_duration(); issue, ready, access, bank: see there; else 0
    /// Returns core cycles of an energy or active record: below 2^48.
    Cycles duration() const { return static_cast<Cycles>(reserved & 0xffff) << 32 | task; }
    /// Returns the unit that an energy record's energy goes to; no_unit: not known.
    uint16_t burner() const { return static_cast<uint16_t>((reserved >> 16) - 1); }
    /// Low half of the duration in `task`, the next 16 bits in `reserved`, above them 1 + the unit, 0: none.
    void set_duration(Cycles cycles, uint16_t burnt_by) {
        task = static_cast<uint32_t>(cycles);
        reserved = static_cast<uint32_t>(cycles >> 32 & 0xffff) |
                   static_cast<uint32_t>(uint16_t(burnt_by + 1)) << 16;
    }
};
static_assert(sizeof(Event) == 32);

/// Blame values of cause records: a unit or a task instance.
constexpr int64_t blame_none = -1;
constexpr int64_t blame_task(uint32_t serial) { return static_cast<int64_t>(serial) * 2; }

/// Returns a unit's state that no task causes.
inline Event state_record(uint16_t unit, Cause cause, Picoseconds time) {
    Event event;
    event.time_ps = time;
    event.unit = unit;
    event.kind = EventKind::cause;
    event.cause = static_cast<uint8_t>(cause);
    event.value = blame_none;
    return event;
}

/// Receiver of the model's records. A null sink costs one branch.
class EventSink {
  public:
    virtual ~EventSink() = default;
    virtual void record(const Event& event) = 0;
    /// `unit` is in the state `cause` over [from, to), then idle.no_work: two records. Memory resources make
    /// so many of them that a log may want them together.
    virtual void pulse(uint16_t unit, Cause cause, Picoseconds from, Picoseconds to) {
        record(state_record(unit, cause, from));
        record(state_record(unit, Cause::idle_no_work, to));
    }
};

}  // namespace kpu::traces
