#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "isa/diagnostics.hpp"
#include "model/fabric/fabric_config.hpp"
#include "platforms/platform.hpp"

namespace kpu::model {

namespace {

void check_window(std::string_view field, uint32_t value) {
    if (value == 0 || value > max_window)
        throw UserError(fmt::format("platform: `{}` is {}. Fix: use 1 to {}.", field, value, max_window));
}

SramConfig sram_config(const proto::Sram& sram) {
    SramConfig config;
    config.size_bytes = sram.size_bytes();
    config.banks = sram.banks();
    config.bank_width_bytes = sram.bank_width_bytes();
    config.interleave_bytes = sram.interleave_bytes();
    config.ports = sram.ports();
    config.bytes_per_cycle = sram.bytes_per_cycle();
    config.read_latency_cycles = sram.read_latency_cycles();
    config.write_latency_cycles = sram.write_latency_cycles();
    config.access_width_bytes = sram.access_width_bytes();
    return config;
}

DramTiming dram_timing(const proto::DdrDevice& device, const proto::Ddr& ddr) {
    DramTiming t;
    if (!(device.tck_ns() > 0))
        throw UserError(
            fmt::format("DRAM device `{}`: `tck_ns` must be positive. Fix: give it.", device.name()));
    t.clock_hz = static_cast<uint64_t>(std::llround(1e9 / device.tck_ns()));
    t.burst_bytes = device.burst_bytes();
    t.burst_nck = device.burst_nck();
    t.bank_groups = device.bank_groups();
    t.banks_per_group = device.banks_per_group();
    t.rows = device.rows();
    t.row_bytes = device.row_bytes();
    t.cl = device.cl();
    t.cwl = device.cwl();
    t.trcd = device.trcd();
    t.trp = device.trp();
    t.tras = device.tras();
    t.trc = device.trc();
    t.trrd_s = device.trrd_s();
    t.trrd_l = device.trrd_l();
    t.tccd_s = device.tccd_s();
    t.tccd_l = device.tccd_l();
    t.tfaw = device.tfaw();
    t.twr = device.twr();
    t.twtr_s = device.twtr_s();
    t.twtr_l = device.twtr_l();
    t.trtp = device.trtp();
    t.trfc = device.trfc();
    t.trefi = device.trefi();
    t.rd_to_wr = device.rd_to_wr();
    t.controller_nck = static_cast<uint32_t>(std::ceil(ddr.controller_latency_ns() / device.tck_ns()));
    if (ddr.mapping() == "row_bank_column")
        t.mapping = DramMapping::row_bank_column;
    else if (ddr.mapping() == "bank_group_interleaved")
        t.mapping = DramMapping::bank_group_interleaved;
    else
        throw UserError(
            fmt::format("platform: `ddr.mapping` is `{}`. Fix: use bank_group_interleaved or "
                        "row_bank_column.",
                        ddr.mapping()));
    return t;
}

}  // namespace

FabricConfig fabric_config(const proto::Platform& platform) {
    FabricConfig config;
    config.core = platforms::core_clock(platform);
    config.l2 = sram_config(platform.l2());
    for (const proto::Engine& engine : platforms::engines_of(platform)) {
        config.l1.push_back(sram_config(engine.l1()));
        check_window("engine.dma.max_outstanding_bursts", engine.dma().max_outstanding_bursts());
    }
    check_window("system_dma.max_outstanding_bursts", platform.system_dma().max_outstanding_bursts());
    config.link.bytes_per_cycle = platform.interconnect().link_bytes_per_cycle();
    config.link.hop_latency_cycles = platform.interconnect().hop_latency_cycles();
    config.ddr.timing = dram_timing(platforms::ddr_device(platform), platform.ddr());
    config.ddr.channels = platform.ddr().channels();
    config.ddr.channel_interleave_bytes = platform.ddr().channel_interleave_bytes();
    config.ddr.size_bytes = platform.ddr().size_bytes();
    check(config);
    return config;
}

}  // namespace kpu::model
