#pragma once
// Voltage and frequency of the clock domains (energy.md, Operating points).
#include "base/diagnostics.hpp"
#include "platforms/platform.hpp"
#include "traces/power_bins.hpp"

namespace kpu::platforms {

/// Gives each domain whose point is named (clock.array_point) the frequency and voltage of that point. A point that is set
/// replaces the pair that the file says. Errors go to `diagnostics`, without a place: no such point, or a frequency or voltage
/// beside it that contradicts it.
void choose_points(proto::Platform& platform, const Overrides& overrides, Diagnostics& diagnostics);

/// Forgets the pairs that an extending file replaces: a point that it names replaces the pair of the platform
/// that it extends.
void forget_replaced_pairs(proto::Clock& clock, const proto::Clock& changes);

/// Lists what is wrong with the list of points, one message each: two of one name, a higher voltage that is
/// no faster.
std::vector<std::string> point_problems(const proto::Clock& clock);

/// Returns frequency (MHz) and voltage (V) of the domain that a component is in. `otherwise`: voltage where
/// the platform says none. DRAM and PHY are in no domain: they have the core's frequency and `otherwise`.
double mhz_of(const proto::Clock& clock, traces::Component component);
double vdd_of(const proto::Clock& clock, traces::Component component, double otherwise);

}  // namespace kpu::platforms
