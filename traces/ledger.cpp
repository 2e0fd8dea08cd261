#include "traces/ledger.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/diagnostics.hpp"
#include "traces/component_states.hpp"

namespace kpu::traces {

namespace {

constexpr size_t peak_max_bins = 100'000;

}  // namespace

struct EnergyLedger::State {
    State(EnergyPrices given, Clock core, size_t op_count, EventSink* events)
        : prices(std::move(given)),
          op_rows(op_count + 1),
          clock(core),
          sink(events),
          states(prices),
          bins(ps_of_ns(prices.trace_bin_ns), peak_max_bins) {
        counts.actions = prices.actions.size();
        counts.by_op.resize(op_rows * counts.actions);
    }
    void count(ActionId action, uint64_t count, Cycles from, Cycles to, uint32_t op, const Burners& burners);
    void book_static(const ComponentOn& on);
    void activate(Component component, Cycles from, Cycles to);
    void record(EventKind kind, uint16_t unit, Cycles from, Cycles to, uint32_t op, uint64_t value,
                uint16_t burner);

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

inline void EnergyLedger::State::count(ActionId action, uint64_t count, Cycles from, Cycles to, uint32_t op,
                                       const Burners& burners) {
    const size_t row = op == background_op ? op_rows - 1 : op;
    if (action >= counts.actions || (op != background_op && op + size_t{1} >= op_rows)) {
        throw InternalError(fmt::format("energy: action {} of operation {} does not exist", action, op));
    }
    counts.by_op[row * counts.actions + action] += count;
    const ActionPrice& price = prices.actions[action];
    bins.add(static_cast<size_t>(price.component), static_cast<double>(count) * price.energy_pj,
             clock.edge(from), clock.edge(std::max(from, to)));
    if (sink == nullptr) return;
    if (burners.empty()) record(EventKind::energy, action, from, to, op, count, no_unit);
    for (const auto& [unit, part] : burners) record(EventKind::energy, action, from, to, op, part, unit);
}

inline void EnergyLedger::State::activate(Component component, Cycles from, Cycles to) {
    if (to <= from) return;
    states.active(component, from, to);
    if (sink != nullptr)
        record(EventKind::active, static_cast<uint16_t>(component), from, to, background_op, 0, no_unit);
}

/// Static energy goes to the bins of the peak.
void EnergyLedger::State::book_static(const ComponentOn& on) {
    const auto add = [&](size_t column, Yoctojoules rate, Picoseconds from, Picoseconds to) {
        if (rate > 0 && to > from) bins.add(column, pj_of(rate * (to - from)), from, to);
    };
    on.for_each([&](bool runs, Picoseconds from, Picoseconds to) {
        add(PowerBins::statics, runs ? on.on : on.gated, from, to);
    });
    if (on.component == Component::dram) add(PowerBins::dram_background, on.always, 0, counts.end_ps);
    if (on.component == Component::phy) add(PowerBins::phy_static, on.always, 0, counts.end_ps);
}

void EnergyLedger::State::record(EventKind kind, uint16_t unit, Cycles from, Cycles to, uint32_t op,
                                 uint64_t value, uint16_t burner) {
    const Cycles duration = to > from ? to - from : 0;
    Event event;
    event.kind = kind;
    event.unit = unit;
    event.time_ps = clock.edge(from);
    event.set_duration(duration, burner);
    event.op = op;
    event.value = static_cast<int64_t>(value);
    sink->record(event);
}

void EnergyLedger::add(ActionId action, uint64_t count, Cycles from, Cycles to, uint32_t op,
                       const Burners& burners) {
    if (count > 0) state_->count(action, count, from, to, op, burners);
}

void EnergyLedger::active(Component component, Cycles from, Cycles to) {
    state_->activate(component, from, to);
}

void EnergyLedger::book(ActionId action, uint64_t count, Cycles from, Cycles to, uint32_t op,
                        const Burners& burners) {
    State& s = *state_;
    if (count == 0) return;
    s.count(action, count, from, to, op, burners);
    s.activate(s.prices.actions[action].component, from, std::max(to, from + 1));
}

void EnergyLedger::finish(Cycles end, StatSet& stats) {
    State& s = *state_;
    if (s.finished) throw InternalError("energy ledger closed twice");
    s.finished = true;
    s.counts.end_ps = s.clock.edge(end);
    for (const ComponentOn& on : s.states.finish(s.clock, end)) {
        s.counts.residency[static_cast<size_t>(on.component)] = on.residency;
        s.counts.saved_by_gating[static_cast<size_t>(on.component)] = (on.on - on.gated) * on.residency.gated;
        s.book_static(on);
    }
    s.bins.finish(s.counts.end_ps);
    s.totals = price(s.counts, s.prices);

    set_counts(stats);
    if (const std::string& why = s.prices.not_modelled; !why.empty()) {
        stats.set("energy.not_modelled", uint64_t{1}, "flag",
                  fmt::format("Energy and power are not modelled: {}.", why));
        return;
    }
    const auto energy = [&stats](const std::string& key, Yoctojoules amount, const char* meaning) {
        stats.set(key, uj_of(amount), "uJ", meaning);
    };
    const EnergyTotals::Exact& exact = s.totals.exact;
    const auto& saved = s.counts.saved_by_gating;
    energy("energy.total_uj", exact.total(), "Energy of the run: dynamic and static, DRAM and PHY included.");
    energy("energy.dynamic_uj", exact.dynamic, "Energy of actions.");
    energy("energy.static_uj", exact.statics, "Leakage, idle clocks, DRAM background and PHY over the run.");
    energy("energy.background_uj", exact.by_op.back() + exact.statics,
           "Energy of no operation: static energy and unattributed actions.");
    for (size_t c = 0; c < component_count; ++c) {
        const std::string name(name_of(static_cast<Component>(c)));
        energy(fmt::format("energy.by_component.{}_uj", name),
               exact.dynamic_by_component[c] + exact.static_by_component[c],
               "Energy of one component, static included.");
        energy(fmt::format("energy.static.{}_uj", name), exact.static_by_component[c],
               "Static energy of one component.");
        if (c < static_cast<size_t>(Component::dram))  // the others have no gated clock
            energy(fmt::format("energy.saved_by_gating.{}_uj", name), saved[c],
                   "Static energy that the component's gated clock did not take.");
    }
    energy("energy.saved_by_gating_uj", std::accumulate(saved.begin(), saved.end(), Yoctojoules{0}),
           "Static energy that gated clocks did not take: what the run would take beyond its total with "
           "energy.clock_gating false.");
    double peak = 0;
    for (size_t bin = 0; bin < s.bins.count(); ++bin)
        peak = std::max(peak, s.bins.watts(bin, s.bins.total(bin)));
    const double run_ps = static_cast<double>(s.counts.end_ps);
    stats.set("power.average_w", run_ps > 0 ? s.totals.total() / run_ps : 0.0, "W",
              "Total energy over the time of the run.");
    stats.set("power.peak_w", peak, "W", "Highest power of a bin of power.bin_us.");
    stats.set("power.bin_us", static_cast<double>(s.bins.width()) / 1e6, "us",
              "Width of the bins of power.peak_w: 1 unless asked otherwise, doubled while a run has more "
              "than 100,000 of them.");
}

/// Sets the counts from which energy follows, priced or not.
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
    return pj_of(totals.exact.by_op.back() + totals.exact.statics);
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

}  // namespace kpu::traces
