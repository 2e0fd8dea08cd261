#pragma once

#include <cstdint>
#include <vector>

#include "model/dram/channel.hpp"
#include "model/dram/trace.hpp"

namespace kpu::dram {

struct LatencySummary {  ///< nCK
    double average = 0;
    uint64_t least = 0, median = 0, p90 = 0, p99 = 0, most = 0;
};

struct ReplayResult {
    uint64_t cycles = 0;  ///< from clock 0 to the last read returned and the last write issued
    uint64_t requested_reads = 0, requested_writes = 0;
    uint64_t back_pressure = 0;  ///< clocks in which the oldest request found its queue full
    LatencySummary read_latency;
    struct {
        double row = 0, refresh = 0, turn_around = 0, busy = 0;  ///< nCK of an average read
    } waits;
    Counters counters;               ///< sums over all channels
    std::vector<Counters> channels;  ///< counters of each channel
};

/// Requests enter in their order, at most one per DRAM clock and channel, a read only while fewer than
/// max_outstanding are in flight; a write is done once the controller has taken it. Throws UserError for a
/// zero or impossible configuration, and naming trace and line for an address outside of the memory.
ReplayResult replay(const ReplayConfig& config, TraceSource& trace,
                    const std::vector<CommandObserver*>& observers = {});

}  // namespace kpu::dram
