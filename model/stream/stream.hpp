#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/types.hpp"
#include "traces/event.hpp"
#include "values/memory_image.hpp"

namespace kpu::model {

constexpr Cycles never = ~Cycles{0};  ///< a time that does not come, or is not known

/// Place of a unit that belongs to no engine (the system DMA): it sits at L2.
constexpr uint16_t no_engine = 0xffff;

/// An end of a stream: a strided pattern in a memory level, or the unit that posted it.
struct StreamSide {
    bool is_memory = false;
    Level level = Level::ddr;
    /// Engine of L1, or of the poster when the side is the unit (no_engine: a device unit).
    uint16_t engine = 0;
    values::Footprint pattern;  ///< walked with dimension 0 fastest
    uint32_t repeat = 1;        ///< the pattern is walked this many times (operands read once per fold)
};

/// A descriptor: what a unit posts, and the memory system moves as a cut-through stream of bursts along
/// source port, link and destination port. It moves as many bytes as the longer side has; a shorter one (a
/// broadcast) is walked again.
struct StreamRequest {
    uint16_t unit = traces::no_unit;  ///< poster
    uint32_t task = traces::no_task;  ///< serial of the task instance
    uint32_t op = 0;
    uint8_t priority = 0;  ///< lower first
    StreamSide source, destination;
    uint32_t port_bytes_per_cycle = 64;  ///< port of the poster
    uint32_t burst_bytes = 64;
    uint32_t max_outstanding = 16;  ///< bursts issued and not yet delivered
    /// Buffers of the poster: bursts cut short by a run's end may be outstanding until they fill it, though
    /// more than max_outstanding. 0: their length does not matter.
    uint32_t buffer_bytes = 0;
    uint32_t descriptor_cycles = 0;  ///< before the first burst is issued
    uint32_t row_cycles = 0;         ///< before the first burst of each contiguous run of either side
    /// The burst that begins at byte b of n is not issued before start + pace_offset + floor(b * pace_cycles
    /// / n): a unit that consumes or produces at its own rate. 0 = as fast as it goes.
    Cycles pace_offset = 0;
    Cycles pace_cycles = 0;
};

/// Change of what slowed a stream from `from` on, until the next entry or its end. An entry may become known
/// after `from`: it is decided when the burst that it explains is.
struct LimiterChange {
    Cycles from;
    traces::Cause cause;
    uint64_t bytes_before = 0;  ///< bytes delivered up to `from`
};

/// Bytes and commands a stream caused; filled while it moves, complete when it ends.
struct StreamResult {
    Cycles start = 0;                                        ///< core cycle of acceptance
    Cycles end = 0;                                          ///< core cycle at which the last byte is visible
    std::vector<LimiterChange> limiters;                     ///< ascending; never empty once started
    uint64_t bytes = 0;                                      ///< delivered so far
    uint64_t source_accesses = 0, destination_accesses = 0;  ///< SRAM words or DRAM bursts touched
    uint64_t dram_activates = 0;
    uint32_t links = 0;  ///< that its bytes cross
    uint64_t bank_conflict_cycles = 0;

    /// Clears it, but keeps the list's memory.
    void clear() {
        std::vector<LimiterChange> list = std::move(limiters);
        list.clear();
        *this = {};
        limiters = std::move(list);
    }
};

}  // namespace kpu::model
