#pragma once

#include <optional>

#include "traces/ledger.hpp"

namespace kpu::traces {

/// Energy and power of a run at the low and the high corner of the energy table.
struct EnergyBand {
    double low_uj = 0, high_uj = 0;
    double low_w = 0, high_w = 0;  ///< average power
    bool holds(double watts) const { return watts >= low_w && watts <= high_w; }
};

/// Returns the prices at another of their corners.
EnergyPrices at_corner(const EnergyPrices& prices, const EnergyCorner& corner);

/// Computes the band from the counts of the statistics; nothing where energy is not modelled or the corners
/// are not known.
std::optional<EnergyBand> energy_band(const StatSet& stats, const EnergyPrices& prices);

}  // namespace kpu::traces
