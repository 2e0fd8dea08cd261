#pragma once

#include <string>
#include <vector>

#include "platforms/platform.hpp"
#include "traces/event.hpp"
#include "traces/stats.hpp"

namespace kpu::runtime {

/// Parts of a platform and what a run on it reports.
struct Inventory {
    std::vector<traces::UnitInfo> units;
    std::string modules;    ///< SystemC module tree and bindings
    traces::StatSet stats;  ///< every key with unit and meaning; values of a run of nothing
};
Inventory take_inventory(const platforms::Platform& platform);

}  // namespace kpu::runtime
