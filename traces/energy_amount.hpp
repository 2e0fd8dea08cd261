#pragma once

#include <cstdint>
#include <string>

#include "base/types.hpp"

namespace kpu::traces {

/// Energy as a whole number of yoctojoules, 10^-24 J: sums of it close exactly, in whatever order and however they are
/// split. Prices are rounded to one yoctojoule (10^-12 pJ), static powers to one per picosecond (a picowatt).
__extension__ typedef __int128 Yoctojoules;

/// Returns the nearest amount. `pj` up to 10^18.
Yoctojoules yj_of_pj(double pj);
/// Yoctojoules in a picosecond, the nearest.
Yoctojoules yj_per_ps(double mw);

/// Returns the nearest doubles.
double pj_of(Yoctojoules energy);
double uj_of(Yoctojoules energy);
/// pJ, every digit, without zeros at the end: "12.5", "0".
std::string pj_text(Yoctojoules energy);

/// Returns the share of the first `part` of `length` in an energy that is spent evenly, rounded down: shares
/// between the same times are the same whatever stands between them.
inline Yoctojoules share_of(Yoctojoules energy, Picoseconds part, Picoseconds length) {
    if (part == 0) return 0;
    if (part >= length) return energy;
    // the quotient first: the product of energy and time may not fit
    return energy / length * part + energy % length * part / length;
}

}  // namespace kpu::traces
