#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/cli/command.hpp"

namespace kpu::cli {

/// What `check --ci` lets no program pass with, and says by an exit code of its own.
struct GateRule {
    ExitCode code;
    std::string_view what;  ///< of the code, for the help
    std::vector<analysis::FindingKind> kinds;
};
/// In the order in which they decide: of several that apply, the first. Errors of no rule go before all.
const std::vector<GateRule>& gate_rules();
/// "4 hazards (raw, war, ...), 5 ...": for the help.
std::string gate_help();

/// The findings with those of the gate as errors, but for what is only said (info).
Diagnostics gated(const Diagnostics& diagnostics, const analysis::FindingOrigins& origins);
/// How a check with these findings ends.
int gate_exit_code(const Diagnostics& diagnostics, const analysis::FindingOrigins& origins);

}  // namespace kpu::cli
