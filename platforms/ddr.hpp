#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "platforms/platform.pb.h"

namespace kpu::platforms {

std::vector<std::string> ddr_device_names();
/// Finds a device; null when there is no such one.
const proto::DdrDevice* find_ddr_device(const std::string& name);
/// Returns what the controller does unless told otherwise.
const proto::DdrController& default_ddr_controller();
/// Returns named address mappings, as they stand in the table.
const google::protobuf::RepeatedPtrField<proto::DdrMapping>& ddr_mappings();
/// Returns the capacity of one rank of a channel.
uint64_t channel_bytes(const proto::DdrDevice& device);
/// Returns the bytes that all channels and ranks hold together.
uint64_t ddr_capacity(const proto::Ddr& ddr, const proto::DdrDevice& device);
/// Returns the device clocked at another data rate (at most its own).
proto::DdrDevice at_data_rate(const proto::DdrDevice& device, uint32_t data_rate_mtps);

}  // namespace kpu::platforms
