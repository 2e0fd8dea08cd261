// A difference of two runs, for people and as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "base/text_lines.hpp"
#include "traces/diff/diff.hpp"
#include "traces/report.hpp"

namespace kpu::traces {

namespace {

using nlohmann::json;

std::string number(const std::optional<double>& value) {
    if (!value) return "-";
    const bool whole = *value == std::floor(*value) && std::abs(*value) < 1e15;
    return whole && *value >= 0 ? grouped(static_cast<uint64_t>(*value)) : fmt::format("{:.6g}", *value);
}

std::string signed_percent(double ratio) {
    return std::isfinite(ratio) ? fmt::format("{:+.1f} %", 100 * ratio) : "new";
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

class TextWriter : private TextLines {
  public:
    TextWriter(const RunDiff& diff, const DiffOptions& options) : diff_(diff), options_(options) {}

    std::string write(const DiffSide& a, const DiffSide& b, std::string_view more) {
        side("A", a);
        side("B", b);
        fields("parameters", diff_.parameters);
        fields("data and results", diff_.data);
        statistics();
        operations();
        places();
        tasks();
        if (!more.empty()) line("{}", more.substr(0, more.size() - 1));
        program();
        return lines();
    }

  private:
    void side(const char* name, const DiffSide& side) {
        const RunResults& run = side.run;
        line("{}  {}: {} on {}{}", name, run.path, or_dash(run.manifest.program.name),
             or_dash(run.manifest.platform.name), run.complete ? "" : "  (INCOMPLETE)");
    }

    void fields(const char* title, const std::vector<RunDiff::Field>& rows) {
        if (rows.empty()) return;
        line("\n{}", title);
        size_t width = 0;
        for (const auto& row : rows) width = std::max(width, row.name.size());
        for (const auto& row : rows)
            line("  {:<{}}  {} -> {}", row.name, width, or_dash(row.a), or_dash(row.b));
    }

    void places() {
        if (diff_.places.empty()) return;
        line("\ntensors that changed place");
        size_t shown = 0;
        for (const auto& row : diff_.places) {
            if (shown++ == options_.top) break;
            line("  {}  {} -> {}", row.name, or_dash(row.a), or_dash(row.b));
        }
        more(diff_.places.size());
    }

    /// The last of all, and short: in the text of a compiled network much changes with each tile.
    void program() {
        if (diff_.program.empty()) return;
        line("\nprogram: {} place{} of its text differ", diff_.program.size(),
             diff_.program.size() == 1 ? "" : "s");
        const size_t most = std::min(options_.top, most_program_places);
        for (size_t i = 0; i < std::min(diff_.program.size(), most); ++i) {
            line("  {}", diff_.program[i].name);
            text_lines("    - ", diff_.program[i].a);
            text_lines("    + ", diff_.program[i].b);
        }
        if (diff_.program.size() > most)
            line("  ... and {} more: --json for all", diff_.program.size() - most);
    }

    void text_lines(const char* mark, const std::string& text) {
        if (text.empty()) return;
        size_t count = 0;
        for (size_t from = 0; from <= text.size();) {
            const size_t to = std::min(text.find('\n', from), text.size());
            if (count++ == most_program_lines) {
                line("{}...", mark);
                return;
            }
            const std::string whole = text.substr(from, to - from);
            line("{}{}{}", mark, whole.substr(0, most_line), whole.size() > most_line ? "..." : "");
            from = to + 1;
        }
    }

    static constexpr size_t most_program_places = 5, most_program_lines = 3, most_line = 120;

    void more(size_t total) {
        if (total > options_.top) line("  ... and {} more: --top, or --json for all", total - options_.top);
    }

    void statistics() {
        if (diff_.statistics.empty() && diff_.small_changes == 0) return;
        line("\n{:<44}{:>16}{:>16}{:>10}", "statistic", "A", "B", "change");
        size_t shown = 0;
        for (const auto& row : diff_.statistics) {
            if (shown++ >= options_.top && !row.beyond_tolerance) continue;
            line("  {:<42}{:>16}{:>16}{:>10}{}", row.key, number(row.a), number(row.b),
                 row.b ? signed_percent(row.relative()) : "gone",
                 row.beyond_tolerance ? "  beyond tolerance" : "");
        }
        more(diff_.statistics.size());
        if (diff_.small_changes > 0)
            line("  {} below the threshold of {:g} %", diff_.small_changes, 100 * options_.threshold);
    }

    void operations() {
        if (diff_.operations.empty()) return;
        line("\n{:<26}{:>12}{:>12}{:>10}{:>10}  {}", "operation: charged cycles", "A", "B", "change",
             "energy", "cause that changed most, unit-cycles");
        size_t shown = 0;
        for (const auto& row : diff_.operations) {
            if (shown++ == options_.top) break;
            const double cycles = static_cast<double>(row.cycles_b) - static_cast<double>(row.cycles_a);
            const double energy = row.energy_a > 0 ? row.energy_b / row.energy_a - 1 : 0;
            const std::string cause = row.cause_change == 0
                                          ? ""
                                          : fmt::format("{} {:+}", full_name_of(row.cause), row.cause_change);
            line("  {:<24}{:>12}{:>12}{:>10}{:>10}  {}", row.id, row.in_a ? grouped(row.cycles_a) : "-",
                 row.in_b ? grouped(row.cycles_b) : "-", fmt::format("{:+}", static_cast<int64_t>(cycles)),
                 signed_percent(energy), cause);
        }
        more(diff_.operations.size());
    }

    void tasks() {
        if (!diff_.divergence) {
            if (!diff_.no_divergence.empty()) line("\nfirst difference in time: {}", diff_.no_divergence);
            return;
        }
        const Divergence& first = *diff_.divergence;
        const bool named = first.operation.empty() || first.operation == first.task;
        line("\nfirst difference in time: task `{}`{}{}", first.task, named ? "" : " of ",
             named ? "" : first.operation);
        if (!first.place.empty()) line("  at {}", first.place);
        const auto when = [](const std::optional<Cycles>& cycle) {
            return cycle ? grouped(*cycle) : "never";
        };
        line("  {} at cycle {} in A, {} in B", first.step, when(first.a), when(first.b));
        if (!first.why.empty()) line("  {}", first.why);
        if (first.causes.empty()) return;
        line("  cycles of {} in that time: {:>20}{:>10}", first.unit_a, "A", "B");
        for (const auto& row : first.causes) line("    {:<40}{:>10}{:>10}", row.cause, row.a, row.b);
    }

    const RunDiff& diff_;
    const DiffOptions& options_;
};

json to_json(const std::vector<RunDiff::Field>& fields) {
    json rows = json::array();
    for (const auto& field : fields) rows.push_back({{"name", field.name}, {"a", field.a}, {"b", field.b}});
    return rows;
}

json or_null(const std::optional<double>& value) {
    if (!value) return nullptr;
    if (*value == std::floor(*value) && std::abs(*value) < 9e15) return static_cast<int64_t>(*value);
    return *value;
}

json to_json(const Divergence& first) {
    const auto cycle = [](const std::optional<Cycles>& value) { return value ? json(*value) : json(); };
    json out{{"task", first.task},     {"operation", first.operation}, {"place", first.place},
             {"step", first.step},     {"unit_a", first.unit_a},       {"unit_b", first.unit_b},
             {"a", cycle(first.a)},    {"b", cycle(first.b)},          {"why", first.why},
             {"causes", json::array()}};
    for (const auto& row : first.causes)
        out["causes"].push_back({{"cause", row.cause}, {"a", row.a}, {"b", row.b}});
    return out;
}

json to_json(const DiffSide& side) {
    return {{"path", side.run.path},
            {"program", side.run.manifest.program.name},
            {"platform", side.run.manifest.platform.name},
            {"complete", side.run.complete}};
}

}  // namespace

std::string to_text(const RunDiff& diff, const DiffSide& a, const DiffSide& b, const DiffOptions& options,
                    std::string_view more) {
    return diff.empty() ? "" : TextWriter(diff, options).write(a, b, more);
}

std::string to_json(const RunDiff& diff, const DiffSide& a, const DiffSide& b) {
    json out{{"schema", 1},
             {"equal", diff.empty()},
             {"a", to_json(a)},
             {"b", to_json(b)},
             {"parameters", to_json(diff.parameters)},
             {"places", to_json(diff.places)},
             {"program", to_json(diff.program)},
             {"data", to_json(diff.data)},
             {"statistics", json::array()},
             {"small_changes", diff.small_changes},
             {"operations", json::array()},
             {"first_divergence", diff.divergence ? to_json(*diff.divergence) : json()}};
    if (!diff.no_divergence.empty()) out["no_divergence"] = diff.no_divergence;
    for (const auto& row : diff.statistics) {
        out["statistics"].push_back({{"key", row.key},
                                     {"unit", row.unit},
                                     {"a", or_null(row.a)},
                                     {"b", or_null(row.b)},
                                     {"change", or_null(row.change())},
                                     {"beyond_tolerance", row.beyond_tolerance}});
    }
    for (const auto& row : diff.operations) {
        out["operations"].push_back({{"op", row.id},
                                     {"type", row.type},
                                     {"in_a", row.in_a},
                                     {"in_b", row.in_b},
                                     {"charged_cycles_a", row.cycles_a},
                                     {"charged_cycles_b", row.cycles_b},
                                     {"energy_pj_a", row.energy_a},
                                     {"energy_pj_b", row.energy_b},
                                     {"cause", full_name_of(row.cause)},
                                     {"cause_change", row.cause_change}});
    }
    return json_text(out, 2) + "\n";
}

}  // namespace kpu::traces
