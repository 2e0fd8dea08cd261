#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/clock.hpp"
#include "base/types.hpp"
#include "traces/event.hpp"

namespace kpu::model {

/// The device's row: what each core cycle was, and which operation it is charged to. Intervals arrive in any
/// order, late; a cycle is settled once no interval before it can come any more.
class DeviceTimeline {
  public:
    /// Activities in order of precedence.
    enum class Activity : uint8_t { compute, memory, waiting };

    DeviceTimeline(size_t op_count, traces::EventSink* sink, uint16_t unit, const Clock* core)
        : charged_(op_count + 1, 0), sink_(sink), unit_(unit), core_(core) {}

    void add(Activity activity, Cycles from, Cycles to, uint32_t serial, uint32_t op);
    /// Settles all intervals that begin before `until`, which have all been added.
    void settle(Cycles until);
    /// True when enough has come together: settling sorts, and is worth it only then.
    bool due() const { return active_.size() + waiting_.size() > 2 * kept_ + 4096; }

    Cycles cycles(traces::Cause device_cause) const { return totals_[static_cast<size_t>(device_cause)]; }
    /// Returns the cycles charged to each operation; the last entry is work of no operation.
    const std::vector<Cycles>& charged() const { return charged_; }

  private:
    struct Item {
        Cycles from, to;
        uint32_t serial, op;
        Activity activity;
    };
    void charge(Cycles from, Cycles to, const Item* item);

    std::vector<Item> active_;        ///< compute and memory
    std::vector<Item> waiting_;       ///< intervals sorted by begin: added in order
    std::vector<const Item*> begun_;  ///< a heap; only while it settles: its memory is kept
    size_t kept_ = 0;                 ///< items left over from the last settlement
    Cycles settled_ = 0;
    std::array<Cycles, traces::cause_count> totals_{};
    std::vector<Cycles> charged_;
    traces::EventSink* sink_;
    uint16_t unit_;
    const Clock* core_;
    traces::Cause last_cause_ = traces::Cause::unattributed;
    uint32_t last_task_ = traces::no_task;
};

}  // namespace kpu::model
