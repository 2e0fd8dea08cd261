#pragma once

#include <string>

#include "traces/budget.hpp"
#include "traces/events.hpp"
#include "traces/run_info.hpp"

namespace kpu::traces {

/// Most power that a device may take over a stretch of time.
struct PeakBudget {
    double watts = 0;
    double window_ns = 0;
    std::string text;  ///< as it was written: 2.5W@1us
};

/// Nanoseconds of "1us" (ns, us, ms); 0: the text is no time.
double ns_of(const std::string& text);
/// "2.5W@1us": watts (W, mW) over a time (ns, us, ms). Throws UserError.
PeakBudget parse_peak_budget(const std::string& text);

/// Mean power of each window, from the begin of the run on side by side, the last one may be shorter: more than
/// (1 + tolerance) times the budget fails. Names when, and the units and operations that took it. Throws UserError for a
/// window that is shorter than a cycle, or so short that the run has too many.
Verdict judge_peak(const RunInfo& info, const Events& events, const PeakBudget& budget, double tolerance);

}  // namespace kpu::traces
