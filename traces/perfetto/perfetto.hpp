#pragma once

#include <vector>

#include "base/text_output.hpp"
#include "traces/events.hpp"
#include "traces/run_info.hpp"

namespace kpu::traces {

/// The unit of the time stamps, which Perfetto shows as nanoseconds.
enum class PerfettoTime : uint8_t { cycles, ns };

/// Trace for ui.perfetto.dev and trace_processor: protobuf, perfetto.protos.Trace. One process, whose name
/// says what one nanosecond of the viewer stands for: a core cycle, exactly, or a nanosecond, rounded down.
/// In it
///   UNIT        a slice per task that the unit executes, named by its statement, with its iteration,
///               operation, place, and the cycles of its issue and readiness as arguments. Tasks that overlap
///               in a unit have tracks of their own: UNIT, UNIT +1, ...
///   UNIT state  a slice per interval of one cause, as in the stall trace, idle ones left out
///   counters    UNIT queue_depth, UNIT tokens_in_flight, UNIT bandwidth, dram.read, dram.write, power.*
/// Each token is a flow from the producer's slice to the consumer's.
void write_perfetto(const RunInfo& info, const Events& events, PerfettoTime time, Output& output);

}  // namespace kpu::traces
