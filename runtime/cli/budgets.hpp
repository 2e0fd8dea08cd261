#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/simulation.hpp"
#include "traces/budget_file.hpp"
#include "traces/event_file.hpp"
#include "traces/peak_power.hpp"

namespace CLI {
class App;
}

namespace kpu::cli {

/// Judges of a `run`: a file of budgets, a baseline, estimates, a power budget. A run that fails one leaves
/// its files and exits with 3.
class Budgets {
  public:
    void add_to(CLI::App& command);
    bool empty() const;
    /// Reads what they need. Throws UserError: a bad file or value, no estimate to check, a mode without
    /// time.
    void prepare(const runtime::Simulation& simulation, runtime::Mode mode);
    /// Puts the estimates of a side file into the rows and the trace.
    void fill_in(std::vector<traces::OpRow>& ops) const;
    void fill_in(traces::RunInfo& info) const;
    /// True if the run must be recorded, for judge().
    bool need_events() const { return !peak_texts_.empty(); }
    /// Prints the verdicts, and gives them. `recording` may be null unless need_events().
    std::vector<traces::Verdict> judge(const traces::StatSet& stats, const std::vector<traces::OpRow>& ops,
                                       const traces::Recording* recording) const;
    /// Returns the file to write budgets to; empty: none.
    const std::string& written() const { return written_path_; }
    /// Writes what the run took to it.
    void write(const traces::StatSet& stats, const std::vector<traces::OpRow>& ops) const;

  private:
    bool judges() const;
    double tolerance_of_file() const { return tolerance_ ? *tolerance_ : file_.tolerance.value_or(0); }
    void print_file_verdicts(const std::vector<traces::Verdict>& verdicts) const;

    std::string file_path_, written_path_, expect_cycles_, tolerance_text_, estimates_path_,
        check_estimates_text_;
    std::vector<std::string> peak_texts_;
    std::vector<traces::PeakBudget> peaks_;
    traces::EnergyPrices prices_;  ///< prices with their corners; for the two budgets above
    double power_w_ = 0, estimate_tolerance_ = 0;
    std::optional<double> tolerance_;  ///< as it was given
    traces::BudgetFile file_;
    std::optional<traces::RunResults> baseline_;
    traces::Estimates estimates_;
    uint64_t total_cycles_ = 0;
    double total_energy_pj_ = 0;
};

}  // namespace kpu::cli
