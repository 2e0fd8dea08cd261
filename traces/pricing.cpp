#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/diagnostics.hpp"
#include "traces/component_states.hpp"
#include "traces/ledger.hpp"

namespace kpu::traces {

namespace {

std::string key_of(const ActionPrice& price) {
    return fmt::format("{}.{}", name_of(price.component), price.action);
}

void check_amount(double value, const std::string& key) {
    if (std::isfinite(value) && value >= 0) return;
    throw UserError(
        fmt::format("energy table: `{}` is {}. Fix: give a finite value that is not negative.", key, value));
}

}  // namespace

ActionId EnergyPrices::find(Component component, const std::string& action) const {
    for (size_t i = 0; i < actions.size(); ++i) {
        if (actions[i].component == component && actions[i].action == action) return static_cast<ActionId>(i);
    }
    throw UserError(fmt::format("energy table `{}` has no entry `{}.{}`. Fix: add it, with its source.",
                                table, name_of(component), action));
}

void check(const EnergyPrices& prices) {
    std::set<std::string> keys;
    if (prices.actions.size() > UINT16_MAX) throw UserError("energy table: more than 65535 actions.");
    for (const ActionPrice& price : prices.actions) {
        const std::string key = key_of(price);
        check_amount(price.energy_pj, key);
        if (price.source.empty()) {
            throw UserError(
                fmt::format("energy table: `{}` has no source. Fix: say where the value comes from.", key));
        }
        if (price.per.empty()) {
            throw UserError(
                fmt::format("energy table: `{}` has no unit. Fix: set `per` (mac, byte, burst, ...).", key));
        }
        if (!keys.insert(key).second) {
            throw UserError(fmt::format("energy table: `{}` is given twice. Fix: keep one entry.", key));
        }
    }
    for (const StaticPower& power : prices.statics) {
        check_amount(power.on_mw, fmt::format("{}.static.on", name_of(power.component)));
        check_amount(power.gated_mw, fmt::format("{}.static.gated", name_of(power.component)));
    }
    for (const StaticPart& part : prices.parts) {
        check_amount(part.on_mw, fmt::format("{}.static.on", name_of(part.component)));
        check_amount(part.gated_mw, fmt::format("{}.static.gated", name_of(part.component)));
    }
    check_amount(prices.dram_background_mw, "dram.static.background");
    check_amount(prices.phy_static_mw, "phy.static");
    check_amount(prices.trace_bin_ns, "trace_bin_ns");
}

void require_energy(const EnergyPrices& prices) {
    if (prices.not_modelled.empty()) return;
    throw UserError(
        fmt::format("energy and power are not modelled: {}. Fix: ask for none, or change the device.",
                    prices.not_modelled));
}

uint64_t EnergyCounts::of_action(size_t action) const {
    uint64_t sum = 0;
    for (size_t i = action; i < by_op.size(); i += actions) sum += by_op[i];
    return sum;
}

EnergyTotals price(const EnergyCounts& counts, const EnergyPrices& prices) {
    EnergyTotals totals;
    EnergyTotals::Exact& exact = totals.exact;
    totals.by_action.resize(counts.actions);
    exact.by_op.resize(std::max<size_t>(1, counts.op_rows()));
    for (size_t action = 0; action < counts.actions; ++action) {
        const Yoctojoules price = yj_of_pj(prices.actions[action].energy_pj);
        const Yoctojoules energy = counts.of_action(action) * price;
        totals.by_action[action] = pj_of(energy);
        exact.dynamic += energy;
        exact.dynamic_by_component[static_cast<size_t>(prices.actions[action].component)] += energy;
        if (energy == 0) continue;
        for (size_t op = 0; op < counts.op_rows(); ++op)
            exact.by_op[op] += counts.by_op[op * counts.actions + action] * price;
    }
    const std::vector<ComponentRates> rates = component_rates(prices);
    for (size_t c = 0; c < component_count; ++c) {
        const auto& time = counts.residency[c];
        exact.static_by_component[c] =
            rates[c].on * time.on + rates[c].gated * time.gated + rates[c].always * counts.end_ps;
        exact.statics += exact.static_by_component[c];
        totals.dynamic_by_component[c] = pj_of(exact.dynamic_by_component[c]);
        totals.static_by_component[c] = pj_of(exact.static_by_component[c]);
    }
    for (const Yoctojoules energy : exact.by_op) totals.by_op.push_back(pj_of(energy));
    totals.dynamic = pj_of(exact.dynamic);
    totals.statics = pj_of(exact.statics);
    return totals;
}

}  // namespace kpu::traces
