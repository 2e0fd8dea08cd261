#pragma once

#include <string>

#include "platforms/platform.pb.h"

namespace kpu::platforms {

/// Returns a shipped table by name, or the table in a file.
proto::EnergyTable find_energy_table(const std::string& name);
/// Applies corner, node, voltage and temperature; entries then have one value.
proto::EnergyTable scale_table(const proto::EnergyTable& table, const proto::Energy& conditions);

}  // namespace kpu::platforms
