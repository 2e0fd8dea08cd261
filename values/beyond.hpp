#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "base/types.hpp"
#include "values/posit.hpp"

namespace kpu::values {

/// Counts of results that left the range of their type: finite before their last rounding, and then infinite,
/// the largest or least posit, or an integer that stands for one outside of its type.
struct Beyond {
    uint64_t below = 0, above = 0;
    uint64_t infinite_sums =
        /// Float sums that were infinite before the rounding; BackendBase looks at those of products again.
        0;

    uint64_t all() const { return below + above; }
    void note(bool is_below, bool is_above) {
        below += is_below ? 1 : 0;
        above += is_above ? 1 : 0;
    }
    void add(const Beyond& other) {
        below += other.below;
        above += other.above;
    }
};

/// Returns the least number that the type rounds to infinity, or would if it did not saturate, or, of a
/// posit, that is above its largest. f32 has none: what overflows there does so wherever the model runs.
inline double first_beyond(ElemType type) {
    constexpr double none = std::numeric_limits<double>::infinity();
    switch (type) {
        case ElemType::f16:
            return 65520;
        case ElemType::bf16:
            return 0x1.ffp127;
        case ElemType::f8e4m3:
            return std::nextafter(464.0, none);  // half way to the number that is NaN: to the greatest, 448
        case ElemType::f8e5m2:
            return 61440;
        case ElemType::f6e2m3:
            return 7.75;
        case ElemType::f6e3m2:
            return 30;
        case ElemType::f4e2m1:
            return 7;
        default:
            break;
    }
    if (!is_posit(type)) return none;
    const uint32_t largest = (uint32_t{1} << (bit_width(type) - 1)) - 1;
    return std::nextafter(static_cast<double>(f32_of_posit(type, largest)), none);
}

/// Counts a number that is about to be rounded to a float type.
inline void note_float(Beyond& beyond, double limit, double value) {
    const bool finite = std::isfinite(value);
    beyond.note(finite && value <= -limit, finite && value >= limit);
    beyond.infinite_sums += std::isinf(value) ? 1 : 0;
}

}  // namespace kpu::values
