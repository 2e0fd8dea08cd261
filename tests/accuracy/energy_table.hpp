#pragma once

#include <string>

namespace kpu::accuracy {

/// Energy of ResNet-50 on swkpu-v1, simulated, beside a worked estimate. Throws std::runtime_error when a
/// figure is outside the band in which it is plausible.
std::string energy_table();

}  // namespace kpu::accuracy
