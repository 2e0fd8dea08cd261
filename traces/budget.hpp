#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "traces/ledger.hpp"
#include "traces/run_reader.hpp"

namespace kpu::traces {

/// Result of judging a run by one criterion. A tolerance is a share: 0.02 is 2 %.
struct Verdict {
    std::string name;  ///< name of what was judged
    bool passed = true;
    double excess = 0;  ///< share by which a budget of a file is exceeded; at most 0: it is kept
    std::string text;   ///< lines for people: the figure, what was allowed, and the worst operations
};

/// Throws UserError when a baseline has no cycles.total or is incomplete.
void check_baseline(const RunResults& baseline);
/// cycles.total against that of a baseline: more than (1 + tolerance) times as many fail. The operations that
/// lost most are listed.
Verdict judge_cycles(const StatSet& stats, const std::vector<OpRow>& ops, const RunResults& baseline,
                     double tolerance);

/// power.average_w against a budget: more than (1 + tolerance) times as much fails. The peak is stated, and, where the
/// budget lies between the corners of the energy table, that the verdict depends on them.
Verdict judge_power(const StatSet& stats, double budget_w, double tolerance, const EnergyPrices& prices);

/// Charged cycles and energy of each operation against its estimates, in both directions; and the whole
/// program's against `total_cycles` and `total_energy_pj`. An estimate of 0 is none.
Verdict judge_estimates(const StatSet& stats, const std::vector<OpRow>& ops, uint64_t total_cycles,
                        double total_energy_pj, double tolerance);

/// Estimates of a side file, by operation.
struct Estimate {
    Cycles cycles = 0;
    double energy_pj = 0;
};
using Estimates = std::map<std::string, Estimate>;
/// CSV with the columns op,cycles and, if it likes, energy_pj. Throws UserError: an operation that `known`
/// lacks (the nearest is named) or that comes twice.
Estimates parse_estimates(std::string_view text, const std::string& origin,
                          const std::vector<std::string_view>& known);

}  // namespace kpu::traces
