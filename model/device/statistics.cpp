// The statistics of a run: keys, units and meanings.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "model/device/device_impl.hpp"
#include "platforms/area.hpp"
#include "platforms/platform.hpp"
#include "platforms/units.hpp"

namespace kpu::model {

using traces::Cause;

namespace {

std::string unit_key(const traces::UnitInfo& unit, Cause cause) {
    return fmt::format("units.{}.{}.{}", unit.name, traces::group_of(cause), traces::name_of(cause));
}

double dram_bytes_per_second(const proto::Platform& platform) {
    const proto::DdrDevice device = platforms::ddr_device(platform);
    return double(platform.ddr().channels()) * platform.ddr().data_rate_mtps() * 1e6 *
           device.bus_width_bits() / 8.0;
}

/// Sets areas of silicon: of each unit, of the components, of all. A unit without a figure has no key:
/// area.not_modelled names it.
void area_statistics(const platforms::AreaReport& report, uint32_t node_nm, traces::StatSet& stats) {
    std::map<std::string_view, platforms::Area> components;
    std::map<std::string, std::vector<std::string>> missing;  // units by the reason
    for (const platforms::AreaRow& row : report.rows) {
        const platforms::Area& area = row.area;
        if (!area.not_modelled.empty()) {
            missing[area.not_modelled].push_back(row.unit);
            continue;
        }
        stats.set(fmt::format("area.{}_mm2", row.unit), area.mm2, "mm2",
                  fmt::format("area of the unit, {:.3g} to {:.3g}{}{}", area.low, area.high,
                              area.note.empty() ? "" : ": ", area.note));
        platforms::Area& sum = components[traces::name_of(row.component)];
        sum.source = area.source;
        sum.mm2 += area.mm2;
        sum.low += area.low;
        sum.high += area.high;
    }
    const auto set = [&](const std::string& key, double mm2, std::string_view meaning) {
        stats.set(fmt::format("area.{}_mm2", key), mm2, "mm2", meaning);
    };
    for (const auto& [component, sum] : components) {
        set(fmt::format("by_component.{}", component), sum.mm2,
            fmt::format("area of all units of a component, by: {}", sum.source));
        set(fmt::format("low.{}", component), sum.low, "its low end");
        set(fmt::format("high.{}", component), sum.high, "its high end");
    }
    if (!components.empty()) {
        set("total", report.mm2,
            fmt::format("area of all units with a figure at {} nm, without {}", node_nm,
                        platforms::area_left_out));
        set("low", report.low, "low end of area.total_mm2: all units at theirs");
        set("high", report.high, "high end of area.total_mm2: all units at theirs");
    }
    uint64_t count = 0;
    std::string why;
    for (const auto& [reason, units] : missing) {
        count += units.size();
        const std::string others = units.size() > 1 ? fmt::format(" and {} more", units.size() - 1) : "";
        why += fmt::format("{}{}{}: {}", why.empty() ? "" : "; ", units.front(), others, reason);
    }
    if (count > 0) stats.set("area.not_modelled", count, "count", fmt::format("no area is known of {}", why));
}

}  // namespace

void Device::Impl::count_statistics(traces::StatSet& stats) {
    const DeviceTimeline& device = accounting->device();
    const double seconds = double(core.edge(now_)) * 1e-12;
    stats.set("cycles.total", uint64_t{now_}, "cycle", "core cycles until the last completion");
    stats.set("cycles.compute", device.cycles(Cause::device_busy_compute), "cycle",
              "core cycles in which at least one compute unit was busy");
    stats.set("cycles.memory_stall", device.cycles(Cause::device_stalled_memory), "cycle",
              "other core cycles in which a transfer was in flight or a compute unit starved");
    stats.set("cycles.other", device.cycles(Cause::device_idle_other), "cycle", "the remaining core cycles");
    stats.set("cycles.unattributed", accounting->unattributed(), "cycle",
              "unit cycles without a cause, over all units; always 0");
    stats.set("time.total_us", seconds * 1e6, "us", "simulated time until the last completion");
    stats.set("ops.macs", work->macs(), "mac", "multiply-accumulates of matrix products and convolutions");
    const auto ratio = [](double part, double whole) { return whole > 0 ? part / whole : 0.0; };
    stats.set("utilization.compute", ratio(work->cycles_at_peak(), double(now_)), "ratio",
              "sum over types of MACs / peak MACs per cycle of all arrays, / cycles.total");
    const uint64_t dram = work->bytes(Level::ddr, true) + work->bytes(Level::ddr, false);
    stats.set("utilization.dram_bandwidth", ratio(double(dram), seconds * dram_bytes_per_second(platform)),
              "ratio", "DRAM bytes / (peak DRAM bandwidth * time)");
    stats.set("tasks.issued", controller->issued_count(), "count", "tasks issued");
    stats.set("tasks.completed", controller->completed_count(), "count", "tasks completed");
    const execution::HazardLog none;
    hazard_statistics(data ? data->hazards() : none, stats);
    const uint32_t node_nm = ledger->prices().node_nm;
    area_statistics(platforms::area_of(platform, units, node_nm), node_nm, stats);
}

void hazard_statistics(const execution::HazardLog& log, traces::StatSet& stats) {
    stats.set("hazards.count", log.count(), "count",
              "races between tasks and reads of bytes that nobody wrote");
    for (int k = 0; k < execution::hazard_kind_count; ++k) {
        const auto kind = static_cast<execution::HazardKind>(k);
        stats.set(fmt::format("hazards.{}", name_of(kind)), log.count(kind), "count", meaning_of(kind));
    }
    stats.set("hazards.benign", log.benign(), "count",
              "of hazards.count: rewrites of the bytes that were there already");
}

void Device::Impl::unit_statistics(traces::StatSet& stats, std::vector<uint64_t>& busy) {
    for (size_t u = 0; u + 1 < units.size(); ++u) {
        if (carries_bytes(units[u].kind)) continue;
        for (int c = 0; c < traces::unit_cause_count; ++c) {
            const auto cause = static_cast<Cause>(c);
            const uint64_t cycles = accounting->cycles(static_cast<uint16_t>(u), cause);
            if (traces::group_of(cause) == "busy") busy[u] += cycles;
            stats.set(unit_key(units[u], cause), cycles, "cycle", traces::meaning_of(cause));
        }
    }
    const DeviceTimeline& device = accounting->device();
    for (const Cause cause :
         {Cause::device_busy_compute, Cause::device_stalled_memory, Cause::device_idle_other}) {
        stats.set(unit_key(units.back(), cause), device.cycles(cause), "cycle", traces::meaning_of(cause));
    }
}

void Device::Impl::array_statistics(traces::StatSet& stats) {
    uint64_t useful = 0, padding = 0, arrays = 0;
    for (size_t u = 0; u + 1 < units.size(); ++u) {
        if (!row_of(units[u].kind).macs) continue;
        ++arrays;
        useful += accounting->cycles(static_cast<uint16_t>(u), Cause::busy_useful);
        padding += accounting->cycles(static_cast<uint16_t>(u), Cause::busy_padding);
    }
    const auto share = [](uint64_t part, uint64_t whole) {
        return whole > 0 ? double(part) / double(whole) : 0.0;
    };
    stats.set("utilization.array.spatial", share(useful, useful + padding), "ratio",
              "useful / (useful + padding) cycles of all arrays: share of the elements that work while "
              "operands stream");
    stats.set("utilization.array.temporal", share(useful + padding, arrays * now_), "ratio",
              "(useful + padding) cycles of all arrays / (arrays * cycles.total): share of the time in which "
              "operands stream");
    stats.set("utilization.array.total", share(useful, arrays * now_), "ratio",
              "useful cycles of all arrays / (arrays * cycles.total) = spatial * temporal");
}

void Device::Impl::resource_statistics(traces::StatSet& stats, std::vector<uint64_t>& busy) {
    size_t resource = 0;
    std::vector<std::pair<uint16_t, DramCounters>> channels;
    for (size_t u = 0; u + 1 < units.size(); ++u) {
        if (!carries_bytes(units[u].kind)) continue;
        const ResourceStats counted = interconnect->memory_system().stats(resource++, now_);
        if (level_of(units[u].kind) == Level::ddr)
            channels.emplace_back(static_cast<uint16_t>(u), counted.dram);
        for (int c = 0; c < traces::unit_cause_count; ++c) {
            const auto cause = static_cast<Cause>(c);
            uint64_t cycles = 0;
            if (cause == Cause::busy_useful) cycles = counted.useful;
            if (cause == Cause::busy_overhead) cycles = counted.overhead;
            if (cause == Cause::idle_no_work) cycles = counted.idle;
            if (traces::group_of(cause) == "busy") busy[u] += cycles;
            stats.set(unit_key(units[u], cause), cycles, "cycle", traces::meaning_of(cause));
        }
    }
    energy->dram_background(channels, now_);
}

/// Sets the busy time of each unit, given in core cycles, in cycles of the clock that it runs on and in time.
void Device::Impl::busy_statistics(traces::StatSet& stats, const std::vector<uint64_t>& busy) {
    struct Domain {
        ClockDomain domain;
        const char* name;
    };
    static constexpr Domain domains[] = {{ClockDomain::core, "core"},
                                         {ClockDomain::array, "array"},
                                         {ClockDomain::sram, "sram"},
                                         {ClockDomain::interconnect, "interconnect"},
                                         {ClockDomain::ddr, "ddr"}};
    for (const Domain& domain : domains)
        stats.set(fmt::format("clock.{}_mhz", domain.name),
                  double(platforms::clock_of(platform, domain.domain).hz()) / 1e6, "MHz",
                  fmt::format("frequency of the {} clock", domain.name));
    for (size_t u = 0; u + 1 < units.size(); ++u) {
        const ClockDomain own = row_of(units[u].kind).clock;
        const Clock clock = platforms::clock_of(platform, own);
        const double seconds = double(busy[u]) / double(core.hz());
        stats.set(fmt::format("busy.{}.us", units[u].name), seconds * 1e6, "us",
                  "time in which the unit was busy");
        stats.set(fmt::format("busy.{}.cycles", units[u].name),
                  static_cast<uint64_t>(std::llround(seconds * double(clock.hz()))),
                  fmt::format("{}_cycle", domains[static_cast<size_t>(own)].name),
                  "the same in cycles of the clock that the unit runs on");
    }
}

void Device::Impl::memory_statistics(traces::StatSet& stats) {
    const auto bytes = [&](const char* name, Level level) {
        stats.set(fmt::format("bytes.{}.read", name), work->bytes(level, true), "byte",
                  fmt::format("bytes read from {} by transfers and operand reads", name));
        stats.set(fmt::format("bytes.{}.write", name), work->bytes(level, false), "byte",
                  fmt::format("bytes written to {} by transfers and results", name));
    };
    bytes("dram", Level::ddr);
    bytes("l2", Level::l2);
    bytes("l1", Level::l1);
    uint64_t l1_peak = 0;
    for (const uint64_t used : program.l1_bytes) l1_peak = std::max(l1_peak, used);
    stats.set("memory.l1.peak_bytes", l1_peak, "byte", "allocated bytes of the fullest L1");
    stats.set("memory.l2.peak_bytes", program.l2_bytes, "byte", "allocated bytes of L2");
    stats.set("memory.dram.peak_bytes", program.ddr_bytes, "byte", "allocated bytes of DDR");
    stats.set("memory.l1.hits", work->hits(Level::l1), "access",
              "operand accesses of compute tasks served by L1; scratchpads have no cache");
    stats.set("memory.l1.misses", work->misses(Level::l1), "access",
              "operand accesses of compute tasks served by L2 or DDR");
    stats.set("memory.l2.hits", work->hits(Level::l2), "access", "accesses for the engines served by L2");
    stats.set("memory.l2.misses", work->misses(Level::l2), "access",
              "accesses for the engines served by DDR");
}

}  // namespace kpu::model
