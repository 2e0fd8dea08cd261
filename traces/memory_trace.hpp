#pragma once

#include <vector>

#include "base/text_output.hpp"
#include "traces/events.hpp"
#include "traces/run_info.hpp"

namespace kpu::traces {

/// Memory trace, CSV: cycle,access,level,address,bytes,unit,task. One row per request of a unit to a memory,
/// in order of time:
///   cycle    core cycle at which the request comes to the memory; what it waits there follows
///   access   read or write
///   level    dram, l2 or l1, as in the statistics bytes.<level>.<access>
///   address  of its first byte, hexadecimal, in the map of isa/bus_address.hpp: bits 56 to 63 the level
///            (0 DRAM, 1 L2, 2 L1), bits 40 to 55 the engine of an L1, below them the byte in the level.
///            Buffers lie where the run placed them
///   bytes    that were asked for: a run of consecutive addresses, at most the unit's burst
///   unit     that asks: a DMA, an array, a vector unit
///   task     its statement with the iteration, "la0[t=3]"
/// Rows of tasks that completed, so that the bytes of a level and direction sum to the statistic exactly.
/// Throws UserError when the recording has no access records.
void write_memory_trace_csv(const RunInfo& info, const Events& events, Output& output);

/// The same requests, of DRAM only, for simulators of DRAM; `kpusim dram` reads them too:
///   stl        DRAMSys: `CYCLE: (BYTES) read|write 0xADDRESS`, a line for each request. CYCLE counts core cycles, whose
///              clock stands in a comment above: `# clock_mhz: 1000`
///   rstl       the same, CYCLE counts from the line before
///   ramulator  Ramulator 2: `LD|ST 0xADDRESS`, a line for each burst of the platform's DRAM, without times
enum class DramTraceForm : uint8_t { stl, rstl, ramulator };
/// Throws as write_memory_trace_csv.
void write_dram_trace(const RunInfo& info, const Events& events, DramTraceForm form, Output& output);

}  // namespace kpu::traces
