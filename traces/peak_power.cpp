#include "traces/peak_power.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>

#include "base/diagnostics.hpp"
#include "traces/corners.hpp"
#include "traces/power_trace.hpp"

namespace kpu::traces {

namespace {

constexpr size_t listed_stretches = 8, listed_units = 4, listed_ops = 3;

/// Returns a positive number and what follows it; 0 where there is none.
std::pair<double, std::string> number_and_unit(const std::string& text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || !std::isfinite(value) || value <= 0) return {0, text};
    return {value, std::string(static_cast<const char*>(end), text.data() + text.size())};
}

double scaled(const std::string& text, const std::map<std::string, double>& units) {
    const auto [value, unit] = number_and_unit(text);
    const auto known = units.find(unit);
    return known == units.end() ? 0 : value * known->second;
}

/// Bins that follow each other and are all above the budget.
struct Stretch {
    size_t first = 0, last = 0;  ///< both belong to it
    double watts = 0;            ///< power of the highest
};

std::vector<Stretch> stretches_above(const PowerTrace& trace, double watts) {
    std::vector<Stretch> found;
    for (size_t bin = 0; bin < trace.count; ++bin) {
        const double now = trace.watts(bin, trace.total(bin));
        if (now <= watts) continue;
        if (found.empty() || found.back().last + 1 != bin) found.push_back({bin, bin, now});
        found.back().last = bin;
        found.back().watts = std::max(found.back().watts, now);
    }
    return found;
}

/// Returns "ddr0 1.2 W, e0_nmu0 0.4 W": those with most energy in a stretch, their mean power.
std::string largest(std::vector<std::pair<Yoctojoules, std::string>> rows, size_t most, Picoseconds time) {
    std::stable_sort(rows.begin(), rows.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    std::string text;
    for (size_t i = 0; i < std::min(most, rows.size()) && rows[i].first > 0; ++i)
        text += fmt::format("{}{} {:.3g} W", i == 0 ? "" : ", ", rows[i].second,
                            pj_of(rows[i].first) / static_cast<double>(time));
    return text;
}

double peak_of(const PowerTrace& trace) {
    double peak = 0;
    for (size_t bin = 0; bin < trace.count; ++bin) peak = std::max(peak, trace.watts(bin, trace.total(bin)));
    return peak;
}

/// Says what the peak is at the corners of the energy table, where the limit lies between them.
std::string near_text(const RunInfo& info, const Events& events, const PeakBudget& budget, double most) {
    if (info.prices.corners.size() != 2) return {};
    std::array<double, 2> peaks{};
    RunInfo at = info;
    for (size_t corner = 0; corner < peaks.size(); ++corner) {
        at.prices = at_corner(info.prices, info.prices.corners[corner]);
        peaks[corner] = peak_of(power_trace(at, events, ps_of_ns(budget.window_ns)));
    }
    if (most < peaks[0] || most > peaks[1]) return {};
    return fmt::format("  near: at the energy table's low to high corner the peak is {:.4g} W to {:.4g} W\n",
                       peaks[0], peaks[1]);
}

std::string describe(const RunInfo& info, const Events& events, const PowerTrace& trace,
                     const Stretch& stretch) {
    const Picoseconds from = trace.start(stretch.first),
                      to = trace.start(stretch.last) + trace.real_width(stretch.last);
    const PowerTrace whole = power_between(info, events, from, to);
    std::vector<std::pair<Yoctojoules, std::string>> units, operations;
    for (size_t u = 0; u < info.units.size(); ++u)
        units.emplace_back(whole.units[u].of(0), info.units[u].name);
    for (const auto& [op, energy] : whole.ops[0]) operations.emplace_back(energy, info.op_name(op));
    return fmt::format("  {:g} us to {:g} us, up to {:.4g} W: {}; operations {}\n",
                       static_cast<double>(from) / 1e6, static_cast<double>(to) / 1e6, stretch.watts,
                       largest(units, listed_units, to - from), largest(operations, listed_ops, to - from));
}

}  // namespace

double ns_of(const std::string& text) { return scaled(text, {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}}); }

PeakBudget parse_peak_budget(const std::string& text) {
    const size_t at = text.find('@');
    PeakBudget budget;
    budget.text = text;
    if (at != std::string::npos) {
        budget.watts = scaled(text.substr(0, at), {{"W", 1}, {"mW", 1e-3}});
        budget.window_ns = ns_of(text.substr(at + 1));
    }
    if (budget.watts > 0 && budget.window_ns > 0) return budget;
    throw UserError(
        fmt::format("--peak-power-budget: `{}` is not a power over a time. Fix: give both with their units, "
                    "W or mW and ns, "
                    "us or ms, like 2.5W@1us.",
                    text));
}

Verdict judge_peak(const RunInfo& info, const Events& events, const PeakBudget& budget, double tolerance) {
    check_bin(budget.window_ns, info.clock());
    const PowerTrace trace = power_trace(info, events, ps_of_ns(budget.window_ns));
    if (trace.width != ps_of_ns(budget.window_ns)) {
        throw UserError(
            fmt::format("--peak-power-budget: {}: the run has more windows than can be held; {:g} us would "
                        "do. Fix: give a longer window.",
                        budget.text, static_cast<double>(trace.width) / 1e6));
    }
    size_t peak = 0, above = 0;
    const double most = budget.watts * (1 + tolerance);
    const auto watts = [&trace](size_t bin) { return trace.watts(bin, trace.total(bin)); };
    for (size_t bin = 0; bin < trace.count; ++bin) {
        if (watts(bin) > watts(peak)) peak = bin;
        if (watts(bin) > most) ++above;
    }
    Verdict verdict;
    verdict.name = "peak power budget " + budget.text;
    verdict.passed = above == 0;
    verdict.text = fmt::format("peak power: {:.4g} W over {:g} us at {:g} us, budget {:g} W + {:g} %",
                               trace.count > 0 ? watts(peak) : 0.0, budget.window_ns / 1e3,
                               static_cast<double>(trace.start(peak)) / 1e6, budget.watts, 100 * tolerance);
    verdict.text += verdict.passed ? "\n" : fmt::format("; {} of {} windows are above\n", above, trace.count);
    verdict.text += near_text(info, events, budget, most);
    std::vector<Stretch> stretches = stretches_above(trace, most);
    std::stable_sort(stretches.begin(), stretches.end(),
                     [](const Stretch& a, const Stretch& b) { return a.watts > b.watts; });
    for (size_t i = 0; i < std::min(listed_stretches, stretches.size()); ++i)
        verdict.text += describe(info, events, trace, stretches[i]);
    if (stretches.size() > listed_stretches)
        verdict.text += fmt::format("  ... and {} more stretches\n", stretches.size() - listed_stretches);
    return verdict;
}

}  // namespace kpu::traces
