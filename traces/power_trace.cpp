#include "traces/power_trace.hpp"

#include <map>
#include <set>
#include <unordered_map>

#include "traces/component_states.hpp"

namespace kpu::traces {

namespace {

constexpr size_t max_numbers = 6'000'000;  ///< most numbers of 16 bytes, where units are asked for

class Accumulator {
  public:
    /// Bins of [begin, end), a part of the run.
    Accumulator(const RunInfo& info, Picoseconds begin, Picoseconds end, Picoseconds width,
                PowerDetail detail, size_t max_bins)
        : info_(info),
          detail_(detail),
          clock_(info.clock()),
          last_(info.end_ps == 0 ? 0 : info.end_ps - 1),
          states_(info.prices) {
        if (detail.units)
            max_bins = std::min(max_bins, max_numbers / (2 * (component_count + info.units.size() + 1)));
        const Picoseconds length = end - begin;
        while (length / width >= max_bins) width *= 2;
        trace_.width = width;
        trace_.begin = begin;
        trace_.end = end;
        trace_.count = length == 0 ? 0 : (length - 1) / width + 1;
        const EnergyColumn empty{std::vector<Yoctojoules>(trace_.count),
                                 std::vector<Yoctojoules>(trace_.count)};
        trace_.components.fill(empty);
        if (detail.units) trace_.units.assign(info.units.size() + 1, empty);
        by_op_.resize(trace_.count);
        for (const ActionPrice& price : info.prices.actions) prices_.push_back(yj_of_pj(price.energy_pj));
    }

    void take(const Event& event) {
        if (event.kind == EventKind::active) {
            const Cycles from = clock_.edges_before(event.time_ps);
            states_.active(static_cast<Component>(event.unit), from, from + event.duration());
        }
        if (event.kind != EventKind::energy || trace_.count == 0) return;
        const Cycles from = clock_.edges_before(event.time_ps);
        const Yoctojoules energy = static_cast<uint64_t>(event.value) * prices_[event.unit];
        const Component component = info_.prices.actions[event.unit].component;
        auto& column = trace_.components[static_cast<size_t>(component)].dynamic;
        std::vector<Yoctojoules>* unit =
            units_have(component)
                ? &trace_.units[std::min<size_t>(event.burner(), info_.units.size())].dynamic
                : nullptr;
        // what lies after the end counts at the end
        const Picoseconds start = std::min(event.time_ps, last_);
        const Picoseconds stop = std::min(clock_.edge(from + event.duration()), info_.end_ps);
        spread(energy, start, stop, [&](size_t bin, Yoctojoules part) {
            column[bin] += part;
            if (unit != nullptr) (*unit)[bin] += part;
            if (event.op != background_op) by_op_[bin][event.op] += part;
        });
    }

    PowerTrace finish() {
        add_statics();
        trace_.op.reserve(trace_.count);
        if (detail_.ops) trace_.ops.resize(trace_.count);
        for (size_t bin = 0; bin < trace_.count; ++bin) {
            uint32_t best = background_op;
            Yoctojoules most = 0;
            for (const auto& [op, energy] : by_op_[bin]) {
                if (energy > most || (energy == most && energy > 0 && op < best)) {
                    best = op;
                    most = energy;
                }
            }
            trace_.op.push_back(best);
            if (!detail_.ops) continue;
            trace_.ops[bin].assign(by_op_[bin].begin(), by_op_[bin].end());
            std::sort(trace_.ops[bin].begin(), trace_.ops[bin].end());
        }
        return std::move(trace_);
    }

  private:
    bool units_have(Component component) const {
        return detail_.units && !(detail_.on_chip && component == Component::dram);
    }

    /// Calls visit(bin, from, to) for every piece of [from, to) that lies in one bin.
    template <typename Visit>
    void for_each_piece(Picoseconds from, Picoseconds to, Visit visit) const {
        to = std::min(to, trace_.end);
        for (Picoseconds at = std::max(from, trace_.begin); at < to;) {
            const size_t bin = (at - trace_.begin) / trace_.width;
            const Picoseconds next = std::min(to, trace_.start(bin) + trace_.width);
            visit(bin, at, next);
            at = next;
        }
    }

    /// Calls visit(bin, part) for every bin that [from, to) touches; without length, for that of `from`.
    template <typename Visit>
    void spread(Yoctojoules energy, Picoseconds from, Picoseconds to, Visit visit) const {
        if (to <= from) {
            if (from >= trace_.begin && from < trace_.end)
                visit((from - trace_.begin) / trace_.width, energy);
            return;
        }
        for_each_piece(from, to, [&](size_t bin, Picoseconds first, Picoseconds last) {
            visit(bin, share_of(energy, last - from, to - from) - share_of(energy, first - from, to - from));
        });
    }

