#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "runtime/what_if/changes.hpp"

namespace kpu::what_if {

/// Outcome of a change.
struct Outcome {
    ChangeKind kind;
    std::string words;
    std::optional<Cycles> cycles;  ///< empty: `problem` says why the change does not hold
    std::string problem;
};

struct Answers {
    Cycles cycles = 0;              ///< cycles of the run as it is, simulated again
    std::vector<Outcome> outcomes;  ///< fewest cycles first, then those with a problem
    std::string skipped;            ///< why nothing was simulated; empty: it was
};

/// Simulates every change of a run of `cycles` cycles, without values, in processes of their own, as many as the machine has
/// cores. Nothing is simulated when that would take longer than `limit_s` seconds by the time of the run itself, or
/// when the case does not take `cycles`. Throws UserError where processes cannot be made.
Answers simulate_changes(const Case& base, Cycles cycles, double limit_s);

/// Returns the answers in words, as `kpusim explain` prints them.
std::string text_of(const Answers& answers);

}  // namespace kpu::what_if
