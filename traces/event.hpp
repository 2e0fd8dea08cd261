#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "isa/types.hpp"

namespace kpu::traces {

/// Why a unit is in the state it is in. Names are group.cause, as in stats.json and the VCD.
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
    stalled_refresh,
    stalled_operand_interconnect,
    stalled_operand_bank_conflict,
    stalled_dma_issue,
    idle_no_work,
    idle_finished,
    device_busy_compute,     ///< device only
    device_stalled_memory,   ///< device only
    device_idle_other,       ///< device only
    unattributed,            ///< must never be counted
};
constexpr int cause_count = 21;
std::string_view group_of(Cause cause);  ///< busy, stalled, idle
std::string_view name_of(Cause cause);   ///< useful, dependency, ...
std::string_view meaning_of(Cause cause);

enum class UnitClass : uint8_t { nmu, cstl, vpu, dma, sdma, sequencer, ddr, link, l1, l2, device };

struct UnitInfo {
    std::string name;  ///< e0_nmu0, e0_dma1, sdma0, ddr0, e0_l1, l2, link_sys, device
    UnitClass unit_class = UnitClass::device;
    int engine = -1;   ///< -1: device level
    int index = 0;
};

constexpr uint16_t no_unit = 0xffff;
constexpr uint32_t no_task = 0xffffffff;

/// Kinds of event records.
enum class EventKind : uint8_t {
    issue,    ///< a task instance was issued: task, op = statement, value = innermost loop variable
    loop,     ///< outer loop values of that instance: unit = depth, value = loop variable
    ready,    ///< its tokens are satisfied
    begin,    ///< unit starts executing task
    end,      ///< unit completes task
    cause,    ///< unit's state from here on: cause, task = executing or waiting task (or none), value = blame
    counter,  ///< unit's counter `cause` (a CounterId) has value from here on
    flow,     ///< token: task = consumer, value = producer task
    op,       ///< task belongs to operation `op`: not written; op is in every record
};

enum class CounterId : uint8_t { queue_depth, tokens_in_flight, bytes, power_mw };

/// One record, 32 bytes, plain. Records of one unit are in time order; the whole log is sorted on output.
struct Event {
    uint64_t time_ps = 0;
    int64_t value = 0;
    uint32_t task = no_task;  ///< serial of the task instance
    uint32_t op = 0;          ///< operation index
    uint16_t unit = no_unit;
    EventKind kind = EventKind::cause;
    uint8_t cause = 0;        ///< Cause or CounterId
    uint32_t reserved = 0;
};
static_assert(sizeof(Event) == 32);

/// Blame values of cause records: a unit or a task instance.
constexpr int64_t blame_none = -1;
constexpr int64_t blame_task(uint32_t serial) { return static_cast<int64_t>(serial) * 2; }
constexpr int64_t blame_unit(uint16_t unit) { return static_cast<int64_t>(unit) * 2 + 1; }

/// What the model calls. A null sink costs one branch.
class EventSink {
  public:
    virtual ~EventSink() = default;
    virtual void record(const Event& event) = 0;
};

}  // namespace kpu::traces
