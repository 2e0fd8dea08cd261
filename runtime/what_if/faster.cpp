#include "runtime/what_if/faster.hpp"

#include <string>

namespace kpu::what_if {
namespace {

void speed_up(proto::Sram& sram, uint32_t factor) {
    sram.set_bytes_per_cycle(sram.bytes_per_cycle() * factor);
    sram.set_bank_width_bytes(sram.bank_width_bytes() * factor);
}

void speed_up(proto::Dma& dma, uint32_t factor) { dma.set_bytes_per_cycle(dma.bytes_per_cycle() * factor); }

void speed_up(proto::SystolicArray& array, uint32_t factor) {
    for (proto::MacRate& rate : *array.mutable_rate()) rate.set_relative(rate.relative() * factor);
    array.set_operand_bytes_per_cycle(array.operand_bytes_per_cycle() * factor);
    array.set_result_bytes_per_cycle(array.result_bytes_per_cycle() * factor);
}

void speed_up(proto::Vector& vector, uint32_t factor) {
    vector.set_lanes(vector.lanes() * factor);
    vector.set_operand_bytes_per_cycle(vector.operand_bytes_per_cycle() * factor);
    vector.set_result_bytes_per_cycle(vector.result_bytes_per_cycle() * factor);
}

void speed_up(proto::Interconnect& links, uint32_t factor) {
    links.set_link_bytes_per_cycle(links.link_bytes_per_cycle() * factor);
    links.set_system_link_bytes_per_cycle(links.system_link_bytes_per_cycle() * factor);
}

/// The spacings of a channel's commands are latencies, and stay, so that a higher data rate alone carries little more:
/// twice as fast are twice as many channels, and much faster are both.
void speed_up(proto::Ddr& ddr, uint32_t factor) {
    const uint32_t channels = factor >= 1000 ? 25 : factor >= 64 ? 8 : factor;
    ddr.set_data_rate_mtps(ddr.data_rate_mtps() * (factor / channels));
    ddr.set_channels(ddr.channels() * channels);
}

}  // namespace

platforms::Platform faster(platforms::Platform platform, std::string_view part, uint32_t factor) {
    if (part == "DRAM") speed_up(*platform.mutable_ddr(), factor);
    if (part == "links") speed_up(*platform.mutable_interconnect(), factor);
    if (part == "L2") speed_up(*platform.mutable_l2(), factor);
    if (part == "system DMA") speed_up(*platform.mutable_system_dma(), factor);
    for (proto::Engine& engine : *platform.mutable_engine()) {
        if (part == "L1") speed_up(*engine.mutable_l1(), factor);
        if (part == "engine DMA") speed_up(*engine.mutable_dma(), factor);
        if (part == "arrays") speed_up(*engine.mutable_array(), factor);
        if (part == "vector units") speed_up(*engine.mutable_vector(), factor);
    }
    return platform;
}

}  // namespace kpu::what_if
