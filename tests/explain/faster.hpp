#pragma once
// A platform with one part made faster, for checking what-if bounds by simulation.

#include <string>

#include "explain/what_if.hpp"
#include "platforms/platform.hpp"

namespace kpu::explain::test {

/// The rate of `part` times `factor`; its latency stays. Beyond what a platform file may say, so nothing
/// validates the result.
inline platforms::Platform faster(platforms::Platform platform, Part part, uint32_t factor) {
    const auto sram = [factor](proto::Sram& s) {
        s.set_bytes_per_cycle(s.bytes_per_cycle() * factor);
        s.set_bank_width_bytes(s.bank_width_bytes() * factor);
    };
    if (part == "DRAM") {
        // the spacings of a channel's commands are latencies, and stay: so most of it by data rate, and
        // the rest by channels, more than the banks that a transfer waits for
        constexpr uint32_t channels = 25;
        proto::Ddr& ddr = *platform.mutable_ddr();
        ddr.set_data_rate_mtps(ddr.data_rate_mtps() * (factor / channels));
        ddr.set_channels(ddr.channels() * channels);
    }
    if (part == "links") {
        platform.mutable_interconnect()->set_link_bytes_per_cycle(
            platform.interconnect().link_bytes_per_cycle() * factor);
        platform.mutable_interconnect()->set_system_link_bytes_per_cycle(
            platform.interconnect().system_link_bytes_per_cycle() * factor);
    }
    if (part == "L2") sram(*platform.mutable_l2());
    if (part == "system DMA")
        platform.mutable_system_dma()->set_bytes_per_cycle(platform.system_dma().bytes_per_cycle() * factor);
    for (proto::Engine& engine : *platform.mutable_engine()) {
        proto::SystolicArray& array = *engine.mutable_array();
        proto::Vector& vector = *engine.mutable_vector();
        if (part == "L1") sram(*engine.mutable_l1());
        if (part == "engine DMA")
            engine.mutable_dma()->set_bytes_per_cycle(engine.dma().bytes_per_cycle() * factor);
        if (part == "arrays") {
            for (proto::MacRate& rate : *array.mutable_rate()) rate.set_relative(rate.relative() * factor);
            array.set_operand_bytes_per_cycle(array.operand_bytes_per_cycle() * factor);
            array.set_result_bytes_per_cycle(array.result_bytes_per_cycle() * factor);
        }
        if (part == "vector units") {
            vector.set_lanes(vector.lanes() * factor);
            vector.set_operand_bytes_per_cycle(vector.operand_bytes_per_cycle() * factor);
            vector.set_result_bytes_per_cycle(vector.result_bytes_per_cycle() * factor);
        }
    }
    return platform;
}

}  // namespace kpu::explain::test
