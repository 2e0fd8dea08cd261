#pragma once

#include <string>
#include <vector>

#include "explain/run_graph.hpp"
#include "runtime/compare/operations.hpp"

namespace kpu::compare {

/// Change of where two runs of programs for one source spent their time.
struct PathChange {
    /// Cycles with one cause.
    struct Part {
        std::string cause;
        Cycles a = 0, b = 0;
        int64_t change() const { return static_cast<int64_t>(b) - static_cast<int64_t>(a); }
    };
    struct Row {
        std::string op;           ///< its id in A, or in B if A does not have it
        Cycles a = 0, b = 0;      ///< sum of all parts, those that did not change too
        std::vector<Part> parts;  ///< that changed, the largest change first
        int64_t change() const { return static_cast<int64_t>(b) - static_cast<int64_t>(a); }
    };
    Cycles total_a = 0, total_b = 0;  ///< cycles.total
    /// Cycles of the critical path, by operation: over all operations they sum to the totals, so the changes sum to what
    /// the run lost. Those with a changed part, the largest change first.
    std::vector<Row> on_path;
    /// Unit-cycles beside the critical path, busy or stalled: a change there costs no time.
    std::vector<Row> off_path;
};

/// Compares the critical path of each run, as `explain` finds it. `operations` are those of RunInfo::ops of
/// both.
PathChange path_change(const explain::RunGraph& a, const explain::RunGraph& b,
                       const std::vector<OperationPair>& operations);

}  // namespace kpu::compare
