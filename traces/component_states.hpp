#pragma once

#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "traces/active_intervals.hpp"
#include "traces/ledger.hpp"

namespace kpu::traces {

/// Static power of a component, or of what a unit has of it.
struct ComponentRates {
    Yoctojoules on = 0, gated = 0;  ///< in a picosecond, by the state of its clock
    Yoctojoules always = 0;         ///< in any state: background of the DRAM, the PHY
};

/// Returns the rates of every component.
std::vector<ComponentRates> component_rates(const EnergyPrices& prices);

/// Returns the component that a unit of this kind is part of; that of a DRAM channel is dram, and phy too.
Component component_of(UnitKind kind);

/// Returns what each unit has of a component's rates, indexed by unit: they sum to those exactly.
std::vector<ComponentRates> unit_rates(const EnergyPrices& prices, const std::vector<UnitInfo>& units,
                                       Component component);

/// Intervals in which a component's clock runs, and its rates.
struct ComponentOn : ComponentRates {
    Component component;
    EnergyCounts::Residency residency;
    std::vector<std::pair<Picoseconds, Picoseconds>> intervals;  ///< in which it does: disjoint, ascending
    Picoseconds end = 0;                                         ///< end of the run
    /// Calls visit(runs, from, to) for every stretch of time in which it does or does not.
    template <typename Visit>
    void for_each(Visit visit) const {
        Picoseconds last = 0;
        for (const auto& [from, to] : intervals) {
            if (from > last) visit(false, last, from);
            visit(true, from, to);
            last = to;
        }
        if (end > last) visit(false, last, end);
    }
};

/// Collects when each component is ON.
class ComponentStates {
  public:
    explicit ComponentStates(const EnergyPrices& prices)
        : prices_(prices), active_(component_count, ActiveIntervals(prices.idle_to_gate_cycles)) {}
    void active(Component component, Cycles from, Cycles to) {
        if (prices_.clock_gating) active_[static_cast<size_t>(component)].add(from, to);
    }
    /// Returns the components at the end of the run; empty when it took no time.
    std::vector<ComponentOn> finish(const Clock& clock, Cycles end);

  private:
    const EnergyPrices& prices_;
    std::vector<ActiveIntervals> active_;
};

}  // namespace kpu::traces
