#pragma once

#include "model/dram/channel.hpp"
#include "platforms/platform.hpp"

namespace kpu::dram {

/// Energy of a channel in pJ, by the formulas of platforms/energy.md.
struct Energy {
    double activate = 0;    ///< activates and their precharges
    double read = 0;        ///< core
    double write = 0;       ///< core
    double io = 0;          ///< input and output stages, termination
    double refresh = 0;     ///< beyond the standby
    double background = 0;  ///< power states; a rank that refreshes costs as one with open rows
    double total() const { return activate + read + write + io + refresh + background; }
};

Energy energy_of(const Counters& counters, const platforms::DramEnergy& prices, double tck_ns);

}  // namespace kpu::dram
