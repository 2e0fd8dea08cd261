// The explanation as one page of HTML: page.html with the data of the run in it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/embedded_file.hpp"
#include "base/html_page.hpp"
#include "base/json.hpp"
#include "explain/explanation.hpp"
#include "explain/json_value.hpp"

namespace kpu {
extern const EmbeddedFile explain_page[];
extern const std::size_t explain_page_count;
}  // namespace kpu

namespace kpu::explain {

using nlohmann::json;
using traces::Cause;

namespace {

/// Most bars of a row: more cannot be told apart on a screen and become as many stretches of equal length,
/// each with what takes most of it.
constexpr size_t most_bars = 1500;

/// Strings by number, each once.
class Labels {
  public:
    size_t operator()(const std::string& text) {
        const auto [place, added] = index_.try_emplace(text, texts_.size());
        if (added) texts_.push_back(text);
        return place->second;
    }
    const std::vector<std::string>& texts() const { return texts_; }

  private:
    std::map<std::string, size_t> index_;
    std::vector<std::string> texts_;
};

bool is_idle(Cause cause) { return cause == Cause::idle_no_work || cause == Cause::idle_finished; }

std::vector<UnitState> thinned(const std::vector<UnitState>& states, Cycles total) {
    if (states.size() <= most_bars) return states;
    std::vector<UnitState> result;
    auto at = states.begin();
    for (size_t bar = 0; bar < most_bars; ++bar) {
        UnitState stretch;
        stretch.from = total * bar / most_bars;
        stretch.to = total * (bar + 1) / most_bars;
        std::array<Cycles, traces::cause_count> cycles{};
        while (at != states.end() && at->to <= stretch.from) ++at;
        for (auto state = at; state != states.end() && state->from < stretch.to; ++state) {
            const Cycles from = std::max(state->from, stretch.from), to = std::min(state->to, stretch.to);
            Cycles& sum = cycles[static_cast<size_t>(state->cause)];
            sum += to - from;
            const bool most = sum >= *std::max_element(cycles.begin(), cycles.end());
            if (!most) continue;
            stretch.cause = state->cause;
            stretch.task = state->task;
        }
        if (stretch.from < stretch.to) result.push_back(stretch);
    }
    return result;
}

class Page {
  public:
    Page(const Explanation& explanation, const RunNumbers& numbers,
         const std::optional<traces::PowerTrace>& power)
        : explanation_(explanation), graph_(explanation.graph), numbers_(numbers), power_(power) {}

    json data() {
        json out = summary_of(explanation_);
        out.erase("units");
        add_numbers(out);
        out["rows"] = rows();
        out["path"] = path();
        out["segment_count"] = explanation_.path.segments().size();
        out["power"] = power_ ? power(*power_) : json();
        out["labels"] = labels_.texts();
        out["causes"] = json::array();
        for (int c = 0; c < traces::cause_count; ++c)
            out["causes"].push_back(traces::full_name_of(static_cast<Cause>(c)));
        return out;
    }

  private:
    /// Adds what the folder of the run says; null or absent: it does not.
    void add_numbers(json& out) const {
        const auto number = [](const auto& value) { return value ? json(*value) : json(); };
        out["energy_uj"] = number(numbers_.energy_uj);
        out["power_w"] = number(numbers_.power_w);
        out["dram_read"] = number(numbers_.dram_read);
        out["dram_written"] = number(numbers_.dram_written);
        out["platform_text"] = numbers_.platform;
        out["device"] = json::array();
        for (const traces::UnitInfo& unit : graph_.info().units)
            out["device"].push_back({unit.name, std::string(row_of(unit.kind).meaning), unit.peak_per_cycle});
        for (json& row : out["operations"]) {
            const auto energy = numbers_.energy_pj.find(row["op"].get<std::string>());
            if (energy != numbers_.energy_pj.end()) row["energy_pj"] = energy->second;
        }
    }

    /// Returns the name, energy of the run and mean power of each bin, dynamic and static.
    static json column(const traces::PowerTrace& trace, const std::string& name,
                       const traces::EnergyColumn& column) {
        json row{{"name", name}};
        for (const bool is_static : {false, true}) {
            json watts = json::array();
            traces::Yoctojoules sum = 0;
            for (size_t bin = 0; bin < trace.count; ++bin) {
                const traces::Yoctojoules energy = is_static ? column.statics[bin] : column.dynamic[bin];
                sum += energy;
                watts.push_back(std::round(trace.watts(bin, energy) * 1e6) / 1e6);
            }
            row[is_static ? "static_uj" : "dynamic_uj"] = traces::uj_of(sum);
            row[is_static ? "static_w" : "dynamic_w"] = std::move(watts);
        }
        return row;
    }

