#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/compare/path_change.hpp"
#include "runtime/compare/schedule_change.hpp"
#include "runtime/compare/sides.hpp"
#include "traces/diff/diff.hpp"

namespace kpu::compare {

/// All differences between two runs: what `kpusim diff` tells.
struct Difference {
    traces::RunDiff runs;
    std::vector<ScheduleChange> schedules;  ///< schedule changes by operation
    std::string no_schedules;               ///< why `schedules` says nothing of the programs; empty: it does
    std::optional<PathChange> path;         ///< change of the critical paths
    std::string no_path;                    ///< why `path` is empty though the runs differ

    bool empty() const { return runs.empty(); }
};

/// Events of folders are read here. Throws UserError on a damaged event file.
Difference difference_of(traces::DiffSide& a, traces::DiffSide& b, const traces::DiffOptions& options);

/// Writes the difference for people; empty when there is none.
std::string to_text(const Difference& difference, const traces::DiffSide& a, const traces::DiffSide& b,
                    const traces::DiffOptions& options);
/// Does traces::to_json() with "schedule" and "critical_path".
std::string to_json(const Difference& difference, const traces::DiffSide& a, const traces::DiffSide& b);

}  // namespace kpu::compare
