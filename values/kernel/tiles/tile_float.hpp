#pragma once
// f32 as rule set xla computes with it.
#include "values/convert.hpp"
#include "values/kernel/tiles/tile.hpp"

namespace kpu::values::kernel {

/// A subnormal is the zero of its sign.
inline float flushed(float value) {
    const uint32_t bits = bits_of(value);
    return float_of((bits & 0x7f800000u) != 0 ? bits : bits & 0x80000000u);
}
/// Settles the result of arithmetic: flushes denormals and makes every NaN the quiet one.
inline float settled(float value) { return float_of(kpu::kernel::canonical(bits_of(value))); }
inline float settled(double value) { return settled(f32_of(value)); }

/// NaN propagates, -0 < +0.
inline float maximum_of(float a, float b) {
    if (a == b) return float_of(bits_of(a) & bits_of(b));
    return a > b || a != a ? a : b;
}
inline float minimum_of(float a, float b) {
    if (a == b) return float_of(bits_of(a) | bits_of(b));
    return a < b || a != a ? a : b;
}

}  // namespace kpu::values::kernel