    json power(const traces::PowerTrace& trace) const {
        const traces::RunInfo& info = graph_.info();
        json by{{"component", json::array()}, {"engine", json::array()}, {"unit", json::array()}};
        for (size_t c = 0; c < traces::component_count; ++c)
            by["component"].push_back(
                column(trace, std::string(name_of(static_cast<traces::Component>(c))), trace.components[c]));
        for (const int engine : traces::engines_of(info))
            by["engine"].push_back(column(trace, engine < 0 ? "device" : fmt::format("e{}", engine),
                                          trace.engine(info, engine)));
        for (size_t u = 0; u < info.units.size(); ++u) {
            if (info.units[u].kind != UnitKind::device)
                by["unit"].push_back(column(trace, info.units[u].name, trace.units[u]));
        }
        traces::Yoctojoules sum = 0;
        for (size_t bin = 0; bin < trace.count; ++bin) sum += trace.total(bin);
        return {{"bin_us", static_cast<double>(trace.width) / 1e6},
                {"end_us", static_cast<double>(trace.end) / 1e6},
                {"total_uj", traces::uj_of(sum)},
                {"by", std::move(by)}};
    }

    /// Returns the name of a task, with the source that it was made of.
    size_t label(uint32_t task) {
        const std::string place = graph_.place_of(task);
        return labels_(place.empty() ? graph_.label(task)
                                     : fmt::format("{} at {}", graph_.label(task), place));
    }

    json rows() {
        json out = json::array();
        for (size_t u = 0; u < graph_.info().units.size(); ++u) {
            const auto unit = static_cast<uint16_t>(u);
            const auto& states = graph_.states(unit);
            const bool works = std::any_of(states.begin(), states.end(),
                                           [](const UnitState& state) { return !is_idle(state.cause); });
            if (!works || unit == graph_.device()) continue;
            json row{{"name", graph_.unit_name(unit)}, {"states", json::array()}};
            for (const UnitState& state : thinned(states, graph_.total())) {
                if (is_idle(state.cause)) continue;
                row["states"].push_back(
                    {state.from, state.to, static_cast<int>(state.cause), label(state.task)});
            }
            out.push_back(std::move(row));
        }
        return out;
    }

    static Cause mostly(const PathSegment& segment) {
        const auto most = std::max_element(segment.causes.begin(), segment.causes.end(),
                                           [](const auto& a, const auto& b) { return a.second < b.second; });
        return most == segment.causes.end() ? Cause::idle_no_work : most->first;
    }

    /// Neighbours are one bar where there are too many of them.
    json path() {
        const auto& segments = explanation_.path.segments();
        json out = json::array();
        const size_t stride = segments.size() / most_bars + 1;
        for (size_t i = 0; i < segments.size(); i += stride) {
            const size_t last = std::min(i + stride, segments.size()) - 1;
            const auto longest = std::max_element(
                segments.begin() + static_cast<std::ptrdiff_t>(i),
                segments.begin() + static_cast<std::ptrdiff_t>(last + 1),
                [](const PathSegment& a, const PathSegment& b) { return a.to - a.from < b.to - b.from; });
            out.push_back({segments[i].from, segments[last].to, static_cast<int>(mostly(*longest)),
                           label(longest->task), labels_(graph_.unit_name(longest->unit)),
                           labels_(reason_of(graph_, *longest))});
        }
        return out;
    }

    const Explanation& explanation_;
    const RunGraph& graph_;
    const RunNumbers& numbers_;
    const std::optional<traces::PowerTrace>& power_;
    Labels labels_;
};

}  // namespace

std::optional<traces::PowerTrace> page_power(const traces::Recording& recording) {
    const traces::RunInfo& info = recording.info;
    if (!info.prices.not_modelled.empty() || info.end_ps == 0) return std::nullopt;
    constexpr Picoseconds bins = 200;
    const Picoseconds cycle = info.clock().edge(1);
    return power_trace(info, recording.events, std::max(cycle, (info.end_ps + bins - 1) / bins),
                       {true, false});
}

std::string html_of(const Explanation& explanation, const RunNumbers& numbers,
                    const std::optional<traces::PowerTrace>& power) {
    return html_page(explain_page[0].text, json_text(Page(explanation, numbers, power).data()));
}

}  // namespace kpu::explain
