#include "traces/energy_amount.hpp"

#include <fmt/format.h>

#include <cmath>

namespace kpu::traces {

namespace {

constexpr uint64_t per_pj = 1'000'000'000'000, per_uj = 1'000'000'000'000'000'000;
constexpr double yj_in_mw_ps = 1e9;

/// Divides by the unit, rounded once: as many bits of the quotient as fit, the rest of it in the last one.
double nearest(Yoctojoules energy, uint64_t unit) {
    if (energy == 0) return 0;
    __extension__ typedef unsigned __int128 Wide;
    const bool negative = energy < 0;
    Wide value = static_cast<Wide>(negative ? -energy : energy);
    const auto high = static_cast<uint64_t>(value >> 64);
    const int zeros = high != 0 ? __builtin_clzll(high) : 64 + __builtin_clzll(static_cast<uint64_t>(value));
    value <<= zeros;
    const Wide quotient = value / unit | (value % unit != 0 ? 1 : 0);
    const double result = std::ldexp(static_cast<double>(quotient), -zeros);
    return negative ? -result : result;
}

}  // namespace

Yoctojoules yj_of_pj(double pj) {
    return static_cast<Yoctojoules>(std::round(pj * static_cast<double>(per_pj)));
}
Yoctojoules yj_per_ps(double mw) { return static_cast<Yoctojoules>(std::round(mw * yj_in_mw_ps)); }

double pj_of(Yoctojoules energy) { return nearest(energy, per_pj); }
double uj_of(Yoctojoules energy) { return nearest(energy, per_uj); }

std::string pj_text(Yoctojoules energy) {
    const bool negative = energy < 0;
    if (negative) energy = -energy;
    const auto whole = static_cast<uint64_t>(energy / per_pj), rest = static_cast<uint64_t>(energy % per_pj);
    std::string text = fmt::format("{}{}", negative ? "-" : "", whole);
    if (rest == 0) return text;
    text += fmt::format(".{:012}", rest);
    text.erase(text.find_last_not_of('0') + 1);
    return text;
}

}  // namespace kpu::traces
