#include "traces/component_states.hpp"

#include <cmath>
#include <numeric>

namespace kpu::traces {

std::vector<ComponentRates> component_rates(const EnergyPrices& prices) {
    std::vector<ComponentRates> rates;
    for (size_t c = 0; c < component_count; ++c) {
        double on_mw = 0, gated_mw = 0;
        for (const StaticPower& power : prices.statics) {
            if (static_cast<size_t>(power.component) != c) continue;
            on_mw += power.on_mw;
            gated_mw += power.gated_mw;
        }
        double always_mw = 0;
        if (static_cast<Component>(c) == Component::dram) always_mw = prices.dram_background_mw;
        if (static_cast<Component>(c) == Component::phy) always_mw = prices.phy_static_mw;
        rates.push_back({yj_per_ps(on_mw), yj_per_ps(gated_mw), yj_per_ps(always_mw)});
    }
    return rates;
}

Component component_of(UnitKind kind) {
    const UnitKindRow& row = row_of(kind);
    switch (row.role) {
        case UnitRole::compute:
            return row.macs ? Component::array : Component::vector;
        case UnitRole::mover:
            return Component::dma;
        case UnitRole::memory:
            if (const auto level = level_of(kind))
                return *level == Level::ddr  ? Component::dram
                       : *level == Level::l2 ? Component::l2
                                             : Component::l1;
            return Component::noc;
        default:
            return Component::ctrl;
    }
}

namespace {

/// `whole` split by weights: to each the difference of the rounded sums, so that nothing is lost.
void split(Yoctojoules whole, const std::vector<double>& weights, Yoctojoules ComponentRates::*share,
           std::vector<ComponentRates>& units) {
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    if (!(sum > 0)) return;
    double before = 0;
    Yoctojoules given = 0;
    size_t last = weights.size() - 1;
    while (weights[last] == 0) --last;
    for (size_t unit = 0; unit <= last; ++unit) {
        if (weights[unit] == 0) continue;
        before += weights[unit];
        const Yoctojoules upto =
            unit == last ? whole
                         : static_cast<Yoctojoules>(std::floor(static_cast<double>(whole) * (before / sum)));
        units[unit].*share += upto - given;
        given = upto;
    }
}

}  // namespace

std::vector<ComponentRates> unit_rates(const EnergyPrices& prices, const std::vector<UnitInfo>& units,
                                       Component component) {
    std::vector<ComponentRates> result(units.size());
    const auto has_it = [&](const UnitInfo& unit) {
        const Component own = component_of(unit.kind);
        return row_of(unit.kind).role != UnitRole::other &&
               (own == component || (own == Component::dram && component == Component::phy));
    };
    std::vector<size_t> all;
    for (size_t u = 0; u < units.size(); ++u)
        if (has_it(units[u])) all.push_back(u);
    // a component without a unit of its own is the device's
    if (all.empty() && !units.empty()) all.push_back(units.size() - 1);
    std::vector<double> even(units.size()), on(units.size()), gated(units.size());
    for (const size_t u : all) even[u] = 1;
    for (const StaticPart& part : prices.parts) {
        if (part.component != component) continue;
        std::vector<size_t> own;
        for (const size_t u : all)
            if (units[u].engine == part.engine) own.push_back(u);
        const std::vector<size_t>& sharing = own.empty() ? all : own;
        for (const size_t u : sharing) {
            on[u] += part.on_mw / static_cast<double>(sharing.size());
            gated[u] += part.gated_mw / static_cast<double>(sharing.size());
        }
    }
    const auto or_even = [&even](const std::vector<double>& weights) -> const std::vector<double>& {
        return std::accumulate(weights.begin(), weights.end(), 0.0) > 0 ? weights : even;
    };
    const ComponentRates whole = component_rates(prices)[static_cast<size_t>(component)];
    split(whole.on, or_even(on), &ComponentRates::on, result);
    split(whole.gated, or_even(gated), &ComponentRates::gated, result);
    split(whole.always, even, &ComponentRates::always, result);
    return result;
}

std::vector<ComponentOn> ComponentStates::finish(const Clock& clock, Cycles end) {
    std::vector<ComponentOn> result;
    const Picoseconds end_ps = clock.edge(end);
    if (end_ps == 0) return result;
    const std::vector<ComponentRates> rates = component_rates(prices_);
    for (size_t c = 0; c < component_count; ++c) {
        ComponentOn on;
        static_cast<ComponentRates&>(on) = rates[c];
        on.component = static_cast<Component>(c);
        on.end = end_ps;
        const auto cycles = prices_.clock_gating ? active_[c].on_until(end)
                                                 : std::vector<ActiveIntervals::Interval>{{0, end}};
        for (const auto& [first, last] : cycles) {
            on.intervals.emplace_back(clock.edge(first), clock.edge(last));
            on.residency.on += on.intervals.back().second - on.intervals.back().first;
        }
        on.residency.gated = end_ps - on.residency.on;
        result.push_back(std::move(on));
    }
    return result;
}

}  // namespace kpu::traces
