#pragma once

#include <algorithm>
#include <vector>

#include "isa/types.hpp"
#include "platforms/clock.hpp"
#include "traces/event.hpp"

namespace kpu::model {

/// What a memory resource did over time, as merged intervals in core cycles; idle is the rest. Intervals are
/// added in order of their start, and may overlap: a cycle counts once, as what came first.
class BusyTrack {
  public:
    /// Also records the changes of state of `unit`, coalesced, in time order.
    void trace_to(traces::EventSink* sink, uint16_t unit, const Clock* core) {
        sink_ = sink;
        unit_ = unit;
        core_ = core;
    }

    /// Busy over [from, to) for `cause` (busy_useful or busy_overhead). Later calls start at `now` or after.
    void add(Cycles now, Cycles from, Cycles to, traces::Cause cause) {
        if (last_.to >= from) {
            if (cause == last_.cause) {
                last_.to = std::max(last_.to, to);
                return;
            }
            from = last_.to;
        }
        if (to <= from) return;
        push(now, {from, to, cause});
    }

    /// Cycles of [0, end) spent so.
    Cycles useful(Cycles end) const { return total(traces::Cause::busy_useful, end); }
    Cycles overhead(Cycles end) const { return total(traces::Cause::busy_overhead, end); }

    /// Ends the track at `end`: what lies beyond is dropped, and the last states are recorded.
    void finish(Cycles end) {
        open_.push_back(last_);
        for (const Segment& s : open_)
            if (s.to > s.from && s.from < end) settle({s.from, std::min(s.to, end), s.cause});
        if (sink_ != nullptr && recorded_to_ < end) emit(recorded_to_, traces::Cause::idle_no_work);
        open_.clear();
        last_ = {};
    }

  private:
    struct Segment {
        Cycles from = 0, to = 0;
        traces::Cause cause = traces::Cause::busy_useful;
    };

    void push(Cycles now, Segment segment) {
        if (last_.to > last_.from) {
            if (last_.to <= now && open_.empty())
                settle(last_);
            else
                open_.push_back(last_);
        }
        last_ = segment;
        if (!open_.empty() && open_.front().to <= now) settle_until(now);
    }
    void settle_until(Cycles now) {
        size_t done = 0;
        while (done < open_.size() && open_[done].to <= now) settle(open_[done++]);
        open_.erase(open_.begin(), open_.begin() + static_cast<std::ptrdiff_t>(done));
    }
    void settle(const Segment& segment) {
        settled_[segment.cause == traces::Cause::busy_overhead] += segment.to - segment.from;
        if (sink_ != nullptr) record(segment);
    }
    void record(const Segment& segment) {
        if (segment.from > recorded_to_) emit(recorded_to_, traces::Cause::idle_no_work);
        emit(segment.from, segment.cause);
        recorded_to_ = segment.to;
    }
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
    Cycles total(traces::Cause cause, Cycles end) const {
        Cycles sum = settled_[cause == traces::Cause::busy_overhead];
        const auto clipped = [&](const Segment& s) {
            return s.cause == cause && s.from < end ? std::min(s.to, end) - s.from : 0;
        };
        for (const Segment& s : open_) sum += clipped(s);
        return sum + clipped(last_);
    }

    Cycles settled_[2] = {0, 0};
    std::vector<Segment> open_;  ///< not yet certain to lie in the past
    Segment last_;
    traces::EventSink* sink_ = nullptr;
    const Clock* core_ = nullptr;
    uint16_t unit_ = traces::no_unit;
    Cycles recorded_to_ = 0;
    traces::Cause recorded_ = traces::Cause::unattributed;  ///< nothing yet
};

}  // namespace kpu::model
