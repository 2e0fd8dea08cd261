#pragma once

#include <string>

namespace kpu::dram {

/// docs/accuracy_dram.md: every reference row replayed, its error against each simulator.
std::string accuracy_page();

}  // namespace kpu::dram
