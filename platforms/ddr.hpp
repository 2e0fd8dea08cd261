#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "platforms/platform.pb.h"

namespace kpu::platforms {

std::vector<std::string> ddr_device_names();
/// Null when there is no such device.
const proto::DdrDevice* find_ddr_device(const std::string& name);
/// Capacity of one channel.
uint64_t channel_bytes(const proto::DdrDevice& device);
/// The device clocked at another data rate (at most its own).
proto::DdrDevice at_data_rate(const proto::DdrDevice& device, uint32_t data_rate_mtps);

}  // namespace kpu::platforms
