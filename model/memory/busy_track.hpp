#pragma once

#include <algorithm>

#include "model/memory/state_recorder.hpp"

namespace kpu::model {

/// Cycles in which a resource moved data, as merged intervals; idle is the rest. A cycle counts once, however
/// many accesses share it. Intervals come in order of their start.
class BusyTrack {
  public:
    void add(Cycles from, Cycles to) {
        if (from <= to_) {
            to_ = std::max(to_, to);
            return;
        }
        settled_ += to_ - from_;
        if (recorder.connected() && to_ > from_) recorder.state(from_, to_, traces::Cause::busy_useful);
        from_ = from;
        to_ = to;
    }
    /// Returns the busy cycles of [0, end), where `end` is no earlier than the start of the last interval but
    /// one.
    Cycles useful(Cycles end) const { return settled_ + (from_ < end ? std::min(to_, end) - from_ : 0); }
    Cycles overhead(Cycles) const { return 0; }
    /// Records what is still unrecorded, up to `end`.
    void finish(Cycles end) {
        if (from_ < end && to_ > from_) recorder.state(from_, std::min(to_, end), traces::Cause::busy_useful);
        recorder.finish(end);
    }

    StateRecorder recorder;

  private:
    Cycles settled_ = 0;
    Cycles from_ = 0, to_ = 0;
};

}  // namespace kpu::model
