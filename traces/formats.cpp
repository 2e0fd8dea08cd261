#include "traces/formats.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/text.hpp"

namespace kpu::traces {
namespace {

Cycles parse_cycle(const std::string& text) {
    Cycles value = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failed != std::errc() || end != text.data() + text.size())
        throw UserError(
            fmt::format("--trace-window: `{}` is no core cycle. Fix: give a whole number, 0 or more.", text));
    return value;
}

std::pair<Cycles, Cycles> parse_window(const std::string& window) {
    std::pair<Cycles, Cycles> result{0, ~Cycles{0}};
    if (window.empty()) return result;
    const size_t colon = window.find(':');
    if (colon == std::string::npos)
        throw UserError(
            fmt::format("--trace-window takes A:B in cycles, not `{}`. Fix: write 1000:2000.", window));
    const std::string first = window.substr(0, colon), last = window.substr(colon + 1);
    if (!first.empty()) result.first = parse_cycle(first);
    if (!last.empty()) result.second = parse_cycle(last);
    if (result.first >= result.second)
        throw UserError(
            fmt::format("--trace-window {}: it ends before it begins. Fix: write A:B with A < B.", window));
    return result;
}

}  // namespace

RecordCounts count_records(const RunInfo& info, const Events& events) {
    std::vector<bool> shown;
    for (const UnitInfo& unit : info.units) shown.push_back(info.view.shows(unit.name));
    RecordCounts counts;
    for (const Event& event : events) {
        if (event.time_ps < info.from() || event.time_ps > info.to()) continue;
        const bool of_unit = event.kind == EventKind::cause || event.kind == EventKind::counter ||
                             event.kind == EventKind::begin || event.kind == EventKind::access;
        if (!of_unit || shown[event.unit]) ++counts.by_kind[static_cast<size_t>(event.kind)];
    }
    return counts;
}

const Format& find_format(std::string_view name) {
    std::vector<std::string_view> names;
    for (const Format* format : formats()) {
        if (format->name == name) return *format;
        names.push_back(format->name);
    }
    throw UserError(fmt::format("there is no trace `{}`. Fix: did you mean `{}`? There are {}.", name,
                                nearest_name(name, names), fmt::join(names, ", ")));
}

TraceView view_of(const RunInfo& info, const std::string& window, const std::vector<std::string>& filter) {
    const auto [first, last] = parse_window(window);
    const Clock clock = info.clock();
    TraceView view;
    view.units = filter;
    view.from = clock.edge(std::min(first, info.total_cycles));
    if (last < info.total_cycles) view.to = clock.edge(last);
    const bool none = std::none_of(info.units.begin(), info.units.end(),
                                   [&](const auto& unit) { return view.shows(unit.name); });
    if (none && !info.units.empty()) {
        std::vector<std::string> names;
        for (const auto& unit : info.units) names.push_back(unit.name);
        throw UserError(fmt::format("--trace-filter {}: no unit has such a name. Fix: choose among {}.",
                                    fmt::join(filter, " "), fmt::join(names, ", ")));
    }
    return view;
}

void check_window(const std::string& window) { parse_window(window); }

}  // namespace kpu::traces
