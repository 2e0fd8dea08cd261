#pragma once

#include <cstdint>
#include <vector>

#include "isa/types.hpp"
#include "isa/values/memory_image.hpp"
#include "traces/event.hpp"

namespace kpu::model {

/// One end of a stream: a strided pattern in a memory level, or the unit that posted it.
struct StreamSide {
    bool is_memory = false;
    Level level = Level::ddr;
    uint16_t engine = 0;           ///< of L1
    values::Footprint pattern;     ///< bytes in index order of the memory
    uint32_t repeat = 1;           ///< the pattern is walked this many times (operands read once per fold)
};

/// A descriptor: what a unit posts, and the fabric moves as a cut-through stream of bursts along source port, link and
/// destination port. Both sides carry the same number of bytes unless one is the unit itself.
struct StreamRequest {
    uint16_t unit = traces::no_unit;  ///< poster
    uint32_t task = traces::no_task;  ///< serial of the task instance
    uint32_t op = 0;
    uint8_t priority = 0;             ///< lower first
    StreamSide source, destination;
    uint32_t port_bytes_per_cycle = 64;   ///< of the poster
    uint32_t burst_bytes = 64;
    uint32_t max_outstanding = 16;        ///< bursts issued and not yet delivered
    uint32_t descriptor_cycles = 0;       ///< before the first burst is issued
    uint32_t row_cycles = 0;              ///< before the first burst of each contiguous run
    /// Burst b of n is not issued before start + pace_offset + floor(b * pace_cycles / n): a unit that consumes or
    /// produces at its own rate. 0 = as fast as it goes.
    Cycles pace_offset = 0;
    Cycles pace_cycles = 0;
};

/// What slowed a stream from `from` on, until the next entry or its end.
struct LimiterChange {
    Cycles from;
    traces::Cause cause;
};

/// Bytes and commands a stream caused; filled while it moves, complete when it ends.
struct StreamResult {
    Cycles start = 0;              ///< core cycle of acceptance
    Cycles end = 0;                ///< core cycle at which the last byte is visible
    std::vector<LimiterChange> limiters;  ///< ascending; never empty once started
    uint64_t bytes = 0;
    uint64_t source_accesses = 0, destination_accesses = 0;   ///< SRAM words or DRAM bursts touched
    uint64_t dram_activates = 0;
    uint64_t bank_conflict_cycles = 0;
};

}  // namespace kpu::model
