#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "traces/run_info.hpp"
#include "traces/stats.hpp"
#include "traces/writers.hpp"

namespace kpu::traces {

/// Causes drawn alike in the bars: an architect first asks what kind of time it is.
struct Band {
    const char* glyph;
    const char* colour;
    const char* label;
    std::vector<Cause> causes;
};
/// Returns the bands from useful work to idle.
const std::vector<Band>& bands();

struct ReportOptions {
    size_t width = 100;  ///< columns; at least 60
    size_t top_ops = 10;
};

/// The report of a run, for a terminal: time, utilization, what each unit did (bars), bytes per level, energy
/// by component, the operations that took most time. Statistics that the run did not produce are left out.
std::string report(const StatSet& stats, const RunInfo& info, const std::vector<OpRow>& ops,
                   const ReportOptions& options = {});

/// Returns the report with the ANSI colours of its bands: only for a terminal.
std::string coloured(std::string_view report);

/// Returns "1.50 MiB" and the like.
std::string bytes_text(uint64_t bytes);
/// Returns "1,234,567".
std::string grouped(uint64_t value);
/// Returns " 12.3 %", of equal width; "    - " of nothing.
std::string percent(double part, double whole);
/// Returns "66.19 us" and the like.
std::string time_text(double us);

}  // namespace kpu::traces
