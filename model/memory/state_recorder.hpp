#pragma once

#include "base/clock.hpp"
#include "base/types.hpp"
#include "traces/event.hpp"

namespace kpu::model {

/// Writes the states of one memory resource as cause events: changes only, in time order, idle in between. A
/// state is written once the next one is known.
class StateRecorder {
  public:
    void connect(traces::EventSink* sink, uint16_t unit, const Clock* core) {
        sink_ = sink;
        unit_ = unit;
        core_ = core;
    }
    bool connected() const { return sink_ != nullptr; }
    /// Records that the resource was so over [from, to), not idle; calls in time order, without overlap.
    void state(Cycles from, Cycles to, traces::Cause cause) {
        if (sink_ == nullptr) return;
        if (from == to_ && cause == cause_) {
            to_ = to;
            return;
        }
        write(from);
        from_ = from;
        to_ = to;
        cause_ = cause;
    }
    /// Ends the record: idle from the last state on, up to the end of the run.
    void finish(Cycles end) {
        if (sink_ != nullptr) write(end);
    }

  private:
    /// Writes the last state; the next one begins at `next`.
    void write(Cycles next) {
        if (to_ == next) {
            if (next != 0) sink_->record(traces::state_record(unit_, cause_, core_->edge(from_)));
        } else if (cause_ == traces::Cause::idle_no_work) {
            sink_->record(traces::state_record(unit_, cause_, 0));
        } else {
            sink_->pulse(unit_, cause_, core_->edge(from_), core_->edge(to_));
        }
    }

    traces::EventSink* sink_ = nullptr;
    const Clock* core_ = nullptr;
    uint16_t unit_ = traces::no_unit;
    Cycles from_ = 0, to_ = 0;
    traces::Cause cause_ = traces::Cause::idle_no_work;  ///< cause of the last state; idle before the first
};

}  // namespace kpu::model
