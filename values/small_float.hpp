#pragma once

#include <array>
#include <limits>

#include "base/types.hpp"
#include "values/convert.hpp"

namespace kpu::values {

/// A float of 8 bits, the sign first.
struct Float8 {
    int mantissa, bias;
    uint8_t greatest;     ///< finite magnitude
    uint8_t nan;          ///< what conversions give
    uint8_t infinity;     ///< what an overflow gives: that, or NaN
    bool has_minus_zero;  ///< else its bits are the NaN
};
constexpr Float8 e4m3fn{3, 7, 0x7e, 0x7f, 0x7f, true};
constexpr Float8 e5m2{2, 15, 0x7b, 0x7e, 0x7c, true};
constexpr Float8 e4m3b11fnuz{3, 11, 0x7f, 0x80, 0x80, false};

/// Nearest, ties to even; of a NaN the format's.
inline uint8_t f8_of(double value, const Float8& format) {
    if (value != value) return format.nan;
    const uint32_t magnitude = rounded_magnitude(value, format.mantissa, format.bias);
    const bool overflows = magnitude > format.greatest;
    if (overflows && format.infinity == format.nan) return format.nan;
    if (magnitude == 0 && !format.has_minus_zero) return 0;
    const uint32_t sign = static_cast<uint32_t>(bits_of(value) >> 63) << 7;
    return static_cast<uint8_t>(sign | (overflows ? format.infinity : magnitude));
}

/// The same, but finite numbers stay finite: those beyond the greatest become it. So do infinities where the format has none.
inline uint8_t saturated_f8(double value, const Float8& format) {
    const double greatest = format.infinity == format.nan ? HUGE_VAL : std::numeric_limits<double>::max();
    const uint8_t rounded = f8_of(value, format);
    const bool cut = std::fabs(value) <= greatest && (rounded & 0x7f) > format.greatest;
    if (!cut) return rounded;
    return static_cast<uint8_t>((std::signbit(value) ? 0x80 : 0) | format.greatest);
}

/// The values of all patterns.
inline std::array<float, 256> f8_values(const Float8& format) {
    std::array<float, 256> values{};
    for (int bits = 0; bits < 256; ++bits) {
        const int magnitude = bits & 0x7f, exponent = magnitude >> format.mantissa;
        const int one = 1 << format.mantissa, fraction = magnitude & (one - 1);
        double value = exponent == 0 ? std::ldexp(fraction, 1 - format.bias - format.mantissa)
                                     : std::ldexp(one + fraction, exponent - format.bias - format.mantissa);
        if (bits >= 0x80) value = -value;
        const bool number = magnitude <= format.greatest && (format.has_minus_zero || bits != 0x80);
        const bool infinite = format.infinity != format.nan && magnitude == format.infinity;
        values[static_cast<size_t>(bits)] = number     ? static_cast<float>(value)
                                            : infinite ? std::copysign(HUGE_VALF, bits < 0x80 ? 1.0F : -1.0F)
                                                       : float_of(f32_nan);
    }
    return values;
}

constexpr const Float8& format_of_f8(ElemType type) { return type == ElemType::f8e4m3 ? e4m3fn : e5m2; }

/// Those of an element type, by a table.
inline const std::array<float, 256>& f8_numbers(ElemType type) {
    static const std::array<float, 256> with_infinities = f8_values(e5m2), without = f8_values(e4m3fn);
    return type == ElemType::f8e4m3 ? without : with_infinities;
}

}  // namespace kpu::values
