#pragma once

#include <array>
#include <string>
#include <vector>

#include "traces/events.hpp"
#include "traces/power_trace.hpp"
#include "traces/run_info.hpp"

namespace kpu::traces {

/// Bandwidth and power of a recording as means over bins of time: what the waveforms and Perfetto show.
/// Bins are info.bin_ns wide, doubled while the run has more than 100,000 of them.
struct BinnedSignals {
    Picoseconds width = 1;
    size_t count = 0;
    Picoseconds end = 0;
    std::vector<std::vector<double>>
        bandwidth;  ///< bandwidth of each unit, 10^9 bytes/s; empty for a unit that counts no bytes
    /// read, write over all channels, 10^9 bytes/s; empty when info.dram_burst_bytes is not known
    std::array<std::vector<double>, 2> dram;
    /// W: by Component (dram with its background, phy with its static power), then static, then total
    std::array<std::vector<double>, component_count + 2> power;

    /// W, dynamic and static, by unit; empty unless asked for.
    std::array<std::vector<std::vector<double>>, 2> unit_power;

    BinnedSignals(const RunInfo& info, const Events& events, bool units = false);
    Picoseconds start(size_t bin) const { return bin * width; }
    /// Returns the name of a row of `power`: array, ..., static, total.
    static std::string power_name(size_t row);

  private:
    void bin_bandwidth(const RunInfo& info, const Events& events);
    void bin_dram(const RunInfo& info, const Events& events);
    void bin_power(const PowerTrace& trace);
    void to_gbps(std::vector<double>& bytes) const;
};

}  // namespace kpu::traces
