#include "runtime/cli/budgets.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/read_file.hpp"
#include "base/text_output.hpp"
#include "runtime/cli/command.hpp"

namespace kpu::cli {

void Budgets::add_to(CLI::App& command) {
    command.add_option("--budgets", file_path_,
                       "JSON with budgets of cycles, energy and average power, of the run and of operations: "
                       "exit 3 if one is exceeded, each is listed");
    command.add_option("--write-budgets", written_path_,
                       "write such a file of what this run took, with --tolerance in it");
    command.add_option("--expect-cycles", expect_cycles_,
                       "stats.json or folder of a run: exit 3 if this one takes more cycles");
    command.add_option("--power-budget", power_w_, "watts: exit 3 if the average power is higher")
        ->check(not_positive);
    command
        .add_option("--peak-power-budget", peak_texts_,
                    "WATTS@TIME, e.g. 2.5W@1us: exit 3 if the mean power of any such window is higher; says "
                    "when, and "
                    "what took it; repeatable")
        ->allow_extra_args(false);
    command.add_option("--tolerance", tolerance_text_,
                       "how much more --budgets, --expect-cycles, --power-budget and --peak-power-budget "
                       "allow (default 0%, of --budgets what "
                       "the file says)");
    command.add_option("--estimates", estimates_path_,
                       "CSV op,cycles[,energy_pj]: estimates for ops.csv, over those of the program");
    command.add_option("--check-estimates", check_estimates_text_,
                       "exit 3 if an estimate of cycles or energy is off by more, e.g. 10%");
}

bool Budgets::judges() const {
    return !file_path_.empty() || !expect_cycles_.empty() || power_w_ > 0 || !peak_texts_.empty();
}

bool Budgets::empty() const {
    return !judges() && written_path_.empty() && estimates_path_.empty() && check_estimates_text_.empty();
}

void Budgets::prepare(const runtime::Simulation& simulation, runtime::Mode mode) {
    if (!tolerance_text_.empty()) tolerance_ = parse_percent(tolerance_text_, "--tolerance");
    if (tolerance_ && !judges() && written_path_.empty())
        throw UserError(
            "--tolerance has nothing to judge. Fix: give --budgets, --write-budgets, --expect-cycles, "
            "--power-budget or --peak-power-budget.");
    if (empty()) return;
    if (mode == runtime::Mode::functional) {
        throw UserError(
            "--mode functional has neither cycles nor power. Fix: leave out --budgets, --write-budgets, "
            "--expect-cycles, --power-budget, --peak-power-budget, --estimates and --check-estimates, or use "
            "--mode timing.");
    }
    const BoundProgram& program = simulation.program();
    std::vector<std::string_view> known;
    for (const BoundOp& op : program.ops) known.emplace_back(op.id);
    if (!file_path_.empty()) file_ = traces::parse_budget_file(read_file(file_path_), file_path_, known);
    if (file_.needs_energy() && simulation.platform() != nullptr)
        traces::require_energy(platforms::energy_prices(*simulation.platform()));
    for (const std::string& text : peak_texts_) peaks_.push_back(traces::parse_peak_budget(text));
    if (simulation.platform() != nullptr) {
        for (const traces::PeakBudget& peak : peaks_)
            traces::check_bin(peak.window_ns, platforms::core_clock(*simulation.platform()));
        if (power_w_ > 0 || !peaks_.empty()) {
            prices_ = platforms::energy_prices(*simulation.platform());
            traces::require_energy(prices_);
            prices_.corners = platforms::energy_corners(*simulation.platform());
        }
    }
    if (!expect_cycles_.empty()) {
        baseline_ = traces::read_baseline(expect_cycles_);
        traces::check_baseline(*baseline_);
    }
    if (!estimates_path_.empty())
        estimates_ = traces::parse_estimates(read_file(estimates_path_), estimates_path_, known);
    if (check_estimates_text_.empty()) return;
    estimate_tolerance_ = parse_percent(check_estimates_text_, "--check-estimates");
    total_cycles_ = program.module->program.estimated_total_cycles();
    total_energy_pj_ = program.module->program.estimated_total_energy_uj() * 1e6;
    const bool any = total_cycles_ > 0 || total_energy_pj_ > 0 || !estimates_.empty() ||
                     std::any_of(program.ops.begin(), program.ops.end(), [](const BoundOp& op) {
                         return op.estimated_cycles > 0 || op.estimated_energy_pj > 0;
                     });
    if (!any) {
        throw UserError(
            "--check-estimates: neither the program nor a side file has estimates. Fix: give --estimates "
            "FILE.csv with "
            "the columns op,cycles.");
    }
}

void Budgets::fill_in(std::vector<traces::OpRow>& ops) const {
    for (traces::OpRow& row : ops) {
        const auto it = estimates_.find(row.id);
        if (it == estimates_.end()) continue;
        if (it->second.cycles > 0) row.estimated_cycles = it->second.cycles;
        if (it->second.energy_pj > 0) row.estimated_energy_pj = it->second.energy_pj;
    }
}

void Budgets::fill_in(traces::RunInfo& info) const {
    for (auto& op : info.ops) {
        const auto it = estimates_.find(op.id);
        if (it == estimates_.end()) continue;
        if (it->second.cycles > 0) op.estimated_cycles = it->second.cycles;
        if (it->second.energy_pj > 0) op.estimated_energy_pj = it->second.energy_pj;
    }
}

void Budgets::print_file_verdicts(const std::vector<traces::Verdict>& verdicts) const {
    std::string exceeded;
    size_t count = 0;
    for (const traces::Verdict& verdict : verdicts) {
        if (verdict.passed) continue;
        ++count;
        exceeded += "  " + verdict.text + "\n";
    }
    const std::string margin = fmt::format("tolerance {:g} %", 100 * tolerance_of_file());
    if (count == 0)
        print_err(fmt::format("ok: {}: {} budget{} kept, {}\n", file_path_, verdicts.size(),
                              verdicts.size() == 1 ? "" : "s", margin));
    else
        print_err(fmt::format("error: {}: {} of {} budget{} exceeded, {}\n{}", file_path_, count,
                              verdicts.size(), verdicts.size() == 1 ? "" : "s", margin, exceeded));
}

std::vector<traces::Verdict> Budgets::judge(const traces::StatSet& stats,
                                            const std::vector<traces::OpRow>& ops,
                                            const traces::Recording* recording) const {
    std::vector<traces::Verdict> verdicts;
    if (!file_path_.empty()) {
        verdicts = traces::judge_budgets(file_, stats, ops, tolerance_of_file());
        print_file_verdicts(verdicts);
    }
    const auto say = [&verdicts](const traces::Verdict& verdict) {
        print_err((verdict.passed ? "ok: " : "error: ") + verdict.text);
        verdicts.push_back(verdict);
    };
    const double tolerance = tolerance_.value_or(0);
    if (baseline_) say(traces::judge_cycles(stats, ops, *baseline_, tolerance));
    if (power_w_ > 0) say(traces::judge_power(stats, power_w_, tolerance, prices_));
    for (const traces::PeakBudget& peak : peaks_)
        say(traces::judge_peak(recording->info, recording->events, peak, tolerance));
    if (!check_estimates_text_.empty())
        say(traces::judge_estimates(stats, ops, total_cycles_, total_energy_pj_, estimate_tolerance_));
    return verdicts;
}

void Budgets::write(const traces::StatSet& stats, const std::vector<traces::OpRow>& ops) const {
    write_file(written_path_, traces::budget_file_text(stats, ops, tolerance_.value_or(0)));
}

}  // namespace kpu::cli
