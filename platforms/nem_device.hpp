#pragma once

#include <string>
#include <vector>

#include "isa/nem/nem.hpp"
#include "platforms/platform.pb.h"

namespace kpu::platforms {

/// Returns the fields of a platform that a NEM device states, with its inheritance resolved; the rest is left
/// unset. Findings go to `diagnostics` with the place of the device block.
proto::Platform nem_fields(const nem::Document& document, const std::string& device_name,
                           Diagnostics& diagnostics);

/// A key of ours in unit_characteristics: NMU { rows = 64 } sets engine.array.rows.
struct CharacteristicKey {
    std::string unit, key, path, meaning;
};
const std::vector<CharacteristicKey>& characteristic_keys();

}  // namespace kpu::platforms
