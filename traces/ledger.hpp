#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "platforms/clock.hpp"
#include "traces/event.hpp"
#include "traces/stats.hpp"

namespace kpu::traces {

/// Components of the power trace. dram_bg, phy and the static share of every component come from states, not actions.
enum class Component : uint8_t { array, vector, l1, l2, noc, dma, ctrl, dram, phy };
constexpr int component_count = 9;
std::string_view name_of(Component component);

using ActionId = uint16_t;

/// Price of one action, already scaled to the platform's node, voltage, temperature and corner.
struct ActionPrice {
    Component component;
    std::string action;   ///< mac.i8, pe.shift, read, write, burst, descriptor, op.i8, act, ...
    double energy_pj;
    std::string per;
    std::string source;
};

/// Static power of a component instance group in each of its states, mW, scaled.
struct StaticPower {
    Component component;
    double on_mw = 0;      ///< leakage + idle clock tree
    double gated_mw = 0;   ///< clock gated: leakage + 3 % of the clock tree
};

/// Everything the ledger needs; plain data so that traces do not depend on platforms.
struct EnergyPrices {
    std::string table, corner;
    uint32_t node_nm = 0;
    double vdd = 0, temp_c = 0, tdp_w = 0, trace_bin_ns = 1000;
    bool clock_gating = false;
    Cycles idle_to_gate_cycles = 0;
    std::vector<ActionPrice> actions;      ///< ActionId = index
    std::vector<StaticPower> statics;
    double dram_background_mw = 0, phy_static_mw = 0;
    ActionId find(Component component, const std::string& action) const;  ///< throws UserError naming the key
};

/// Counts actions. Integers are the truth; energy is derived in one place. Every add carries its interval so that the
/// power trace can spread it, and its operation so that sums over operations close.
class EnergyLedger {
  public:
    EnergyLedger(EnergyPrices prices, Clock core, size_t op_count, EventSink* sink);
    const EnergyPrices& prices() const { return prices_; }
    /// count actions spread evenly over core cycles [from, to); to == from books at `from`.
    void add(ActionId action, uint64_t count, Cycles from, Cycles to, uint32_t op);
    /// The component does something over [from, to): it is ON then, and by clock gating rules GATED when idle.
    void active(Component component, Cycles from, Cycles to);
    /// Closes the ledger at the end of the run: static energy, statistics energy.*, power.*.
    void finish(Cycles end, StatSet& stats);

    double total_pj() const;
    double dynamic_pj() const;
    double static_pj() const;
    double op_pj(uint32_t op) const;         ///< dynamic energy charged to one operation
    double background_pj() const;            ///< work of no operation, static included

    struct Bin {                              ///< energy of one time bin, pJ
        std::vector<double> by_component;     ///< dynamic, by Component
        double dram_background = 0, phy = 0, statics = 0;
    };
    struct Row { std::string component, action, per; uint64_t count; double energy_per_action_pj, energy_pj; };
    std::vector<Row> summary() const;

  private:
    EnergyPrices prices_;
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace kpu::traces
