#include "traces/binned_signals.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace kpu::traces {

namespace {

constexpr size_t max_bins = 100'000;
constexpr double gbps_per_byte_per_ps = 1000;
constexpr size_t static_row = component_count, total_row = component_count + 1;

}  // namespace

BinnedSignals::BinnedSignals(const RunInfo& info, const Events& events, bool units) : end(info.end_ps) {
    const PowerTrace trace = power_trace(info, events, info.bin_ps(), {units, false}, max_bins);
    width = trace.width;
    count = trace.count;
    bin_bandwidth(info, events);
    bin_dram(info, events);
    bin_power(trace);
}

std::string BinnedSignals::power_name(size_t row) {
    if (row == static_row) return "static";
    if (row == total_row) return "total";
    return std::string(name_of(static_cast<Component>(row)));
}

void BinnedSignals::bin_bandwidth(const RunInfo& info, const Events& events) {
    struct Point {
        Picoseconds time = 0;
        int64_t bytes = 0;
    };
    bandwidth.resize(info.units.size());
    std::vector<Point> last(info.units.size());
    for (const Event& event : events) {
        if (event.kind != EventKind::counter || event.cause != static_cast<uint8_t>(CounterId::bytes))
            continue;
        bandwidth.at(event.unit).resize(count);
        Point& point = last[event.unit];
        const Point now{std::min<Picoseconds>(event.time_ps, info.end_ps), event.value};
        if (count > 0 && now.bytes != point.bytes) {
            const double bytes = static_cast<double>(now.bytes) - static_cast<double>(point.bytes);
            Spread(width, point.time, now.time).for_each([&](size_t bin, double share) {
                bandwidth[event.unit][std::min(bin, count - 1)] += bytes * share;
            });
        }
        point = now;
    }
    for (auto& row : bandwidth) to_gbps(row);
}

void BinnedSignals::bin_dram(const RunInfo& info, const Events& events) {
    if (info.dram_burst_bytes == 0) return;
    for (auto& row : dram) row.resize(count);
    if (count == 0) return;
    const Clock clock = info.clock();
    for (const Event& event : events) {
        if (event.kind != EventKind::energy) continue;
        const ActionPrice& price = info.prices.actions[event.unit];
        if (price.component != Component::dram || (price.action != "read" && price.action != "write"))
            continue;
        const double bytes = static_cast<double>(event.value) * info.dram_burst_bytes;
        auto& values = dram[price.action == "write" ? 1 : 0];
        const Picoseconds to = clock.edge(clock.edges_before(event.time_ps) + event.duration());
        const Picoseconds from = std::min(event.time_ps, info.end_ps - 1);
        Spread(width, from, std::min(to, info.end_ps)).for_each([&](size_t bin, double share) {
            values[bin] += bytes * share;
        });
    }
    for (auto& row : dram) to_gbps(row);
}

void BinnedSignals::bin_power(const PowerTrace& trace) {
    for (auto& row : power) row.resize(count);
    for (size_t bin = 0; bin < count; ++bin) {
        Yoctojoules statics = 0;
        for (size_t c = 0; c < component_count; ++c) {
            const EnergyColumn& column = trace.components[c];
            const auto component = static_cast<Component>(c);
            const bool whole = component == Component::dram || component == Component::phy;
            power[c][bin] = trace.watts(bin, whole ? column.of(bin) : column.dynamic[bin]);
            if (!whole) statics += column.statics[bin];
        }
        power[static_row][bin] = trace.watts(bin, statics);
        power[total_row][bin] = trace.watts(bin, trace.total(bin));
    }
    for (size_t u = 0; u + 1 < trace.units.size(); ++u) {
        for (const bool is_static : {false, true}) {
            const auto& energies = is_static ? trace.units[u].statics : trace.units[u].dynamic;
            std::vector<double>& watts = unit_power[is_static ? 1 : 0].emplace_back();
            for (size_t bin = 0; bin < count; ++bin) watts.push_back(trace.watts(bin, energies[bin]));
        }
    }
}

void BinnedSignals::to_gbps(std::vector<double>& bytes) const {
    for (size_t bin = 0; bin < bytes.size(); ++bin)
        bytes[bin] *= gbps_per_byte_per_ps / static_cast<double>(std::min(width, end - bin * width));
}

}  // namespace kpu::traces
