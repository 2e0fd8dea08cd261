#include "traces/budget.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/diagnostics.hpp"
#include "base/text.hpp"
#include "traces/corners.hpp"
#include "traces/csv_table.hpp"

namespace kpu::traces {

namespace {

constexpr size_t worst_rows = 8;

std::string percent(double ratio) { return fmt::format("{:+.2f} %", 100 * ratio); }

struct Loss {
    std::string id;
    Cycles before = 0, after = 0;
    int64_t change() const { return static_cast<int64_t>(after) - static_cast<int64_t>(before); }
};

/// Returns the operations by charged cycles lost, largest loss first; an operation of one side only counts in
/// full.
std::vector<Loss> losses(const std::vector<OpRow>& ops, const std::vector<OpRow>& baseline) {
    std::map<std::string, Loss> by_id;
    for (const OpRow& row : baseline) by_id[row.id].before = row.charged_cycles;
    for (const OpRow& row : ops) by_id[row.id].after = row.charged_cycles;
    std::vector<Loss> rows;
    for (auto& [id, loss] : by_id) {
        loss.id = id;
        if (loss.change() > 0) rows.push_back(loss);
    }
    std::stable_sort(rows.begin(), rows.end(),
                     [](const Loss& x, const Loss& y) { return x.change() > y.change(); });
    if (rows.size() > worst_rows) rows.resize(worst_rows);
    return rows;
}

std::string worst_operations(const std::vector<OpRow>& ops, const RunResults& baseline) {
    if (baseline.ops.empty())
        return fmt::format("  {} has no operations beside it; give a run folder to see which lost\n",
                           baseline.path);
    std::string text;
    for (const Loss& loss : losses(ops, baseline.ops))
        text +=
            fmt::format("  {:<32}{:>12} -> {:>12}  {:+}\n", loss.id, loss.before, loss.after, loss.change());
    return text;
}

/// Writes one line per estimate that is off by more than the tolerance, the worst first.
class EstimateCheck {
  public:
    explicit EstimateCheck(double tolerance) : tolerance_(tolerance) {}

    void add(const std::string& id, const char* unit, double value, double estimate) {
        if (!(estimate > 0)) return;
        ++checked_;
        const double off = value / estimate - 1;
        if (std::abs(off) > tolerance_)
            rows_.push_back({std::abs(off), fmt::format("  {:<32}{:>14.6g} {}, estimated {:.6g}  {}\n", id,
                                                        value, unit, estimate, percent(off))});
    }

    Verdict verdict() {
        std::stable_sort(rows_.begin(), rows_.end(),
                         [](const auto& x, const auto& y) { return x.first > y.first; });
        Verdict verdict;
        verdict.name = "estimates";
        verdict.passed = rows_.empty();
        verdict.text = fmt::format("estimates: {} of {} are off by more than {:g} %\n", rows_.size(),
                                   checked_, 100 * tolerance_);
        for (size_t i = 0; i < std::min(rows_.size(), worst_rows); ++i) verdict.text += rows_[i].second;
        if (rows_.size() > worst_rows)
            verdict.text += fmt::format("  ... and {} more\n", rows_.size() - worst_rows);
        return verdict;
    }

  private:
    double tolerance_;
    size_t checked_ = 0;
    std::vector<std::pair<double, std::string>> rows_;
};

}  // namespace

void check_baseline(const RunResults& baseline) {
    if (!baseline.complete || !baseline.stats.contains("cycles.total")) {
        throw UserError(
            fmt::format("{}: the baseline {}. Fix: give the results of a complete run with timing.",
                        baseline.path, baseline.complete ? "has no cycles.total" : "is incomplete"));
    }
}

Verdict judge_cycles(const StatSet& stats, const std::vector<OpRow>& ops, const RunResults& baseline,
                     double tolerance) {
    const double before = baseline.stats.real("cycles.total"), after = stats.real("cycles.total");
    const double change = before > 0 ? after / before - 1 : (after > 0 ? INFINITY : 0);
    Verdict verdict;
    verdict.name = "expected cycles";
    verdict.passed = change <= tolerance;
    verdict.text = fmt::format("cycles: {:.0f}, expected {:.0f}: {}, tolerance {:g} %\n", after, before,
                               percent(change), 100 * tolerance);
    if (!verdict.passed) verdict.text += worst_operations(ops, baseline);
    if (change < -tolerance) verdict.text += "  faster than expected: record a new baseline\n";
    return verdict;
}

Verdict judge_power(const StatSet& stats, double budget_w, double tolerance, const EnergyPrices& prices) {
    const double average = stats.real("power.average_w");
    Verdict verdict;
    verdict.name = "power budget";
    verdict.passed = average <= budget_w * (1 + tolerance);
    verdict.text =
        fmt::format("power: {:.4g} W average, budget {:g} W + {:g} %; peak {:.4g} W over {:g} us\n", average,
                    budget_w, 100 * tolerance, stats.real("power.peak_w"), stats.real("power.bin_us"));
    const auto band = energy_band(stats, prices);
    if (band && band->holds(budget_w * (1 + tolerance)))
        verdict.text += fmt::format("  near: the energy table's low to high corner is {:.4g} W to {:.4g} W\n",
                                    band->low_w, band->high_w);
    return verdict;
}

Verdict judge_estimates(const StatSet& stats, const std::vector<OpRow>& ops, uint64_t total_cycles,
                        double total_energy_pj, double tolerance) {
    EstimateCheck check(tolerance);
    check.add("(program)", "cycles", stats.real("cycles.total"), static_cast<double>(total_cycles));
    const bool energy = !stats.contains("energy.not_modelled");
    if (energy) check.add("(program)", "pJ", stats.real("energy.total_uj") * 1e6, total_energy_pj);
    for (const OpRow& row : ops) {
        check.add(row.id, "cycles", static_cast<double>(row.charged_cycles),
                  static_cast<double>(row.estimated_cycles));
        if (energy) check.add(row.id, "pJ", row.energy_pj, row.estimated_energy_pj);
    }
    return check.verdict();
}

Estimates parse_estimates(std::string_view text, const std::string& origin,
                          const std::vector<std::string_view>& known) {
    const CsvTable table(text, origin);
    const size_t op = table.column("op"), cycles = table.column("cycles"), energy = table.find("energy_pj");
    Estimates estimates;
    for (size_t i = 0; i < table.rows(); ++i) {
        const std::string& id = table.at(i, op);
        if (std::find(known.begin(), known.end(), id) == known.end()) {
            throw UserError(
                fmt::format("{}: `{}` is not an operation of the program. Fix: did you mean `{}`?", origin,
                            id, nearest_name(id, known)));
        }
        Estimate estimate{table.integer(i, cycles), energy == CsvTable::absent ? 0.0 : table.real(i, energy)};
        if (estimate.energy_pj < 0)
            throw UserError(
                fmt::format("{}: the energy of `{}` is negative. Fix: give picojoules.", origin, id));
        if (!estimates.emplace(id, estimate).second)
            throw UserError(fmt::format("{}: `{}` comes twice. Fix: keep one row.", origin, id));
    }
    return estimates;
}

}  // namespace kpu::traces
