#pragma once
// Rates of scratchpads, links and clocks of a platform, in cycles of the core: for what predicts or bounds
// time. The memory system itself goes burst by burst (model/memory).
#include "platforms/platform.pb.h"

namespace kpu::timing {

/// Core cycles in a cycle of each other clock: 1 where the core's is theirs.
struct ClockRatios {
    explicit ClockRatios(const proto::Clock& clock);
    double array = 1, sram = 1, link = 1;
};

/// A scratchpad: its ports and its banks work at once, and whichever is narrower limits it. Formulas: model/memory/sram.md.
class SramTime {
  public:
    SramTime() = default;
    /// `cycle`: core cycles of one of its own.
    SramTime(const proto::Sram& sram, double cycle);

    /// Latencies, core cycles.
    double read_latency = 0, write_latency = 0;
    /// Most that it moves, bytes per core cycle.
    double bytes_per_cycle = 1;

    /// Returns core cycles of the whole scratchpad that an access of so many bytes takes, in either
    /// direction.
    double share_of(double bytes) const;
    /// Returns the cycles until an access of so many bytes has passed a port and banks that are free, without
    /// the latency.
    double through(double bytes) const;

  private:
    double bank_cycles(double bytes) const;

    double cycle_ = 1, port_ = 1, ports_ = 1, bank_ = 1, banks_ = 1, interleave_ = 1;
};

/// A link of the interconnect, which carries both directions. Formulas: model/memory/interconnect.md.
struct LinkTime {
    double width = 1;  ///< bytes per cycle of its own
    double cycle = 1;  ///< core cycles of one of its own
    double hop = 0;    ///< latency, core cycles
    double queue = 0;  ///< bursts of a stream that it holds; 0: any number
    double bytes_per_cycle() const { return width / cycle; }  ///< bytes per cycle of the core
};

/// Returns the link of an engine, or the one between DRAM and L2.
LinkTime engine_link(const proto::Platform& platform);
LinkTime system_link(const proto::Platform& platform);

}  // namespace kpu::timing
