#include "model/memory/memory_config.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "base/diagnostics.hpp"

namespace kpu::model {

namespace {

void positive(std::string_view field, uint64_t value) {
    if (value == 0)
        throw UserError(fmt::format("platform: `{}` is 0. Fix: give it a positive value.", field));
}

void power_of_two(std::string_view field, uint64_t value) {
    positive(field, value);
    if ((value & (value - 1)) != 0)
        throw UserError(fmt::format("platform: `{}` is {}, not a power of two. Fix: use {} or {}.", field,
                                    value,
                                    uint64_t{1} << static_cast<int>(std::log2(static_cast<double>(value))),
                                    uint64_t{2} << static_cast<int>(std::log2(static_cast<double>(value)))));
}

void check_sram(std::string_view name, const SramConfig& sram) {
    const auto field = [&](std::string_view key) { return fmt::format("{}.{}", name, key); };
    positive(field("banks"), sram.banks);
    positive(field("bank_width_bytes"), sram.bank_width_bytes);
    positive(field("interleave_bytes"), sram.interleave_bytes);
    positive(field("ports"), sram.ports);
    positive(field("bytes_per_cycle"), sram.bytes_per_cycle);
    positive(field("access_width_bytes"), sram.access_width_bytes);
}

/// Streams keep the links they cross in tables of a fixed size.
void check_hops(const MemoryConfig& config) {
    const size_t nodes = config.l1.size() + 1;
    size_t columns = 1;
    while (columns * columns < nodes) ++columns;
    const bool ring = config.topology == Topology::ring;
    if (config.topology == Topology::crossbar || (ring ? nodes / 2 : 2 * (columns - 1)) <= max_hops) return;
    throw UserError(fmt::format(
        "platform: `interconnect.topology` is a {} of L2 and {} engines, in which some are more than {} "
        "links "
        "apart. Fix: use fewer engines, or {}.",
        ring ? "ring" : "mesh", config.l1.size(), max_hops, ring ? "a mesh or a crossbar" : "a crossbar"));
}

}  // namespace

LinkConfig MemoryConfig::link_at(size_t place) const {
    LinkConfig result = link;
    if (place == 0 && system_link_bytes_per_cycle != 0) result.bytes_per_cycle = system_link_bytes_per_cycle;
    return result;
}

void check(const MemoryConfig& config) {
    check_sram("l2", config.l2);
    for (const SramConfig& l1 : config.l1) check_sram("engine.l1", l1);
    positive("interconnect.link_bytes_per_cycle", config.link.bytes_per_cycle);
    check_hops(config);
    positive("ddr.channels", config.ddr.channels);
    const DramTiming& t = config.ddr.timing;
    power_of_two("ddr device burst_bytes", t.burst_bytes);
    power_of_two("ddr.ranks", t.ranks);
    power_of_two("ddr device bank_groups", t.bank_groups);
    power_of_two("ddr device banks_per_group", t.banks_per_group);
    power_of_two("ddr device rows", t.rows);
    power_of_two("ddr device row_bytes", t.row_bytes);
    positive("ddr device burst_nck", t.burst_nck);
    positive("ddr device trefi", t.trefi);
    power_of_two("ddr device refresh sets", t.refresh_sets);
    if (t.row_bytes < t.burst_bytes)
        throw UserError("platform: a row of the DDR device is smaller than a burst. Fix: raise row_bytes.");
    if (t.trfc + t.trp >= t.trefi)
        throw UserError("platform: the DDR device refreshes all the time. Fix: raise trefi or lower trfc.");
    const uint64_t interleave = config.ddr.channel_interleave_bytes;
    if (interleave == 0 || interleave % t.burst_bytes != 0)
        throw UserError(
            fmt::format("platform: `ddr.channel_interleave_bytes` is {}. Fix: use a multiple of the burst "
                        "size {}.",
                        interleave, t.burst_bytes));
}

}  // namespace kpu::model
