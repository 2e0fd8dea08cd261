#include "traces/diff/diff.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "base/text.hpp"
#include "traces/diff/line_diff.hpp"

namespace kpu::traces {

namespace {

using Named = std::vector<std::pair<std::string, std::string>>;

/// Fields that differ, in the order of A, then those that only B has.
void add_fields(const Named& a, const Named& b, std::vector<RunDiff::Field>& out) {
    const std::map<std::string, std::string> in_a(a.begin(), a.end()), in_b(b.begin(), b.end());
    for (const auto& [name, value] : a) {
        const auto it = in_b.find(name);
        if (it == in_b.end() || it->second != value)
            out.push_back({name, value, it == in_b.end() ? "" : it->second});
    }
    for (const auto& [name, value] : b) {
        if (in_a.count(name) == 0) out.push_back({name, "", value});
    }
}

/// True for a field that identifies a platform, but changes nothing that it does.
bool is_identity(const std::string& field) {
    return field == "name" || field == "version" || field == "description";
}

void compare_parameters(const DiffSide& a, const DiffSide& b, RunDiff& diff) {
    add_fields(a.platform, b.platform, diff.parameters);
    const auto settings = [](const RunResults& run) {
        Named named;
        for (const auto& [name, value] : run.manifest.parameters)
            named.emplace_back("param." + name, fmt::format("{}", value));
        named.emplace_back("mode", run.manifest.mode);
        named.emplace_back("seed", fmt::format("{}", run.manifest.seed));
        return named;
    };
    add_fields(settings(a.run), settings(b.run), diff.parameters);
    std::stable_partition(diff.parameters.begin(), diff.parameters.end(),
                          [](const auto& field) { return !is_identity(field.name); });
    for (auto& field : diff.parameters) {
        if (is_identity(field.name)) field.name = "platform." + field.name;
    }
}

std::string joined(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
    return text;
}

void compare_programs(const RunResults& a, const RunResults& b, RunDiff& diff) {
    const auto &program_a = a.manifest.program, &program_b = b.manifest.program;
    if (program_a.name != program_b.name) diff.program.push_back({"name", program_a.name, program_b.name});
    if (!a.program.empty() && !b.program.empty()) {
        for (const LineChange& change : line_changes(a.program, b.program))
            diff.program.push_back({fmt::format("line {}", change.line), joined(change.a), joined(change.b)});
        for (const LineChange& change : line_changes(a.program_kernels, b.program_kernels))
            diff.program.push_back(
                {fmt::format("kernels, line {}", change.line), joined(change.a), joined(change.b)});
    }
    // the text has no data and no source places; without text the digest is all that is known
    if (diff.program.empty() && program_a.sha256 != program_b.sha256)
        diff.program.push_back({"sha256", program_a.sha256, program_b.sha256});
}

void compare_data(const RunResults& a, const RunResults& b, RunDiff& diff) {
    const auto inputs = [](const RunResults& run) {
        Named named;
        for (const Manifest::File& file : run.manifest.inputs)
            named.emplace_back("input " + file.name, file.sha256);
        return named;
    };
    const auto outputs = [](const RunResults& run) {
        Named named;
        for (const auto& [file, digest] : run.outputs) named.emplace_back(file, digest);
        return named;
    };
    add_fields(inputs(a), inputs(b), diff.data);
    add_fields(outputs(a), outputs(b), diff.data);
}

/// Returns the place of a statistic in the list: what a reader asks first comes first.
size_t rank_of(const std::string& key) {
    static constexpr std::array<std::string_view, 10> order{
        "cycles.",      "time.",  "energy.total", "power.average", "power.peak",
        "utilization.", "bytes.", "hazards.",     "tasks.",        "energy."};
    for (size_t i = 0; i < order.size(); ++i) {
        if (starts_with(key, order[i])) return i + (key != "cycles.total" ? 1 : 0);
    }
    return order.size() + 1 + (starts_with(key, "units.") ? 0 : 1);
}

bool is_small(const RunDiff::Statistic& row, double cycles, double threshold) {
    if (!row.a || !row.b) return false;
    if (starts_with(row.key, "units.")) return std::abs(row.change()) < threshold * cycles;
    return std::abs(row.relative()) < threshold;
}

void compare_statistics(const RunResults& a, const RunResults& b, const DiffOptions& options, RunDiff& diff) {
    std::map<std::string, RunDiff::Statistic> all;
    for (const auto& [key, stat] : a.stats.all()) {
        all[key].unit = stat.unit;
        all[key].a = a.stats.real(key);
    }
    for (const auto& [key, stat] : b.stats.all()) {
        all[key].unit = stat.unit;
        all[key].b = b.stats.real(key);
    }
    const double cycles = a.stats.contains("cycles.total") ? a.stats.real("cycles.total") : 0;
    for (auto& [key, row] : all) {
        if (row.a == row.b) continue;
        row.key = key;
        row.beyond_tolerance = options.tolerance && is_judged(key) &&
                               (!row.a || !row.b || std::abs(row.relative()) > *options.tolerance);
        if (!row.beyond_tolerance && is_small(row, cycles, options.threshold)) {
            ++diff.small_changes;
        } else {
            diff.statistics.push_back(row);
        }
    }
    std::stable_sort(diff.statistics.begin(), diff.statistics.end(), [](const auto& x, const auto& y) {
        const size_t rank_x = rank_of(x.key), rank_y = rank_of(y.key);
        if (rank_x != rank_y) return rank_x < rank_y;
        return starts_with(x.key, "units.") && std::abs(x.change()) > std::abs(y.change());
    });
}

void compare_operations(const RunResults& a, const RunResults& b, RunDiff& diff) {
    std::map<std::string, const OpRow*> in_b;
    for (const OpRow& row : b.ops) in_b.emplace(row.id, &row);
    static const OpRow none;
    const auto add = [&](const OpRow* x, const OpRow* y) {
        const OpRow &from = x != nullptr ? *x : none, &to = y != nullptr ? *y : none;
        RunDiff::Operation row;
        row.id = x != nullptr ? x->id : y->id;
        row.type = x != nullptr ? x->type : y->type;
        row.in_a = x != nullptr;
        row.in_b = y != nullptr;
        row.cycles_a = from.charged_cycles;
        row.cycles_b = to.charged_cycles;
        row.energy_a = from.energy_pj;
        row.energy_b = to.energy_pj;
        for (size_t c = 0; c < unit_cause_count; ++c) {
            const int64_t change = static_cast<int64_t>(to.causes[c]) - static_cast<int64_t>(from.causes[c]);
            if (std::abs(change) <= std::abs(row.cause_change)) continue;
            row.cause = static_cast<Cause>(c);
            row.cause_change = change;
        }
        const bool same = row.in_a == row.in_b && row.cycles_a == row.cycles_b &&
                          row.energy_a == row.energy_b && row.cause_change == 0 &&
                          from.span_cycles == to.span_cycles;
        if (!same) diff.operations.push_back(row);
    };
    std::map<std::string, bool> seen;
    for (const OpRow& row : a.ops) {
        const auto it = in_b.find(row.id);
        add(&row, it == in_b.end() ? nullptr : it->second);
        seen[row.id] = true;
    }
    for (const OpRow& row : b.ops) {
        if (seen.count(row.id) == 0) add(nullptr, &row);
    }
    const auto size = [](const RunDiff::Operation& row) {
        return row.cycles_a > row.cycles_b ? row.cycles_a - row.cycles_b : row.cycles_b - row.cycles_a;
    };
    std::stable_sort(diff.operations.begin(), diff.operations.end(),
                     [&](const auto& x, const auto& y) { return size(x) > size(y); });
}

void compare_tasks(const DiffSide& a, const DiffSide& b, RunDiff& diff) {
    if (const DiffSide* without = without_events(a, b)) {
        diff.no_divergence = without->no_events;
        if (!without->events_advice.empty())
            diff.no_divergence +=
                fmt::format(": {} to see which task differs first and what the critical paths lost",
                            without->events_advice);
        return;
    }
    diff.divergence = first_divergence(*a.events, *b.events);
    if (!diff.divergence)
        diff.no_divergence = "every step of every task comes at the same core cycle in both";
}

}  // namespace

double RunDiff::Statistic::relative() const {
    if (change() == 0) return 0;
    if (a.value_or(0) == 0) return std::copysign(std::numeric_limits<double>::infinity(), change());
    return change() / std::abs(*a);
}

bool RunDiff::empty() const {
    return parameters.empty() && places.empty() && program.empty() && data.empty() && statistics.empty() &&
           small_changes == 0 && operations.empty() && !divergence;
}

bool RunDiff::beyond_tolerance() const {
    return std::any_of(statistics.begin(), statistics.end(),
                       [](const auto& row) { return row.beyond_tolerance; });
}

bool is_judged(const std::string& key) {
    return key == "cycles.total" || key == "energy.total_uj" || key == "power.average_w" ||
           key == "power.peak_w" || starts_with(key, "bytes.");
}

const DiffSide* without_events(const DiffSide& a, const DiffSide& b) {
    for (const DiffSide* side : {&a, &b}) {
        if (!side->has_events()) return side;
    }
    for (const DiffSide* side : {&a, &b}) {
        if (side->events == nullptr) return side;
    }
    return nullptr;
}

RunDiff compare(const DiffSide& a, const DiffSide& b, const DiffOptions& options) {
    RunDiff diff;
    compare_parameters(a, b, diff);
    add_fields(a.places, b.places, diff.places);
    compare_programs(a.run, b.run, diff);
    compare_data(a.run, b.run, diff);
    if (a.run.complete != b.run.complete) {
        const auto text = [](const RunResults& run) { return run.complete ? "true" : "false"; };
        diff.data.push_back({"complete", text(a.run), text(b.run)});
    }
    compare_statistics(a.run, b.run, options, diff);
    compare_operations(a.run, b.run, diff);
    if (without_events(a, b) == nullptr || !diff.empty()) compare_tasks(a, b, diff);
    return diff;
}

}  // namespace kpu::traces
