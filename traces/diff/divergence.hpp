#pragma once

#include <optional>
#include <string>
#include <vector>

#include "traces/event_file.hpp"

namespace kpu::traces {

/// The first point in time at which two runs differ: a step of one task.
struct Divergence {
    std::string task;  ///< name[iteration]
    std::string operation;
    std::string place;  ///< file:line of its statement; "" unknown
    std::string step;   ///< issued, ready, began, ended
    std::string unit_a, unit_b;
    std::optional<Cycles> a, b;  ///< core cycle of the step in each run; nothing: it never came
    std::string why;

    struct CauseChange {
        std::string cause;
        Cycles a = 0, b = 0;
    };
    /// Changes of what the unit did in the time in question: while the task ran (ended), or while it was
    /// ready (began). The largest change comes first.
    std::vector<CauseChange> causes;
};

/// Tasks of the two are the same when name and iteration are. Nothing when all steps of all tasks come at the
/// same core cycles. A task that only one of the two has counts as one whose steps never came in the other.
std::optional<Divergence> first_divergence(const Recording& a, const Recording& b);

}  // namespace kpu::traces
