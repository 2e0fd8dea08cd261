#include "traces/binned_signals.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace kpu::traces {

namespace {

constexpr size_t max_bins = 100'000;
constexpr double gbps_per_byte_per_ps = 1000;
constexpr size_t static_row = component_count, total_row = component_count + 1;

}  // namespace

BinnedSignals::BinnedSignals(const RunInfo& info, const Events& events) : end(info.end_ps) {
    const PowerBins bins = power_trace(info, events, info.bin_ps(), max_bins).bins;
    width = bins.width();
    count = bins.count();
    bin_bandwidth(info, events);
    bin_dram(info, events);
    bin_power(bins);
}

std::string BinnedSignals::power_name(size_t row) {
    if (row == static_row) return "power.static";
    if (row == total_row) return "power.total";
    return fmt::format("power.{}", name_of(static_cast<Component>(row)));
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

void BinnedSignals::bin_power(const PowerBins& bins) {
    for (auto& row : power) row.resize(count);
    for (size_t bin = 0; bin < count; ++bin) {
        PowerBins::Row row = bins.row(bin);
        row[static_cast<size_t>(Component::dram)] += row[PowerBins::dram_background];
        row[static_cast<size_t>(Component::phy)] += row[PowerBins::phy_static];
        for (size_t c = 0; c < component_count; ++c) power[c][bin] = bins.watts(bin, row[c]);
        power[static_row][bin] = bins.watts(bin, row[PowerBins::statics]);
        power[total_row][bin] = bins.watts(bin, bins.total(bin));
    }
}

void BinnedSignals::to_gbps(std::vector<double>& bytes) const {
    for (size_t bin = 0; bin < bytes.size(); ++bin)
        bytes[bin] *= gbps_per_byte_per_ps / static_cast<double>(std::min(width, end - bin * width));
}

}  // namespace kpu::traces
