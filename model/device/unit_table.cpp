// The units of a device: those of its engines and of the device, from the rows of their kinds; the resources
// of the memory system; the device itself.
#include <fmt/format.h>

#include <algorithm>

#include "model/device/device.hpp"
#include "model/memory/memory_system.hpp"
#include "platforms/platform.hpp"
#include "platforms/units.hpp"

namespace kpu::model {

namespace {

/// Returns the units in the order of their numbers, which is the order of reports and of arbitration.
std::vector<UnitKindRow> rows_in_order(bool per_engine) {
    std::vector<UnitKindRow> rows;
    for (const UnitKindRow& row : unit_kinds()) {
        const bool a_unit = executes_tasks(row.kind) || row.role == UnitRole::sequencer;
        if (a_unit && row.per_engine == per_engine) rows.push_back(row);
    }
    std::sort(rows.begin(), rows.end(), [](const UnitKindRow& a, const UnitKindRow& b) {
        const bool sequencer_a = a.role == UnitRole::sequencer, sequencer_b = b.role == UnitRole::sequencer;
        return sequencer_a != sequencer_b ? sequencer_b : a.kind < b.kind;
    });
    return rows;
}

/// Returns the bytes per core cycle of a memory resource at best.
double peak_of(const ResourceInfo& resource, const MemoryConfig& config) {
    const auto core = static_cast<double>(config.core.hz());
    const auto in_core = [&](double per_cycle, const std::optional<Clock>& own) {
        return own ? per_cycle * static_cast<double>(own->hz()) / core : per_cycle;
    };
    const auto sram = [&](const SramConfig& s) {
        const double ports = double(s.ports) * s.bytes_per_cycle,
                     banks = double(s.banks) * s.bank_width_bytes;
        return in_core(std::min(ports, banks), config.sram_clock);
    };
    const DramTiming& dram = config.ddr.timing;
    const auto level = level_of(resource.kind);
    if (!level) return in_core(config.link_at(resource.place).bytes_per_cycle, config.link_clock);
    if (*level == Level::ddr)
        return double(dram.burst_bytes) / dram.burst_nck * static_cast<double>(dram.clock_hz) / core;
    return sram(*level == Level::l2 ? config.l2 : config.l1.at(static_cast<size_t>(resource.engine)));
}

}  // namespace

std::vector<traces::UnitInfo> unit_table(const proto::Platform& platform) {
    std::vector<traces::UnitInfo> units;
    const auto add = [&](const UnitKindRow& row, const proto::Engine* engine, int number) {
        const uint32_t count = platforms::unit_count(platform, engine, row.kind);
        const double peak = platforms::unit_peak(platform, engine, row.kind);
        const std::string prefix = engine != nullptr ? fmt::format("e{}_", number) : "";
        for (uint32_t i = 0; i < count; ++i) {
            // an engine has one sequencer, which needs no number
            const std::string index = row.role == UnitRole::sequencer ? "" : fmt::format("{}", i);
            units.push_back({fmt::format("{}{}{}", prefix, row.name, index), row.kind, number,
                             static_cast<int>(i), peak});
        }
    };
    const platforms::Engines engines = platforms::engines_of(platform);
    for (size_t k = 0; k < engines.size(); ++k)
        for (const UnitKindRow& row : rows_in_order(true)) add(row, &engines[k].get(), static_cast<int>(k));
    for (const UnitKindRow& row : rows_in_order(false)) add(row, nullptr, -1);
    const MemoryConfig config = memory_config(platform);
    const MemorySystem memory(config);
    for (const ResourceInfo& resource : memory.resources()) {
        units.push_back(
            {resource.name, resource.kind, resource.engine, resource.index, peak_of(resource, config)});
    }
    units.push_back({"device", UnitKind::device, -1, 0});
    return units;
}

}  // namespace kpu::model
