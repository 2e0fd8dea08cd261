#pragma once

#include <cstdint>

#include "base/types.hpp"

namespace kpu::values {

/// A posit: sign, regime, up to `es` bits of exponent, fraction, as the Posit Standard (2022) lays them out.
/// There is one zero, and one pattern, NaR, that is no real number: the sign bit alone.
struct PositFormat {
    int bits;
    int es;
};

/// What the element types stand for. posit16 of es 2 is that of the standard.
constexpr PositFormat posit8_format{8, 0}, posit16_format{16, 1};

constexpr bool is_posit(ElemType type) { return type == ElemType::posit8 || type == ElemType::posit16; }

/// Exact; NaR is the positive quiet NaN. Up to 16 bits, and es up to 3: with 4 the largest posit16 is no f32.
float f32_of_posit(PositFormat format, uint32_t pattern);
/// Rounded once: to the nearest pattern, ties to the even one, where patterns count on evenly beyond the last
/// bit (nearest in value wherever both neighbours have fraction bits). Never to zero, and never beyond the
/// largest number: those become the least and the largest. Infinities and NaN are NaR, -0 is zero.
uint32_t posit_of(PositFormat format, double value);

/// The same for the element types, by tables.
float f32_of_posit8(uint8_t pattern);
float f32_of_posit16(uint16_t pattern);

}  // namespace kpu::values
