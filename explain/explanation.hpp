#pragma once

#include <string>
#include <vector>

#include "explain/critical_path.hpp"
#include "explain/cycle_terms.hpp"
#include "explain/run_graph.hpp"

namespace kpu::explain {

/// Cycles of the critical path with one reason: what would have to be faster.
struct PathShare {
    std::string what;                       ///< "DRAM bandwidth", "ideal compute of an array", ...
    Cycles cycles = 0;
    uint32_t statement = traces::no_task;   ///< most of it
    uint16_t unit = traces::no_unit;        ///< most of it
};

/// Everything that can be said about a run.
struct Explanation {
    explicit Explanation(const RunGraph& run);
    const RunGraph& graph;
    std::vector<OpTerms> ops;  ///< the background last
    CriticalPath path;
    std::vector<PathShare> shares;  ///< most cycles first; sum to cycles.total
};

struct TextOptions {
    size_t width = 100;
    size_t most_rows = 12;  ///< of each table
};

/// For people, of the whole run.
std::string text_of_run(const Explanation& explanation, const TextOptions& options);
/// ... of one operation. Throws UserError naming the nearest operation when there is none of this name.
std::string text_of_op(const Explanation& explanation, const std::string& op, const TextOptions& options);

/// Index of an operation by its name. Throws UserError with the nearest one.
uint32_t find_op(const traces::RunInfo& info, const std::string& name);

}  // namespace kpu::explain
