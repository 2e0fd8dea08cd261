#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace kpu::values {

/// Exact conversions between the float formats: widening is exact, narrowing rounds once to nearest even,
/// subnormals are kept, every NaN becomes the positive quiet NaN with zero payload.

constexpr uint16_t f16_nan = 0x7e00;
constexpr uint16_t bf16_nan = 0x7fc0;
constexpr uint32_t f32_nan = 0x7fc00000;

inline uint32_t bits_of(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}
inline uint64_t bits_of(double value) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}
inline float float_of(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

/// Exponent and mantissa, without the sign, nearest to `value`, ties to even, where exponents have no end: of an
/// infinity more than of any number.
inline uint32_t rounded_magnitude(double value, int mantissa, int bias) {
    const uint64_t bits = bits_of(value);
    const auto double_exponent = static_cast<int>((bits >> 52) & 0x7ff);
    if (double_exponent == 0) return 0;  // far below half of any subnormal here
    const uint64_t significand = (bits & ((uint64_t{1} << 52) - 1)) | uint64_t{1} << 52;
    const int power = double_exponent - 1023;
    const int below = power < 1 - bias ? 1 - bias - power : 0;  // subnormal results have fewer bits
    const int shift = 52 - mantissa + below;
    if (shift > 53) return 0;
    uint64_t kept = significand >> shift;
    const uint64_t rest = significand & ((uint64_t{1} << shift) - 1);
    const uint64_t half = uint64_t{1} << (shift - 1);
    if (rest > half || (rest == half && (kept & 1) != 0)) ++kept;
    // a carry out of the significand moves into the exponent by itself
    const int biased = below > 0 ? 0 : power + bias - 1;
    return static_cast<uint32_t>(kept) + (static_cast<uint32_t>(biased) << mantissa);
}

/// Returns the IEEE-style format of `exponent` and `mantissa` bits nearest to `value`, ties to even.
inline uint32_t round_to_format(double value, int exponent, int mantissa) {
    const uint32_t infinity = ((uint32_t{1} << exponent) - 1) << mantissa;
    if (value != value) return infinity | (uint32_t{1} << (mantissa - 1));
    const auto sign = static_cast<uint32_t>(bits_of(value) >> 63) << (exponent + mantissa);
    const uint32_t magnitude = rounded_magnitude(value, mantissa, (1 << (exponent - 1)) - 1);
    return sign | (magnitude < infinity ? magnitude : infinity);
}

inline uint16_t f16_of(double value) { return static_cast<uint16_t>(round_to_format(value, 5, 10)); }
inline uint16_t bf16_of(double value) { return static_cast<uint16_t>(round_to_format(value, 8, 7)); }
inline float f32_of(double value) {
    return std::isnan(value) ? float_of(f32_nan) : static_cast<float>(value);  // the conversion rounds once
}

inline float f32_of_f16(uint16_t half) {
    const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
    const uint32_t exponent = (half >> 10) & 0x1f;
    const uint32_t mantissa = half & 0x3ff;
    if (exponent == 0x1f) return mantissa != 0 ? float_of(f32_nan) : float_of(sign | 0x7f800000);
    if (exponent != 0) return float_of(sign | ((exponent + 112) << 23) | (mantissa << 13));
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
}
inline float f32_of_bf16(uint16_t value) {
    const bool nan = (value & 0x7fff) > 0x7f80;
    return float_of(nan ? f32_nan : static_cast<uint32_t>(value) << 16);
}

}  // namespace kpu::values
