#include "traces/corners.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kpu::traces {

namespace {

/// Counts and residencies as the ledger left them in the statistics.
EnergyCounts counts_of(const StatSet& stats, const EnergyPrices& prices) {
    EnergyCounts counts;
    counts.actions = prices.actions.size();
    for (const ActionPrice& price : prices.actions) {
        const std::string key = fmt::format("energy.count.{}.{}", name_of(price.component), price.action);
        counts.by_op.push_back(stats.contains(key) ? stats.integer(key) : 0);
    }
    for (size_t c = 0; c < component_count; ++c) {
        const auto ps = [&](const char* state) {
            const std::string key =
                fmt::format("power.residency.{}.{}_us", name_of(static_cast<Component>(c)), state);
            return static_cast<Picoseconds>(std::llround(stats.contains(key) ? stats.real(key) * 1e6 : 0.0));
        };
        counts.residency[c] = {ps("on"), ps("gated")};
        counts.end_ps = std::max(counts.end_ps, counts.residency[c].on + counts.residency[c].gated);
    }
    return counts;
}

}  // namespace

EnergyPrices at_corner(const EnergyPrices& prices, const EnergyCorner& corner) {
    EnergyPrices result = prices;
    result.corner = corner.name;
    for (size_t i = 0; i < corner.actions_pj.size(); ++i)
        result.actions.at(i).energy_pj = corner.actions_pj[i];
    result.statics = corner.statics;
    result.dram_background_mw = corner.dram_background_mw;
    result.phy_static_mw = corner.phy_static_mw;
    return result;
}

std::optional<EnergyBand> energy_band(const StatSet& stats, const EnergyPrices& prices) {
    if (!prices.not_modelled.empty() || prices.corners.size() != 2 || !stats.contains("energy.total_uj"))
        return std::nullopt;
    const EnergyCounts counts = counts_of(stats, prices);
    const auto energy = [&](size_t corner) {
        return price(counts, at_corner(prices, prices.corners[corner])).exact.total();
    };
    const Yoctojoules low = energy(0), high = energy(1);
    const double run_ps = static_cast<double>(counts.end_ps);
    const auto watts = [run_ps](Yoctojoules amount) { return run_ps > 0 ? pj_of(amount) / run_ps : 0.0; };
    return EnergyBand{uj_of(low), uj_of(high), watts(low), watts(high)};
}

}  // namespace kpu::traces
