#pragma once

#include <array>
#include <string>
#include <vector>

#include "explain/cycle_terms.hpp"

namespace kpu::explain {

/// Bound of one memory level for an operation: its operations per byte of it, and how fast that could be.
struct RooflineLevel {
    uint64_t bytes = 0;         ///< read and written
    double intensity = 0;       ///< operations per byte; 0: no operations, or no bytes
    double peak_bytes = 0;      ///< bytes per cycle of the level, all its instances together
    double attained_bytes = 0;  ///< bytes per active cycle
};

/// Point of an operation under the roofs: attained <= peak, and attained <= intensity x peak_bytes of every
/// level.
struct RooflinePoint {
    uint32_t op = traces::background_op;  ///< background_op: the run as a whole
    uint64_t operations = 0;              ///< 2 per MAC, 1 per element
    Cycles active = 0;                    ///< cycles in which a task of it was under way
    double peak = 0;                      ///< operations per cycle of all units of the kinds that it used
    double attained = 0;                  ///< operations per active cycle
    std::array<RooflineLevel, 3> levels;  ///< indexed by Level
    /// The lowest roof over it: compute, DRAM, L2, L1; empty without operations.
    std::string limit;
    double roof = 0;  ///< operations per cycle under that
};

/// Returns the run first, then every operation whose tasks ran.
std::vector<RooflinePoint> roofline(const RunGraph& graph, const std::vector<OpTerms>& ops);

}  // namespace kpu::explain
