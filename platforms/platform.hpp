#pragma once

#include <string>
#include <utility>
#include <vector>

#include "isa/device_limits.hpp"
#include "isa/diagnostics.hpp"
#include "isa/nem/nem.hpp"
#include "platforms/clock.hpp"
#include "platforms/platform.pb.h"

namespace kpu::platforms {

using proto::Platform;
using Overrides = std::vector<std::pair<std::string, std::string>>;  ///< --set PATH=VALUE

/// Names of the shipped platforms, sorted: textproto files and NEM devices.
std::vector<std::string> shipped_names();

/// A shipped name (aliases accepted), a .textproto file, or a NEM config file (its last device).
/// Overrides apply in order, then the result is validated. Throws UserError with file, line, field, nearest name.
Platform load(const std::string& name_or_path, const Overrides& overrides = {},
              const std::vector<std::string>& search_paths = {});
Platform parse_textproto(std::string_view text, const std::string& origin);
/// A device of a NEM document, with inheritance resolved.
Platform from_nem(const nem::Document& document, const std::string& device_name, Diagnostics& diagnostics);
void apply_override(Platform& platform, const std::string& path, const std::string& value);
/// Every rule a platform must satisfy (sizes > 0, powers of two where stated, known DDR device, energy entries).
void validate(const Platform& platform);

/// Canonical text of a resolved platform: what a run writes, and what its hash is taken of.
std::string to_textproto(const Platform& platform);

/// What verifier and control see of the platform.
DeviceLimits limits_of(const Platform& platform);
/// No device known: every variant of the 13 families and of kpusim_ext.
DeviceLimits agnostic_limits();

/// Looks a DRAM device up; the timing at the platform's data rate.
const proto::DdrDevice& ddr_device(const Platform& platform);
/// Energy table with the platform's corner, node, voltage and temperature applied.
proto::EnergyTable energy_table(const Platform& platform);

Clock core_clock(const Platform& platform);
/// Engines with the repeat counts expanded: index k is engine k.
std::vector<proto::Engine> engines_of(const Platform& platform);

}  // namespace kpu::platforms
