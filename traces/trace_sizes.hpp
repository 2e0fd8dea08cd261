#pragma once

#include <cstdint>
#include <vector>

#include "traces/event.hpp"
#include "traces/run_info.hpp"

namespace kpu::traces {

/// How many bytes each trace of a recording will take: records of each kind, times the mean length of what is
/// written for one. Right to about a factor of two.
struct TraceSizes {
    uint64_t vcd = 0, stalls = 0, memory = 0, perfetto = 0, konata = 0;
};
TraceSizes estimate_sizes(const RunInfo& info, const std::vector<Event>& events);

}  // namespace kpu::traces
