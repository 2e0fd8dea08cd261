#pragma once

#include <cstdint>
#include <string_view>

#include "platforms/platform.hpp"

namespace kpu::what_if {

/// Returns the platform with the rate of one part (a `part` of isa/unit_kind.hpp: "DRAM", "arrays") times
/// `factor`; its latency stays. May go beyond what a platform file can say, so nothing validates the result.
platforms::Platform faster(platforms::Platform platform, std::string_view part, uint32_t factor);

}  // namespace kpu::what_if
