#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "traces/events.hpp"
#include "traces/run_info.hpp"

namespace kpu::traces {

/// Energy over time, by bin.
struct EnergyColumn {
    std::vector<Yoctojoules> dynamic, statics;
    Yoctojoules of(size_t bin) const { return dynamic[bin] + statics[bin]; }
};

/// The energy of a recording over time, from its energy and active records. Everything is a sum of whole amounts: the
/// units of a bin sum to its components and to its total, the bins to what the statistics say, and two bins to the one
/// of twice their width, exactly.
struct PowerTrace {
    Picoseconds width = 1, begin = 0,
                end = 0;  ///< bins lie side by side from begin on; the last one ends at end
    size_t count = 0;
    std::array<EnergyColumn, component_count> components;
    /// Energy of each unit, and one more column for energy whose unit is unknown. Only if asked for.
    std::vector<EnergyColumn> units;
    std::vector<uint32_t> op;  ///< operation with most dynamic energy in the bin; background_op: none has any
    /// Dynamic energy of operations in each bin, ascending; what is left is of none. Only if asked for.
    std::vector<std::vector<std::pair<uint32_t, Yoctojoules>>> ops;

    Picoseconds start(size_t bin) const { return begin + bin * width; }
    Picoseconds real_width(size_t bin) const { return std::min(width, end - start(bin)); }
    Yoctojoules total(size_t bin) const;
    /// Returns the power of an amount in that bin, W.
    double watts(size_t bin, Yoctojoules energy) const {
        return pj_of(energy) / static_cast<double>(real_width(bin));  // 1 pJ / 1 ps = 1 W
    }
    /// Returns the units of an engine together; -1: those of the device, with what is of no unit.
    EnergyColumn engine(const RunInfo& info, int engine) const;
    /// Returns a column for each operation that spends energy, then one of what is of none, in which all
    /// static energy is.
    std::vector<std::pair<std::string, EnergyColumn>> by_op(const RunInfo& info) const;
};

/// Parts of a power trace beside its components.
struct PowerDetail {
    bool units = false, ops = false;
    bool on_chip =
        false;  ///< units are without the energy of DRAM chips: a channel has that of its interface
};
/// Returns the power in bins of `width_ps`, doubled while there are more than max_bins, or with units more
/// than 6,000,000 numbers.
PowerTrace power_trace(const RunInfo& info, const Events& events, Picoseconds width_ps,
                       PowerDetail detail = {}, size_t max_bins = 1'000'000);

/// Returns the power between two times of the run, as one bin, with everything.
PowerTrace power_between(const RunInfo& info, const Events& events, Picoseconds from, Picoseconds to);

/// Engines of the device, ascending, then -1 for the units of none.
std::vector<int> engines_of(const RunInfo& info);

}  // namespace kpu::traces
