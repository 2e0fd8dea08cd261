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

/// Returns the posit format of an element type. Formats of es 2 are the standard's.
constexpr PositFormat posit_format(ElemType type) {
    switch (type) {
        case ElemType::posit8:
            return {8, 0};
        case ElemType::posit8_es1:
            return {8, 1};
        case ElemType::posit8_es2:
            return {8, 2};
        case ElemType::posit16_es0:
            return {16, 0};
        case ElemType::posit16_es2:
            return {16, 2};
        default:
            return {16, 1};
    }
}

/// Exact; NaR is the positive quiet NaN. Up to 16 bits, and es up to 3: with 4 the largest posit16 is no f32.
float f32_of_posit(PositFormat format, uint32_t pattern);
/// Rounded once: to the nearest pattern, ties to the even one, where patterns count on evenly beyond the last
/// bit (nearest in value wherever both neighbours have fraction bits). Never to zero, and never beyond the
/// largest number: those become the least and the largest. Infinities and NaN are NaR, -0 is zero.
uint32_t posit_of(PositFormat format, double value);

/// Returns the same for an element type, by a table.
float f32_of_posit(ElemType type, uint32_t pattern);

}  // namespace kpu::values
