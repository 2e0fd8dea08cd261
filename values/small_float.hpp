#pragma once

#include <array>
#include <limits>

#include "base/types.hpp"
#include "values/convert.hpp"

namespace kpu::values {

/// A float of 8 bits or fewer, the sign first.
struct SmallFloat {
    int mantissa, bias;
    uint8_t greatest;     ///< finite magnitude
    uint8_t nan;          ///< result of a NaN, in formats without one -0
    uint8_t infinity;     ///< result of an overflow: that, NaN, or the greatest
    bool has_minus_zero;  ///< else its bits are the NaN
    int bits = 8;
    constexpr bool all_finite() const { return infinity == greatest; }
};
constexpr SmallFloat e4m3fn{3, 7, 0x7e, 0x7f, 0x7f, true};
constexpr SmallFloat e5m2{2, 15, 0x7b, 0x7e, 0x7c, true};
constexpr SmallFloat e4m3b11fnuz{3, 11, 0x7f, 0x80, 0x80, false};
constexpr SmallFloat e2m3fn{3, 1, 0x1f, 0x20, 0x1f, true, 6};
constexpr SmallFloat e3m2fn{2, 3, 0x1f, 0x20, 0x1f, true, 6};
constexpr SmallFloat e2m1fn{1, 1, 0x7, 0x8, 0x7, true, 4};

/// Nearest, ties to even; of a NaN the format's.
inline uint8_t small_float_of(double value, const SmallFloat& format) {
    if (value != value) return format.nan;
    const uint32_t magnitude = rounded_magnitude(value, format.mantissa, format.bias);
    const bool overflows = magnitude > format.greatest;
    if (overflows && format.infinity == format.nan) return format.nan;
    if (magnitude == 0 && !format.has_minus_zero) return 0;
    const uint32_t sign = static_cast<uint32_t>(bits_of(value) >> 63) << (format.bits - 1);
    return static_cast<uint8_t>(sign | (overflows ? format.infinity : magnitude));
}

/// Returns the same, but finite numbers stay finite: those beyond the greatest become it. So do infinities
/// where the format has none.
inline uint8_t saturated_small_float(double value, const SmallFloat& format) {
    const double greatest = format.infinity == format.nan ? HUGE_VAL : std::numeric_limits<double>::max();
    const uint8_t rounded = small_float_of(value, format);
    const bool cut =
        !format.all_finite() && std::fabs(value) <= greatest && (rounded & 0x7f) > format.greatest;
    if (!cut) return rounded;
    return static_cast<uint8_t>((std::signbit(value) ? 0x80 : 0) | format.greatest);
}

/// Returns the values of all patterns; bits above the format's are ignored.
inline std::array<float, 256> small_float_values(const SmallFloat& format) {
    std::array<float, 256> values{};
    const int sign = 1 << (format.bits - 1);
    for (int byte = 0; byte < 256; ++byte) {
        const int bits = byte & (2 * sign - 1);
        const int magnitude = bits & (sign - 1), exponent = magnitude >> format.mantissa;
        const int one = 1 << format.mantissa, fraction = magnitude & (one - 1);
        double value = exponent == 0 ? std::ldexp(fraction, 1 - format.bias - format.mantissa)
                                     : std::ldexp(one + fraction, exponent - format.bias - format.mantissa);
        if (bits >= sign) value = -value;
        const bool number = magnitude <= format.greatest && (format.has_minus_zero || bits != sign);
        const bool infinite = format.infinity != format.nan && magnitude == format.infinity;
        values[static_cast<size_t>(byte)] = number     ? static_cast<float>(value)
                                            : infinite ? std::copysign(HUGE_VALF, bits < sign ? 1.0F : -1.0F)
                                                       : float_of(f32_nan);
    }
    return values;
}

constexpr const SmallFloat& small_float_format(ElemType type) {
    switch (type) {
        case ElemType::f8e4m3:
            return e4m3fn;
        case ElemType::f6e2m3:
            return e2m3fn;
        case ElemType::f6e3m2:
            return e3m2fn;
        case ElemType::f4e2m1:
            return e2m1fn;
        default:
            return e5m2;
    }
}

/// Returns the numbers of an element type, from a table.
inline const std::array<float, 256>& small_float_numbers(ElemType type) {
    static const std::array<float, 256> of_e5m2 = small_float_values(e5m2),
                                        of_e4m3 = small_float_values(e4m3fn),
                                        of_e2m3 = small_float_values(e2m3fn),
                                        of_e3m2 = small_float_values(e3m2fn),
                                        of_e2m1 = small_float_values(e2m1fn);
    switch (type) {
        case ElemType::f8e4m3:
            return of_e4m3;
        case ElemType::f6e2m3:
            return of_e2m3;
        case ElemType::f6e3m2:
            return of_e3m2;
        case ElemType::f4e2m1:
            return of_e2m1;
        default:
            return of_e5m2;
    }
}

}  // namespace kpu::values