    void add_rate(Yoctojoules rate, Picoseconds from, Picoseconds to,
                  std::vector<Yoctojoules>& column) const {
        if (rate == 0) return;
        for_each_piece(from, to, [&](size_t bin, Picoseconds first, Picoseconds last) {
            column[bin] += rate * (last - first);
        });
    }

    void add_statics() {
        for (const ComponentOn& on : states_.finish(clock_, clock_.edges_before(info_.end_ps))) {
            add(on, on, trace_.components[static_cast<size_t>(on.component)].statics);
            if (!units_have(on.component)) continue;
            const std::vector<ComponentRates> rates = unit_rates(info_.prices, info_.units, on.component);
            for (size_t u = 0; u < rates.size(); ++u) add(on, rates[u], trace_.units[u].statics);
            if (rates.empty()) add(on, on, trace_.units.back().statics);
        }
    }

    void add(const ComponentOn& on, const ComponentRates& rates, std::vector<Yoctojoules>& column) const {
        if (rates.on == 0 && rates.gated == 0 && rates.always == 0) return;
        on.for_each([&](bool runs, Picoseconds from, Picoseconds to) {
            add_rate(runs ? rates.on : rates.gated, from, to, column);
        });
        add_rate(rates.always, 0, info_.end_ps, column);
    }

    const RunInfo& info_;
    PowerDetail detail_;
    Clock clock_;
    Picoseconds last_;  ///< picosecond of the run
    ComponentStates states_;
    PowerTrace trace_;
    std::vector<Yoctojoules> prices_;  ///< indexed by action
    std::vector<std::unordered_map<uint32_t, Yoctojoules>> by_op_;
};

}  // namespace

Yoctojoules PowerTrace::total(size_t bin) const {
    Yoctojoules sum = 0;
    for (const EnergyColumn& component : components) sum += component.of(bin);
    return sum;
}

EnergyColumn PowerTrace::engine(const RunInfo& info, int engine) const {
    EnergyColumn sum{std::vector<Yoctojoules>(count), std::vector<Yoctojoules>(count)};
    for (size_t u = 0; u < units.size(); ++u) {
        const int own = u < info.units.size() ? info.units[u].engine : -1;
        if (own != engine) continue;
        for (size_t bin = 0; bin < count; ++bin) {
            sum.dynamic[bin] += units[u].dynamic[bin];
            sum.statics[bin] += units[u].statics[bin];
        }
    }
    return sum;
}

std::vector<std::pair<std::string, EnergyColumn>> PowerTrace::by_op(const RunInfo& info) const {
    const EnergyColumn empty{std::vector<Yoctojoules>(count), std::vector<Yoctojoules>(count)};
    std::map<uint32_t, EnergyColumn> columns;  // background_op is the last of all numbers
    columns.emplace(background_op, empty);
    for (size_t bin = 0; bin < count; ++bin) {
        EnergyColumn& rest = columns.at(background_op);
        for (const EnergyColumn& component : components) {
            rest.dynamic[bin] += component.dynamic[bin];
            rest.statics[bin] += component.statics[bin];
        }
        for (const auto& [own, energy] : ops[bin]) {
            columns.try_emplace(own, empty).first->second.dynamic[bin] += energy;
            rest.dynamic[bin] -= energy;
        }
    }
    std::vector<std::pair<std::string, EnergyColumn>> named;
    for (auto& [own, column] : columns) named.emplace_back(info.op_name(own), std::move(column));
    return named;
}

PowerTrace power_trace(const RunInfo& info, const Events& events, Picoseconds width_ps, PowerDetail detail,
                       size_t max_bins) {
    Accumulator trace(info, 0, info.end_ps, width_ps, detail, max_bins);
    for (const Event& event : events) trace.take(event);
    return trace.finish();
}

PowerTrace power_between(const RunInfo& info, const Events& events, Picoseconds from, Picoseconds to) {
    Accumulator trace(info, from, to, std::max<Picoseconds>(1, to - from), {true, true}, 2);
    for (const Event& event : events) trace.take(event);
    return trace.finish();
}

std::vector<int> engines_of(const RunInfo& info) {
    std::set<int> engines;
    for (const UnitInfo& unit : info.units)
        if (unit.engine >= 0) engines.insert(unit.engine);
    std::vector<int> list(engines.begin(), engines.end());
    list.push_back(-1);
    return list;
}

}  // namespace kpu::traces
