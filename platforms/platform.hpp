#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/diagnostics.hpp"
#include "isa/device_limits.hpp"
#include "isa/nem/nem.hpp"
#include "platforms/parameters.hpp"
#include "platforms/platform.pb.h"
#include "traces/ledger.hpp"

namespace kpu::platforms {

using proto::Platform;
using Overrides = std::vector<std::pair<std::string, std::string>>;  ///< --set PATH=VALUE

/// Returns the names of the shipped platforms, sorted: textproto files and NEM devices.
std::vector<std::string> shipped_names();
/// True if a name or one of its aliases (npm_lite.cfg) is a shipped platform.
bool is_shipped(const std::string& name);

/// Returns a shipped name (aliases accepted), a .textproto file, a NEM config file (its last device), or a
/// SCALE-Sim configuration (.cfg with sections). Overrides apply in order, then the result is validated. What
/// a file says and a platform cannot goes to `notes`. Throws UserError with file, line, field, nearest name.
Platform load(const std::string& name_or_path, const Overrides& overrides = {},
              const std::vector<std::string>& search_paths = {}, Diagnostics* notes = nullptr);
Platform parse_textproto(std::string_view text, const std::string& origin, const Overrides& overrides = {});
/// Returns a device of a NEM document, with inheritance resolved.
Platform from_nem(const nem::Document& document, const std::string& device_name, Diagnostics& diagnostics,
                  const Overrides& overrides = {});
void apply_override(Platform& platform, const std::string& path, const std::string& value);
/// Checks every rule a platform must satisfy (sizes > 0, powers of two where stated, known DDR device, energy
/// entries).
void validate(const Platform& platform);

/// Writes the canonical text of a resolved platform: what a run writes, and what its hash is taken of.
std::string to_textproto(const Platform& platform);

/// Lists every field that is set, as (path, value) in schema order; the paths are those of --set:
/// engine.array.rows, with one entry in a list; engine[1].array.rows with several;
/// engine.array.rate[i8].relative.
std::vector<std::pair<std::string, std::string>> fields_of(const Platform& platform);

/// Returns what verifier and control see of the platform.
DeviceLimits limits_of(const Platform& platform);
/// Returns the same, kept for whoever asks again: its variants are as many texts to read.
std::shared_ptr<const DeviceLimits> shared_limits_of(const Platform& platform);
/// Returns the limits when no device is known: every variant of the 13 families and of kpusim_ext.
DeviceLimits agnostic_limits();

/// Finds the shipped device configs and type families after what nem::default_loader finds, so that programs
/// and device files may include them from anywhere.
nem::FileLoader file_loader(const std::vector<std::string>& search_paths);

/// Looks a DRAM device up; the timing at the platform's data rate: burst, tCCD_S and tPPD keep their clocks,
/// the other rules keep their nanoseconds, rounded up to whole clocks.
proto::DdrDevice ddr_device(const Platform& platform);
/// Returns the device as its entry states it, at its own data rate; energy per command is computed from this
/// one.
const proto::DdrDevice& rated_ddr_device(const std::string& name);

/// Reads an energy table: unknown and repeated keys, bad values, wrong units and missing sources are errors.
proto::EnergyTable parse_energy_table(std::string_view text, const std::string& origin);
/// Returns the energy table with the platform's corner, node, voltage and temperature applied.
proto::EnergyTable energy_table(const Platform& platform);
/// Returns the costs of all actions, and the static powers (platforms/energy.md). A missing entry is
/// an error.
traces::EnergyPrices energy_prices(const Platform& platform);
/// Returns the same from a table that was read already; the platform's corner, node, voltage and temperature
/// apply.
traces::EnergyPrices energy_prices(const Platform& platform, const proto::EnergyTable& table);
/// Returns what the same actions cost at the low and the high corner of the platform's table.
std::vector<traces::EnergyCorner> energy_corners(const Platform& platform);
/// Splits their static power among engines and the device.
std::vector<traces::StaticPart> energy_parts(const Platform& platform);

/// Energy of the commands of one DRAM channel and its standby power, from the device's supply currents.
struct DramEnergy {
    double read_pj, write_pj;        ///< energy of one burst, core and io
    double activate_pj;              ///< ACT and its PRE, beyond the standby
    double refresh_pj;               ///< one all-bank refresh, beyond the standby
    double standby_mw;               ///< banks open
    double read_io_pj, write_io_pj;  ///< part of read_pj and write_pj: input and output stages, termination
    /// Other power states of a rank. Without known currents all states cost the same.
    double precharged_mw, active_power_down_mw, precharge_power_down_mw, self_refresh_mw;
};
/// Throws UserError when the currents would give a negative energy.
DramEnergy dram_energy(const proto::DdrDevice& device, double phy_pj_per_bit);

Clock clock_of_mhz(double mhz);
Clock core_clock(const Platform& platform);
/// Returns the clock of the systolic arrays: the core's unless the platform says otherwise.
Clock array_clock(const Platform& platform);
/// Engines with the repeat counts expanded: index k is engine k. They live in the platform.
using Engines = std::vector<std::reference_wrapper<const proto::Engine>>;
Engines engines_of(const Platform& platform);
Engines engines_of(Platform&&) = delete;

}  // namespace kpu::platforms
