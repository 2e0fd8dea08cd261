#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/budget.hpp"

namespace kpu::traces {

/// Most that the run, or one of its operations, may take of something.
struct Budget {
    std::string op;     ///< empty: the run
    size_t metric = 0;  ///< cycles, energy or average power: a row of the source's table
    double most = 0;
};

/// Contents of a file of budgets (docs/comparing_runs.md, docs/budgets.schema.json).
struct BudgetFile {
    std::string path;
    std::optional<double> tolerance;  ///< as a share
    std::vector<Budget> budgets;

    bool needs_energy() const;
    static std::string name_of(const Budget& budget);  ///< its place in the file: operations.la.cycles
};

/// Throws UserError naming `origin` and the key: no JSON, a key that is not known or stands twice (the nearest is named),
/// an operation that `known` lacks, a value that cannot be a budget, no budget at all.
BudgetFile parse_budget_file(std::string_view text, const std::string& origin,
                             const std::vector<std::string_view>& known);

/// Returns a file with what the run and its operations took as their budgets, and a tolerance (a share) if it
/// is not 0. Energy and power are left out where they are not modelled.
std::string budget_file_text(const StatSet& stats, const std::vector<OpRow>& ops, double tolerance);

/// Returns a verdict for each budget, the one that is exceeded most first: more than (1 + tolerance) times as
/// much fails.
std::vector<Verdict> judge_budgets(const BudgetFile& file, const StatSet& stats,
                                   const std::vector<OpRow>& ops, double tolerance);

}  // namespace kpu::traces
