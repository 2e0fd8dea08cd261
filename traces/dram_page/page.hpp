#pragma once

#include <string>

#include "traces/dram_traffic.hpp"

namespace kpu::traces {

/// Returns a page of HTML that needs no other file: bandwidth of each channel, a heat map of its banks over
/// time, and who asked. `what` ran, `how`: a line more about it.
std::string dram_page_of(const DramTraffic& traffic, const std::string& what, const std::string& how);

}  // namespace kpu::traces
