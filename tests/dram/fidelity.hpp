#pragma once

#include <string>
#include <vector>

#include "model/memory/ddr.hpp"
#include "tests/dram/support.hpp"

namespace kpu::dram {

/// One pattern on both fidelities of the DRAM; differences of simple in % of burst.
struct FidelityRow {
    std::string device, mapping, pattern;
    uint64_t burst_cycles = 0;
    double cycles = 0, read_latency = 0, activates = 0;
};
std::vector<FidelityRow> fidelity_rows();

/// Their part of docs/accuracy_dram.md.
std::string fidelity_section();

}  // namespace kpu::dram
