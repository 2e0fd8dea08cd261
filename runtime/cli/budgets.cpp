#include "runtime/cli/budgets.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/read_file.hpp"
#include "runtime/cli/command.hpp"

namespace kpu::cli {

void Budgets::add_to(CLI::App& command) {
    command.add_option("--expect-cycles", expect_cycles_,
                       "stats.json or folder of a run: exit 3 if this one takes more cycles");
    command.add_option("--power-budget", power_w_, "watts: exit 3 if the average power is higher")
        ->check(not_positive);
    command.add_option("--tolerance", tolerance_text_,
                       "how much more --expect-cycles and --power-budget allow (default 0%)");
    command.add_option("--estimates", estimates_path_,
                       "CSV op,cycles[,energy_pj]: estimates for ops.csv, over those of the program");
    command.add_option("--check-estimates", check_estimates_text_,
                       "exit 3 if an estimate of cycles or energy is off by more, e.g. 10%");
}

bool Budgets::empty() const {
    return expect_cycles_.empty() && power_w_ == 0 && estimates_path_.empty() &&
           check_estimates_text_.empty();
}

void Budgets::prepare(const runtime::Simulation& simulation, runtime::Mode mode) {
    if (!tolerance_text_.empty()) tolerance_ = parse_percent(tolerance_text_, "--tolerance");
    if (!tolerance_text_.empty() && expect_cycles_.empty() && power_w_ == 0)
        throw UserError("--tolerance has nothing to judge. Fix: give --expect-cycles or --power-budget.");
    if (empty()) return;
    if (mode == runtime::Mode::functional) {
        throw UserError(
            "--mode functional has neither cycles nor power. Fix: leave out --expect-cycles, --power-budget, "
            "--estimates and --check-estimates, or use --mode timing.");
    }
    if (power_w_ > 0 && simulation.platform() != nullptr)
        traces::require_energy(platforms::energy_prices(*simulation.platform()));
    if (!expect_cycles_.empty()) {
        baseline_ = traces::read_baseline(expect_cycles_);
        traces::check_baseline(*baseline_);
    }
    const BoundProgram& program = simulation.program();
    if (!estimates_path_.empty()) {
        std::vector<std::string_view> known;
        for (const BoundOp& op : program.ops) known.emplace_back(op.id);
        estimates_ = traces::parse_estimates(read_file(estimates_path_), estimates_path_, known);
    }
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

bool Budgets::judge(const traces::StatSet& stats, const std::vector<traces::OpRow>& ops) const {
    bool passed = true;
    const auto say = [&passed](const traces::Verdict& verdict) {
        print_err((verdict.passed ? "ok: " : "error: ") + verdict.text);
        passed = passed && verdict.passed;
    };
    if (baseline_) say(traces::judge_cycles(stats, ops, *baseline_, tolerance_));
    if (power_w_ > 0) say(traces::judge_power(stats, power_w_, tolerance_));
    if (!check_estimates_text_.empty())
        say(traces::judge_estimates(stats, ops, total_cycles_, total_energy_pj_, estimate_tolerance_));
    return passed;
}

}  // namespace kpu::cli
