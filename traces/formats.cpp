#include "traces/formats.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text.hpp"
#include "traces/peak_power.hpp"

namespace kpu::traces {
namespace {

Cycles parse_cycle(const std::string& text) {
    Cycles value = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failed != std::errc() || end != text.data() + text.size())
        throw UserError(fmt::format(
            "--trace-window: `{}` is not a core cycle. Fix: give a whole number, 0 or more.", text));
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

/// Checks that each pattern matches one of the names.
void check_patterns(const char* option, const char* what, const std::vector<std::string>& patterns,
                    const std::vector<std::string>& names) {
    for (const std::string& pattern : patterns) {
        const bool found = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
            return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
        });
        if (found || names.empty()) continue;
        constexpr size_t listed = 40;
        const auto end = names.begin() + static_cast<std::ptrdiff_t>(std::min(listed, names.size()));
        throw UserError(fmt::format("{} {}: no {} has such a name. Fix: choose among {}{}.", option, pattern,
                                    what, fmt::join(names.begin(), end, ", "),
                                    names.size() > listed ? ", ..." : ""));
    }
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
    if (info.view.every > 0) {
        const uint64_t intervals = (info.to() - info.from()) / info.view.every + 1;
        for (const EventKind kind : {EventKind::cause, EventKind::counter}) {
            uint64_t& count = counts.by_kind[static_cast<size_t>(kind)];
            count = std::min(count, intervals * info.units.size());
        }
        counts.by_kind[static_cast<size_t>(EventKind::begin)] = 0;
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

TraceView check_view(const ViewText& text) {
    parse_window(text.window);
    TraceView view;
    view.units = text.units;
    view.causes = text.causes;
    view.ops = text.ops;
    std::vector<std::string> causes;
    for (int cause = 0; cause < cause_count; ++cause)
        causes.emplace_back(full_name_of(static_cast<Cause>(cause)));
    check_patterns("--trace-cause", "cause", text.causes, causes);
    if (text.every.empty()) return view;
    const double every_ns = ns_of(text.every);
    if (!(every_ns >= 0.001 && every_ns <= 1e9))
        throw UserError(fmt::format(
            "--trace-every: `{}` is not a time of a trace. Fix: give one with its unit, ns, us or ms, of at "
            "most a second, like 1us.",
            text.every));
    view.every = static_cast<Picoseconds>(std::llround(every_ns * 1000));
    return view;
}

void show_view(RunInfo& info, const ViewText& text) {
    TraceView view = check_view(text);
    const auto [first, last] = parse_window(text.window);
    const Clock clock = info.clock();
    if (first > 0 && first >= info.total_cycles) {
        throw UserError(fmt::format(
            "--trace-window {}: the run has {} core cycles. Fix: give a window that begins in it.",
            text.window, info.total_cycles));
    }
    view.from = clock.edge(first);
    if (last < info.total_cycles) view.to = clock.edge(last);
    std::vector<std::string> units, ops;
    for (const UnitInfo& unit : info.units) units.push_back(unit.name);
    for (const RunInfo::Op& op : info.ops) ops.push_back(op.id);
    ops.emplace_back(background_name);
    check_patterns("--trace-filter", "unit", text.units, units);
    check_patterns("--trace-op", "operation", text.ops, ops);
    if (view.every > 0) {
        const double every_ns = static_cast<double>(view.every) / 1000;
        if (every_ns < 1e9 / static_cast<double>(clock.hz()) * (1 - 1e-12))
            throw UserError(
                fmt::format("--trace-every {}: a core cycle takes {:g} ns. Fix: give a longer time.",
                            text.every, 1e9 / static_cast<double>(clock.hz())));
        info.bin_ns = every_ns;
    }
    info.view = std::move(view);
}

void check_format(const Format& format, const TraceView& view, const OptionValues& options) {
    if (format.refuses == nullptr) return;
    const std::string why = format.refuses(view, options);
    if (!why.empty()) throw UserError(fmt::format("{}: {}", format.name, why));
}

}  // namespace kpu::traces
