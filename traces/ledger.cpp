#include "traces/ledger.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/diagnostics.hpp"
#include "traces/active_intervals.hpp"
#include "traces/run_info.hpp"

namespace kpu::traces {

namespace {

constexpr Picoseconds peak_bin_ps = 1'000'000;
constexpr size_t peak_max_bins = 100'000;
constexpr double pj_per_uj = 1e6;
constexpr double pj_per_mw_ps = 1e-3;

/// When each component is ON.
class ComponentStates {
  public:
    explicit ComponentStates(const EnergyPrices& prices)
        : prices_(prices), active_(component_count, ActiveIntervals(prices.idle_to_gate_cycles)) {}

    void active(Component component, Cycles from, Cycles to) {
        if (prices_.clock_gating) active_[static_cast<size_t>(component)].add(from, to);
    }

    /// Residencies at the end of the run; static energy goes to `bins`.
    std::array<EnergyCounts::Residency, component_count> finish(const Clock& clock, Cycles end,
                                                                PowerBins& bins) {
        std::array<EnergyCounts::Residency, component_count> residency{};
        const Picoseconds end_ps = clock.edge(end);
        if (end_ps == 0) return residency;
        for (size_t c = 0; c < component_count; ++c) {
            double on_mw = 0, gated_mw = 0;
            for (const StaticPower& power : prices_.statics) {
                if (static_cast<size_t>(power.component) != c) continue;
                on_mw += power.on_mw;
                gated_mw += power.gated_mw;
            }
            const auto on = prices_.clock_gating ? active_[c].on_until(end)
                                                 : std::vector<ActiveIntervals::Interval>{{0, end}};
            const auto book = [&](double mw, Picoseconds from, Picoseconds to) {
                if (mw > 0 && to > from) {
                    bins.add(PowerBins::statics, mw * static_cast<double>(to - from) * pj_per_mw_ps, from,
                             to);
                }
            };
            Picoseconds last = 0;
            for (const auto& [first_cycle, last_cycle] : on) {
                const Picoseconds from = clock.edge(first_cycle), to = clock.edge(last_cycle);
                residency[c].on += to - from;
                book(gated_mw, last, from);
                book(on_mw, from, to);
                last = to;
            }
            book(gated_mw, last, end_ps);
            residency[c].gated = end_ps - residency[c].on;
        }
        const double run_ps = static_cast<double>(end_ps);
        bins.add(PowerBins::dram_background, prices_.dram_background_mw * run_ps * pj_per_mw_ps, 0, end_ps);
        bins.add(PowerBins::phy_static, prices_.phy_static_mw * run_ps * pj_per_mw_ps, 0, end_ps);
        return residency;
    }

  private:
    const EnergyPrices& prices_;
    std::vector<ActiveIntervals> active_;
};

}  // namespace

struct EnergyLedger::State {
    State(EnergyPrices given, Clock core, size_t op_count, EventSink* events)
        : prices(std::move(given)),
          op_rows(op_count + 1),
          clock(core),
          sink(events),
          states(prices),
          bins(peak_bin_ps, peak_max_bins) {
        counts.actions = prices.actions.size();
        counts.by_op.resize(op_rows * counts.actions);
    }
    void count(ActionId action, uint64_t count, Cycles from, Cycles to, uint32_t op);
    void activate(Component component, Cycles from, Cycles to);
    void record(EventKind kind, uint16_t unit, Cycles from, Cycles to, uint32_t op, uint64_t value);

