#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "base/diagnostics.hpp"
#include "model/memory/memory_config.hpp"
#include "platforms/platform.hpp"

namespace kpu::model {

namespace {

void check_window(std::string_view field, uint32_t value) {
    if (value == 0 || value > max_window)
        throw UserError(fmt::format("platform: `{}` is {}. Fix: use 1 to {}.", field, value, max_window));
}

/// The loader lets no other name through.
template <typename Enum>
Enum choice(const std::string& name, std::initializer_list<std::pair<std::string_view, Enum>> values) {
    for (const auto& [text, value] : values) {
        if (text == name) return value;
    }
    throw InternalError("unknown choice after validation: " + name);
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
    config.turnaround_cycles = sram.turnaround_cycles();
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
    if (device.trfc_sb() > 0) {
        t.trfc = device.trfc_sb();
        t.refresh_sets = std::min(device.banks_per_group(), dram::max_refresh_sets);
        t.trefi /= t.refresh_sets;
    }
    t.rd_to_wr = device.rd_to_wr();
    t.ranks = ddr.ranks();
    t.controller_nck = static_cast<uint32_t>(std::ceil(ddr.controller_latency_ns() / device.tck_ns()));
    return t;
}

DramMapping simple_mapping(const std::string& name) {
    if (name == "row_bank_column") return DramMapping::row_bank_column;
    if (name == "bank_group_interleaved") return DramMapping::bank_group_interleaved;
    throw UserError(fmt::format(
        "platform: `ddr.mapping` is `{}`. Fix: use bank_group_interleaved or row_bank_column.", name));
}

DdrConfig ddr_config(const proto::Platform& platform) {
    const proto::Ddr& ddr = platform.ddr();
    const proto::DdrDevice device = platforms::ddr_device(platform);
    DdrConfig config;
    config.timing = dram_timing(device, ddr);
    config.channels = ddr.channels();
    config.channel_interleave_bytes = ddr.channel_interleave_bytes();
    config.size_bytes = ddr.size_bytes();
    if (ddr.fidelity() == "burst") {
        proto::DdrController controller = ddr.controller();
        const uint32_t both = config.timing.controller_nck;
        if (!controller.has_request_nck()) controller.set_request_nck(both / 2);
        if (!controller.has_response_nck()) controller.set_response_nck(both - both / 2);
        config.controller = dram::make_config(device, controller, ddr.mapping(), ddr.ranks());
    } else {
        config.timing.mapping = simple_mapping(ddr.mapping());
    }
    return config;
}

}  // namespace

MemoryConfig memory_config(const proto::Platform& platform) {
    MemoryConfig config;
    config.core = platforms::core_clock(platform);
    config.l2 = sram_config(platform.l2());
    for (const proto::Engine& engine : platforms::engines_of(platform)) {
        config.l1.push_back(sram_config(engine.l1()));
        check_window("engine.dma.max_outstanding_bursts", engine.dma().max_outstanding_bursts());
    }
    check_window("system_dma.max_outstanding_bursts", platform.system_dma().max_outstanding_bursts());
    config.link.bytes_per_cycle = platform.interconnect().link_bytes_per_cycle();
    config.system_link_bytes_per_cycle = platform.interconnect().system_link_bytes_per_cycle();
    config.link.hop_latency_cycles = platform.interconnect().hop_latency_cycles();
    config.link.queue_bursts = platform.interconnect().queue_bursts();
    config.link.arbitration =
        choice<Arbitration>(platform.interconnect().arbitration(), {{"age", Arbitration::age},
                                                                    {"round_robin", Arbitration::round_robin},
                                                                    {"priority", Arbitration::priority}});
    config.topology = choice<Topology>(
        platform.interconnect().topology(),
        {{"crossbar", Topology::crossbar}, {"ring", Topology::ring}, {"mesh", Topology::mesh}});
    const proto::Clock& clock = platform.clock();
    if (clock.has_sram_mhz()) config.sram_clock = platforms::clock_of_mhz(clock.sram_mhz());
    if (clock.has_interconnect_mhz()) config.link_clock = platforms::clock_of_mhz(clock.interconnect_mhz());
    config.ddr = ddr_config(platform);
    check(config);
    return config;
}

}  // namespace kpu::model
