#include "runtime/compare/timeline.hpp"

#include <algorithm>
#include <map>

#include "traces/report.hpp"

namespace kpu::compare {
namespace {

using explain::RunGraph;
using explain::UnitState;
using traces::Cause;

constexpr size_t most_device_bars = 1500;
/// Limits of bars for all units together; a unit has as many as its share, within the limits below.
constexpr size_t most_unit_bars = 20'000, most_bars_of_unit = 800, least_bars_of_unit = 100;

uint8_t kind_of(Cause cause) {
    return cause == Cause::device_busy_compute ? 0 : cause == Cause::device_stalled_memory ? 1 : 2;
}

uint8_t band_of(Cause cause) {
    const auto& bands = traces::bands();
    const auto found = std::find_if(bands.begin(), bands.end(), [cause](const traces::Band& band) {
        return std::find(band.causes.begin(), band.causes.end(), cause) != band.causes.end();
    });
    return static_cast<uint8_t>(found - bands.begin());
}

template <typename Kind>
std::vector<Bar> bars_of(const std::vector<UnitState>& states, Kind kind) {
    std::vector<Bar> bars;
    for (const UnitState& state : states) {
        if (state.from == state.to) continue;
        const Bar bar{state.from, state.to, state.op, kind(state.cause)};
        if (!bars.empty() && bars.back().op == bar.op && bars.back().kind == bar.kind)
            bars.back().to = bar.to;
        else
            bars.push_back(bar);
    }
    return bars;
}

std::vector<Bar> thinned(const std::vector<Bar>& bars, Cycles total, size_t most) {
    if (bars.size() <= most) return bars;
    std::vector<Bar> result;
    auto at = bars.begin();
    for (size_t i = 0; i < most; ++i) {
        const Cycles from = total * i / most, to = total * (i + 1) / most;
        std::map<std::pair<uint32_t, uint8_t>, Cycles> sums;
        while (at != bars.end() && at->to <= from) ++at;
        for (auto bar = at; bar != bars.end() && bar->from < to; ++bar)
            sums[{bar->op, bar->kind}] += std::min(bar->to, to) - std::max(bar->from, from);
        const auto best = std::max_element(sums.begin(), sums.end(),
                                           [](const auto& a, const auto& b) { return a.second < b.second; });
        if (best == sums.end()) continue;
        const auto [op, kind] = best->first;
        if (!result.empty() && result.back().to == from && result.back().op == op &&
            result.back().kind == kind)
            result.back().to = to;
        else
            result.push_back({from, to, op, kind});
    }
    return result;
}

std::vector<OperationTime> times_of(const RunGraph& graph) {
    std::vector<OperationTime> ops(graph.info().ops.size() + 1);
    const auto of = [&ops](uint32_t op) -> OperationTime& {
        return ops[std::min<size_t>(op, ops.size() - 1)];
    };
    for (const UnitState& state : graph.states(graph.device()))
        of(state.op).charged[kind_of(state.cause)] += state.to - state.from;
    for (const explain::TaskRun& task : graph.tasks()) {
        OperationTime& time = of(task.op);
        time.begin = std::min(time.begin, task.issue);
        if (task.begun()) time.end = std::max(time.end, task.ended() ? task.end : graph.total());
    }
    return ops;
}

}  // namespace

Timeline timeline_of(const RunGraph& graph) {
    Timeline timeline;
    timeline.ops = times_of(graph);
    timeline.device =
        thinned(bars_of(graph.states(graph.device()), kind_of), graph.total(), most_device_bars);
    const uint8_t idle = band_of(Cause::idle_no_work);
    std::vector<uint16_t> working;
    for (size_t u = 0; u < graph.info().units.size(); ++u) {
        const auto unit = static_cast<uint16_t>(u);
        const auto& states = graph.states(unit);
        if (unit != graph.device() &&
            std::any_of(states.begin(), states.end(),
                        [idle](const UnitState& state) { return band_of(state.cause) != idle; }))
            working.push_back(unit);
    }
    const size_t most = std::clamp(most_unit_bars / std::max<size_t>(working.size(), 1), least_bars_of_unit,
                                   most_bars_of_unit);
    for (const uint16_t unit : working) {
        std::vector<Bar> bars = thinned(bars_of(graph.states(unit), band_of), graph.total(), most);
        bars.erase(
            std::remove_if(bars.begin(), bars.end(), [idle](const Bar& bar) { return bar.kind == idle; }),
            bars.end());
        timeline.units.push_back({graph.unit_name(unit), std::move(bars)});
    }
    return timeline;
}

}  // namespace kpu::compare
