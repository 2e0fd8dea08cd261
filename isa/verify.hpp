#pragma once

#include <memory>
#include <optional>

#include "base/diagnostics.hpp"
#include "isa/bound_program.hpp"
#include "isa/device_limits.hpp"
#include "isa/module.hpp"

namespace kpu {

struct VerifyOptions {
    bool strict = false;    ///< warnings of nem.md section 2.4 become errors
    bool retarget = false;  ///< a program compiled for another device is taken if it is legal here
    ParamBindings params;   ///< values for offsets and bounds; defaults otherwise
};

/// Checks form, names, types, bounds, capacity and device fit in the order of passes of the language
/// definition. Never throws on a bad program: every finding goes to `diagnostics`. Result: the program bound
/// for the device, or nothing when there is an error.
std::optional<BoundProgram> verify(const std::shared_ptr<const Module>& module, const DeviceLimits& limits,
                                   const VerifyOptions& options, Diagnostics& diagnostics);

}  // namespace kpu
