#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "traces/energy_amount.hpp"
#include "traces/events.hpp"
#include "traces/power_bins.hpp"
#include "traces/stats.hpp"

namespace kpu::traces {

using ActionId = uint16_t;

/// Price of one action, already scaled to the platform's node, voltage, temperature and corner.
struct ActionPrice {
    Component component;
    std::string action;  ///< mac.i8, pe.shift, read, write, burst, descriptor, op.i8, act, ...
    double energy_pj;
    std::string per;
    std::string source;
};

/// Returns the bytes that one `burst` of component dma stands for. The table's price is that of 64 bytes
/// (their address and their bus handshake), so a DMA request of burst_bytes costs one for every 64 bytes.
constexpr uint32_t dma_beat_group_bytes(uint32_t request_bytes) {
    return request_bytes < 64 ? request_bytes : 64;
}

/// Static power of a component instance group in each of its states, mW, scaled.
struct StaticPower {
    Component component;
    double on_mw = 0;     ///< leakage + idle clock tree
    double gated_mw = 0;  ///< clock gated: leakage + 3 % of the clock tree
};

/// Static power of a part of the device within its component, mW: the weights by which that is split.
struct StaticPart {
    Component component;
    int engine = -1;  ///< -1: of the device
    double on_mw = 0, gated_mw = 0;
};

/// Prices of the same actions at another corner of the table.
struct EnergyCorner {
    std::string name;                ///< low, nominal or high
    std::vector<double> actions_pj;  ///< as EnergyPrices::actions
    std::vector<StaticPower> statics;
    double dram_background_mw = 0, phy_static_mw = 0;
};

/// Prices and everything else that the ledger needs; plain data so that traces do not depend on platforms.
struct EnergyPrices {
    std::string table, corner;
    uint32_t node_nm = 0;
    double vdd = 0, temp_c = 0, tdp_w = 0, trace_bin_ns = 1000;
    bool clock_gating = false;
    Cycles idle_to_gate_cycles = 0;
    std::vector<ActionPrice> actions;  ///< ActionId = index
    std::vector<StaticPower> statics;  ///< rows of one component add up; a component without a row has none
    std::vector<StaticPart> parts;     ///< parts; in a component without any, all units have the same share
    double dram_background_mw = 0, phy_static_mw = 0;
    std::vector<EnergyCorner> corners;  ///< low and high of the table: how wide its band is; empty: not known
    std::string not_modelled;  ///< why the device has no energy: it is outside of what the table describes
    ActionId find(Component component, const std::string& action) const;  ///< throws UserError naming the key
};

/// Refuses negative and non-finite prices, entries without source or unit, and doubles, with a UserError
/// naming the key.
void check(const EnergyPrices& prices);

/// Throws UserError with the reason where a device has no energy.
void require_energy(const EnergyPrices& prices);

/// Counts of a run, in integers: all that pricing needs, so a table can be changed without simulating again.
struct EnergyCounts {
    struct Residency {
        Picoseconds on = 0, gated = 0;  ///< sum = length of the run
    };
    size_t actions = 0;
    std::vector<uint64_t> by_op;  ///< [op][action]; the last op is the background
    std::array<Residency, component_count> residency{};
    /// Energy that clocks would have taken while gated.
    std::array<Yoctojoules, component_count> saved_by_gating{};
    Picoseconds end_ps = 0;
    size_t op_rows() const { return actions == 0 ? 0 : by_op.size() / actions; }
    uint64_t of_action(size_t action) const;
};

/// Energies, pJ: the doubles nearest to exact sums. The total is dynamic + static, and equally the sum over components,
/// the sum over actions + static, and the sum over operations + background.
struct EnergyTotals {
    struct Exact {
        std::array<Yoctojoules, component_count> dynamic_by_component{}, static_by_component{};
        std::vector<Yoctojoules> by_op;
        Yoctojoules dynamic = 0, statics = 0;
        Yoctojoules total() const { return dynamic + statics; }
    };
    Exact exact;
    std::array<double, component_count> dynamic_by_component{}, static_by_component{};
    std::vector<double> by_action;  ///< dynamic
    std::vector<double> by_op;      ///< dynamic; the last one is the background's
    double dynamic = 0, statics = 0;
    double total() const { return pj_of(exact.total()); }
};
/// The one place where counts and residencies become energy: E = sum N e + sum P t. Static energy of dram is
/// its background power, of phy its static power, each over the whole run (energy.md section 2.1).
EnergyTotals price(const EnergyCounts& counts, const EnergyPrices& prices);

/// Units, and how many of the actions they did.
using Burners = std::vector<std::pair<uint16_t, uint64_t>>;

/// Counts actions. Integers are the truth; energy is derived in one place. Every add carries its interval so
/// that the power trace can spread it, and its operation so that sums over operations close.
class EnergyLedger {
  public:
    /// `sink` may be null; otherwise every call is recorded, so that readers of the events can compute power
    /// again. Throws UserError as check().
    EnergyLedger(EnergyPrices prices, Clock core, size_t op_count, EventSink* sink);
    EnergyLedger(EnergyLedger&&) noexcept;
    ~EnergyLedger();
    const EnergyPrices& prices() const;
    /// count actions spread evenly over core cycles [from, to); to == from books at `from`. `op` is an
    /// operation index or background_op.
    /// `burners` sum to `count`: records say which units it is of, none: it is not known.
    void add(ActionId action, uint64_t count, Cycles from, Cycles to, uint32_t op,
             const Burners& burners = {});
    /// The component does something over [from, to): it is ON then and for idle_to_gate_cycles more; GATED
    /// otherwise if the platform gates clocks, else always ON. Intervals may overlap and come in any order.
    void active(Component component, Cycles from, Cycles to);
    /// Books the action, and keeps its component active over [from, to), for a cycle at least.
    void book(ActionId action, uint64_t count, Cycles from, Cycles to, uint32_t op,
              const Burners& burners = {});
    /// Closes the ledger at the end of the run (core cycle, cut-off for residencies): statistics energy.*,
    /// power.*.
    void finish(Cycles end, StatSet& stats);

    // After finish:
    double total_pj() const;
    double dynamic_pj() const;
    double static_pj() const;
    double op_pj(uint32_t op) const;  ///< dynamic energy charged to one operation
    double background_pj() const;     ///< work of no operation, static included
    const EnergyCounts& counts() const;
    const EnergyTotals& totals() const;
    /// Bins of prices.trace_bin_ns, doubled while there are more than 100,000.
    const PowerBins& bins() const;

    struct Row {
        std::string component, action, per;
        uint64_t count;
        double energy_per_action_pj, energy_pj;
    };
    /// Returns every action that occurred, then static power by component (count = ps ON, energy per ps).
    std::vector<Row> summary() const;

  private:
    void set_counts(StatSet& stats) const;
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace kpu::traces
