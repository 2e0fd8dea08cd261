#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "explain/critical_path.hpp"
#include "explain/cycle_terms.hpp"
#include "explain/roofline.hpp"
#include "explain/run_graph.hpp"
#include "explain/what_if.hpp"
#include "traces/power_trace.hpp"

namespace kpu::explain {

/// Cycles of the critical path with one reason: what would have to be faster.
struct PathShare {
    std::string what;  ///< "DRAM bandwidth", "ideal compute of an array", ...
    traces::Cause cause = traces::Cause::idle_no_work;
    Cycles cycles = 0;
    uint32_t statement = traces::no_task;  ///< most of it
    uint16_t unit = traces::no_unit;       ///< most of it
};

/// A part of a segment of the critical path that has one reason.
struct SegmentPart {
    std::string what;  ///< as PathShare::what
    traces::Cause cause = traces::Cause::idle_no_work;
    Cycles cycles = 0;
};
/// Returns the parts, which sum to the segment.
std::vector<SegmentPart> parts_of(const RunGraph& graph, const PathSegment& segment);

/// Everything that can be said about a run.
struct Explanation {
    explicit Explanation(const RunGraph& run);
    const RunGraph& graph;
    std::vector<OpTerms> ops;  ///< the background last
    CriticalPath path;
    std::vector<PathShare> shares;     ///< most cycles first; sum to cycles.total
    std::vector<Bound> bounds;         ///< empty of a run that did not end
    std::vector<RooflinePoint> roofs;  ///< the run first
};

/// Says why a segment could not begin earlier.
std::string reason_of(const RunGraph& graph, const PathSegment& segment);

struct TextOptions {
    size_t width = 100;
    size_t most_rows = 12;  ///< most rows of each table
};

/// Writes the explanation of the whole run, for people.
std::string text_of_run(const Explanation& explanation, const TextOptions& options);
/// ... of one operation. Throws UserError naming the nearest operation when there is none of this name.
std::string text_of_op(const Explanation& explanation, const std::string& op, const TextOptions& options);

/// ... of one task instance, "g[t=0 k=1]". Throws UserError with an instance of the same task.
std::string text_of_task(const RunGraph& graph, const std::string& name);

/// Explains the whole run (name empty), an operation, or a task.
std::string text_of(const RunGraph& graph, const std::string& name, const TextOptions& options);

/// Writes all of it as JSON, one line; docs/explain.md has the fields.
std::string json_of(const Explanation& explanation);
/// Numbers that the folder of a run has beside its events.
struct RunNumbers {
    std::optional<double> energy_uj, power_w;         ///< nothing: energy is not modelled
    std::optional<uint64_t> dram_read, dram_written;  ///< bytes
    std::map<std::string, double> energy_pj;          ///< indexed by operation
    std::string platform;                             ///< its text
};
/// Returns the power over time of the page: of bins that its width can show. Nothing: energy is not modelled.
std::optional<traces::PowerTrace> page_power(const traces::Recording& recording);
/// Returns a page of HTML that needs nothing else: timeline, power, bars, critical path, bounds, roofline.
std::string html_of(const Explanation& explanation, const RunNumbers& numbers,
                    const std::optional<traces::PowerTrace>& power);

/// Returns the index of an operation by its name. Throws UserError with the nearest one.
uint32_t find_op(const traces::RunInfo& info, const std::string& name);

}  // namespace kpu::explain
