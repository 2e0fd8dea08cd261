#pragma once

#include <vector>

#include "base/text_output.hpp"
#include "traces/events.hpp"
#include "traces/run_info.hpp"

namespace kpu::traces {

/// Pipeline trace for the Konata viewer: text of its format 0004, time in core cycles. A row per task
/// instance, in the order of issue (thread = the task's unit), labelled with statement, iteration and unit.
/// Its stages:
///   wait     from its issue until its unit begins it
///   load     a transfer towards the arrays; a computation that has begun or is starved: nothing enters
///   compute  a computation, while the unit works on it
///   store    a store, or a transfer away from the arrays; a computation whose results wait or leave
/// A token is an arrow from producer to consumer, drawn when the consumer becomes ready. A task that did not
/// end is flushed at the end.
void write_konata(const RunInfo& info, const Events& events, Output& output);

}  // namespace kpu::traces