    EnergyPrices prices;
    size_t op_rows;  ///< the background last
    Clock clock;
    EventSink* sink;
    EnergyCounts counts;
    ComponentStates states;
    PowerBins bins;
    EnergyTotals totals;
    bool finished = false;
};

EnergyLedger::EnergyLedger(EnergyPrices prices, Clock core, size_t op_count, EventSink* sink) {
    check(prices);
    state_ = std::make_unique<State>(std::move(prices), core, op_count, sink);
}
EnergyLedger::EnergyLedger(EnergyLedger&&) noexcept = default;
EnergyLedger::~EnergyLedger() = default;

const EnergyPrices& EnergyLedger::prices() const { return state_->prices; }

inline void EnergyLedger::State::count(ActionId action, uint64_t count, Cycles from, Cycles to, uint32_t op) {
    const size_t row = op == background_op ? op_rows - 1 : op;
    if (action >= counts.actions || (op != background_op && op + size_t{1} >= op_rows)) {
        throw InternalError(fmt::format("energy: action {} of operation {} does not exist", action, op));
    }
    counts.by_op[row * counts.actions + action] += count;
    const ActionPrice& price = prices.actions[action];
    bins.add(static_cast<size_t>(price.component), static_cast<double>(count) * price.energy_pj,
             clock.edge(from), clock.edge(std::max(from, to)));
    if (sink != nullptr) record(EventKind::energy, action, from, to, op, count);
}

inline void EnergyLedger::State::activate(Component component, Cycles from, Cycles to) {
    if (to <= from) return;
    states.active(component, from, to);
    if (sink != nullptr)
        record(EventKind::active, static_cast<uint16_t>(component), from, to, background_op, 0);
}

void EnergyLedger::State::record(EventKind kind, uint16_t unit, Cycles from, Cycles to, uint32_t op,
                                 uint64_t value) {
    const Cycles duration = to > from ? to - from : 0;
    Event event;
    event.kind = kind;
    event.unit = unit;
    event.time_ps = clock.edge(from);
    event.task = static_cast<uint32_t>(duration);
    event.reserved = static_cast<uint32_t>(duration >> 32);
    event.op = op;
    event.value = static_cast<int64_t>(value);
    sink->record(event);
}

void EnergyLedger::add(ActionId action, uint64_t count, Cycles from, Cycles to, uint32_t op) {
    if (count > 0) state_->count(action, count, from, to, op);
}

void EnergyLedger::active(Component component, Cycles from, Cycles to) {
    state_->activate(component, from, to);
}

void EnergyLedger::book(ActionId action, uint64_t count, Cycles from, Cycles to, uint32_t op) {
    State& s = *state_;
    if (count == 0) return;
    s.count(action, count, from, to, op);
    s.activate(s.prices.actions[action].component, from, std::max(to, from + 1));
}

void EnergyLedger::finish(Cycles end, StatSet& stats) {
    State& s = *state_;
    if (s.finished) throw InternalError("energy ledger closed twice");
    s.finished = true;
    s.counts.end_ps = s.clock.edge(end);
    s.counts.residency = s.states.finish(s.clock, end, s.bins);
    s.bins.finish(s.counts.end_ps);
    s.totals = price(s.counts, s.prices);

    set_counts(stats);
    if (const std::string& why = s.prices.not_modelled; !why.empty()) {
        stats.set("energy.not_modelled", uint64_t{1}, "flag",
                  fmt::format("Energy and power are not modelled: {}.", why));
        return;
    }
    const auto energy = [&stats](const std::string& key, double pj, const char* meaning) {
        stats.set(key, pj / pj_per_uj, "uJ", meaning);
    };
    energy("energy.total_uj", s.totals.total(),
           "Energy of the run: dynamic and static, DRAM and PHY included.");
    energy("energy.dynamic_uj", s.totals.dynamic, "Energy of actions.");
    energy("energy.static_uj", s.totals.statics,
           "Leakage, idle clocks, DRAM background and PHY over the run.");
    energy("energy.background_uj", background_pj(),
           "Energy of no operation: static energy and unattributed actions.");
    for (size_t c = 0; c < component_count; ++c) {
        const std::string name(name_of(static_cast<Component>(c)));
        energy(fmt::format("energy.by_component.{}_uj", name),
               s.totals.dynamic_by_component[c] + s.totals.static_by_component[c],
               "Energy of one component, static included.");
        energy(fmt::format("energy.static.{}_uj", name), s.totals.static_by_component[c],
               "Static energy of one component.");
    }
    double peak = 0;
    for (size_t bin = 0; bin < s.bins.count(); ++bin)
        peak = std::max(peak, s.bins.watts(bin, s.bins.total(bin)));
    const double run_ps = static_cast<double>(s.counts.end_ps);
    stats.set("power.average_w", run_ps > 0 ? s.totals.total() / run_ps : 0.0, "W",
              "Total energy over the time of the run.");
    stats.set("power.peak_w", peak, "W", "Highest power of a bin of power.bin_us.");
    stats.set("power.bin_us", static_cast<double>(s.bins.width()) / 1e6, "us",
              "Width of the bins of power.peak_w: 1, doubled while a run has more than 100,000 of them.");
}

/// What energy follows from, priced or not.
void EnergyLedger::set_counts(StatSet& stats) const {
    const State& s = *state_;
    for (size_t c = 0; c < component_count; ++c) {
        const std::string_view name = name_of(static_cast<Component>(c));
        stats.set(fmt::format("power.residency.{}.on_us", name),
                  static_cast<double>(s.counts.residency[c].on) / 1e6, "us",
                  "Time in which the clock of the component runs.");
        stats.set(fmt::format("power.residency.{}.gated_us", name),
                  static_cast<double>(s.counts.residency[c].gated) / 1e6, "us",
                  "Time in which the clock of the component is gated.");
    }
    for (size_t action = 0; action < s.counts.actions; ++action) {
        const ActionPrice& price = s.prices.actions[action];
        stats.set(fmt::format("energy.count.{}.{}", name_of(price.component), price.action),
                  s.counts.of_action(action), price.per,
                  "How often the action occurred; the run's energy is the sum of count times price.");
    }
}

double EnergyLedger::total_pj() const { return state_->totals.total(); }
double EnergyLedger::dynamic_pj() const { return state_->totals.dynamic; }
double EnergyLedger::static_pj() const { return state_->totals.statics; }
double EnergyLedger::op_pj(uint32_t op) const { return state_->totals.by_op.at(op); }
double EnergyLedger::background_pj() const {
    const EnergyTotals& totals = state_->totals;
    return (totals.by_op.empty() ? 0.0 : totals.by_op.back()) + totals.statics;
}
const EnergyCounts& EnergyLedger::counts() const { return state_->counts; }
const EnergyTotals& EnergyLedger::totals() const { return state_->totals; }
const PowerBins& EnergyLedger::bins() const { return state_->bins; }

std::vector<EnergyLedger::Row> EnergyLedger::summary() const {
    const State& s = *state_;
    std::vector<Row> rows;
    for (size_t i = 0; i < s.counts.actions; ++i) {
        const ActionPrice& price = s.prices.actions[i];
        const uint64_t count = s.counts.of_action(i);
        if (count == 0) continue;
        rows.push_back({std::string(name_of(price.component)), price.action, price.per, count,
                        price.energy_pj, s.totals.by_action[i]});
    }
    for (size_t c = 0; c < component_count; ++c) {
        const double pj = s.totals.static_by_component[c];
        if (pj == 0) continue;
        rows.push_back({std::string(name_of(static_cast<Component>(c))), "static", "ps", s.counts.end_ps,
                        pj / static_cast<double>(s.counts.end_ps), pj});
    }
    return rows;
}

PowerTrace power_trace(const RunInfo& info, const Events& events, Picoseconds width_ps, size_t max_bins) {
    const Clock clock = info.clock();
    const Picoseconds last_edge = clock.edge(clock.edges_before(info.end_ps));
    while (last_edge / width_ps >= max_bins) width_ps *= 2;
    PowerTrace trace{PowerBins(width_ps, max_bins), {}};
    ComponentStates states(info.prices);
    const Picoseconds last = info.end_ps == 0 ? 0 : info.end_ps - 1;
    std::vector<std::unordered_map<uint32_t, double>> by_op(info.end_ps == 0 ? 0 : last / width_ps + 1);
    for (const Event& event : events) {
        if (event.kind != EventKind::active && event.kind != EventKind::energy) continue;
        const Cycles from = clock.edges_before(event.time_ps);
        if (event.kind == EventKind::active) {
            states.active(static_cast<Component>(event.unit), from, from + event.duration());
            continue;
        }
        const ActionPrice& price = info.prices.actions[event.unit];
        const double pj = static_cast<double>(static_cast<uint64_t>(event.value)) * price.energy_pj;
        // what lies behind the end counts at the end, as in PowerBins::finish
        const Picoseconds start = std::min(event.time_ps, last);
        const Picoseconds stop = std::min(clock.edge(from + event.duration()), info.end_ps);
        trace.bins.add(static_cast<size_t>(price.component), pj, start, stop);
        if (event.op == background_op || by_op.empty()) continue;
        Spread(width_ps, start, stop).for_each([&](size_t bin, double share) {
            by_op[bin][event.op] += pj * share;
        });
    }
    states.finish(clock, clock.edges_before(info.end_ps), trace.bins);
    trace.bins.finish(info.end_ps);
    for (const auto& energies : by_op) {
        uint32_t best = background_op;
        double most = 0;
        for (const auto& [op, pj] : energies) {
            if (pj > most || (pj == most && pj > 0 && op < best)) {
                best = op;
                most = pj;
            }
        }
        trace.op.push_back(best);
    }
    return trace;
}

}  // namespace kpu::traces
