#include <fmt/format.h>

#include <cmath>
#include <numeric>
#include <set>

#include "base/diagnostics.hpp"
#include "traces/ledger.hpp"

namespace kpu::traces {

namespace {

constexpr double pj_per_mw_ps = 1e-3;

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
    totals.by_action.resize(counts.actions);
    totals.by_op.resize(counts.op_rows());
    for (size_t action = 0; action < counts.actions; ++action) {
        const double energy_pj = prices.actions[action].energy_pj;
        totals.by_action[action] = static_cast<double>(counts.of_action(action)) * energy_pj;
        totals.dynamic += totals.by_action[action];
        totals.dynamic_by_component[static_cast<size_t>(prices.actions[action].component)] +=
            totals.by_action[action];
        for (size_t op = 0; op < totals.by_op.size(); ++op) {
            totals.by_op[op] += static_cast<double>(counts.by_op[op * counts.actions + action]) * energy_pj;
        }
    }
    auto& statics = totals.static_by_component;
    for (const StaticPower& power : prices.statics) {
        const auto& time = counts.residency[static_cast<size_t>(power.component)];
        statics[static_cast<size_t>(power.component)] +=
            (power.on_mw * static_cast<double>(time.on) + power.gated_mw * static_cast<double>(time.gated)) *
            pj_per_mw_ps;
    }
    const double run_ps = static_cast<double>(counts.end_ps);
    statics[static_cast<size_t>(Component::dram)] += prices.dram_background_mw * run_ps * pj_per_mw_ps;
    statics[static_cast<size_t>(Component::phy)] += prices.phy_static_mw * run_ps * pj_per_mw_ps;
    totals.statics = std::accumulate(statics.begin(), statics.end(), 0.0);
    return totals;
}

}  // namespace kpu::traces
