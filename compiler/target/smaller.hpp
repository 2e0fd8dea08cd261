#pragma once
#include <vector>

#include "compiler/target/target.hpp"

namespace kpu::compiler {

/// Devices with half of one thing each, where this one has more than one: engines, arrays, L1, L2, channels or rate of DRAM,
/// width or number of DMA channels, width of links, a clock, all clocks. What a compiler would choose for one of them runs here
/// as well, so it is worth a look.
std::vector<Target> smaller_devices(const Target& target);

}  // namespace kpu::compiler
