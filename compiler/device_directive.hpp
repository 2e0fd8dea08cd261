#pragma once

#include <optional>
#include <string>
#include <vector>

#include "isa/module.hpp"
#include "platforms/platform.hpp"

namespace kpu::compiler {

/// Returns the platform of a run: `choice` (--platform) if given, else the program's device directive, looked
/// up beside the program, then in the search paths, then among the shipped names. Nothing when neither names
/// one, or when the directive cannot be found (a warning: the program is then device-agnostic).
std::optional<platforms::Platform> resolve_platform(const Module& module, const std::string& choice,
                                                    const platforms::Overrides& overrides,
                                                    const std::vector<std::string>& search_paths,
                                                    Diagnostics& diagnostics);

}  // namespace kpu::compiler
