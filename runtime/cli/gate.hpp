#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/cli/command.hpp"

namespace kpu::cli {

/// A rule that lets no program pass `check --ci`, with an exit code of its own.
struct GateRule {
    ExitCode code;
    std::string_view what;  ///< meaning of the code, for the help
    std::vector<analysis::FindingKind> kinds;
};
/// Returns the rules in the order in which they decide: of several that apply, the first. Errors of no rule
/// go before all.
const std::vector<GateRule>& gate_rules();
/// Returns "4 hazards (raw, war, ...), 5 ...": for the help.
std::string gate_help();

/// Returns the findings with those of the gate as errors, but for what is only said (info).
Diagnostics gated(const Diagnostics& diagnostics, const analysis::FindingOrigins& origins);
/// Returns the exit code of a check with these findings.
int gate_exit_code(const Diagnostics& diagnostics, const analysis::FindingOrigins& origins);

}  // namespace kpu::cli
