#pragma once

#include "isa/clock.hpp"
#include "isa/types.hpp"
#include "traces/event.hpp"

namespace kpu::model {

/// Writes the states of one memory resource as cause events: changes only, in time order, idle in between.
class StateRecorder {
  public:
    void connect(traces::EventSink* sink, uint16_t unit, const Clock* core) {
        sink_ = sink;
        unit_ = unit;
        core_ = core;
    }
    bool connected() const { return sink_ != nullptr; }
    /// The resource was so over [from, to); calls in time order, without overlap.
    void state(Cycles from, Cycles to, traces::Cause cause) {
        if (sink_ == nullptr) return;
        idle_until(from);
        emit(from, cause);
        recorded_to_ = to;
    }
    void idle_until(Cycles end) {
        if (sink_ != nullptr && recorded_to_ < end) emit(recorded_to_, traces::Cause::idle_no_work);
    }

  private:
    void emit(Cycles at, traces::Cause cause) {
        if (cause == recorded_) return;
        recorded_ = cause;
        traces::Event event;
        event.time_ps = core_->edge(at);
        event.unit = unit_;
        event.kind = traces::EventKind::cause;
        event.cause = static_cast<uint8_t>(cause);
        event.value = traces::blame_none;
        sink_->record(event);
    }

    traces::EventSink* sink_ = nullptr;
    const Clock* core_ = nullptr;
    uint16_t unit_ = traces::no_unit;
    Cycles recorded_to_ = 0;
    traces::Cause recorded_ = traces::Cause::unattributed;  ///< nothing yet
};

}  // namespace kpu::model
