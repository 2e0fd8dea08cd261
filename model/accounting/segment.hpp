#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>

#include "base/types.hpp"
#include "traces/event.hpp"

namespace kpu::model {

/// A stretch of core cycles [from, to) of one unit with one cause, or with one that is not known yet.
struct Segment {
    enum class Kind : uint8_t {
        done,
        executing,   ///< the cause follows from the task's report, at its completion
        on_transfer  ///< waits for a transfer: its limiters decide, when it ends
    };
    Cycles from = 0, to = 0;
    traces::Cause cause = traces::Cause::unattributed;
    Kind kind = Kind::done;
    bool work = false;                ///< part of an executing task
    uint32_t task = traces::no_task;  ///< executing or waiting
    uint32_t op = traces::background_op;
    uint32_t transfer = traces::no_task;  ///< on_transfer: its serial
    int64_t blame = traces::blame_none;
};

/// A part of a segment, once its cause is known.
struct Piece {
    Cycles from, to;
    traces::Cause cause;
};
using Pieces = boost::container::small_vector<Piece, 8>;

constexpr bool is_busy(traces::Cause cause) { return cause <= traces::Cause::busy_overhead; }

/// Returns the cause charged to a consumer that waits for data when its stream is limited by `limiter`.
constexpr traces::Cause stall_of(traces::Cause limiter) {
    return is_busy(limiter) ? traces::Cause::stalled_operand_interconnect : limiter;
}

}  // namespace kpu::model
