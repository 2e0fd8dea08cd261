// Posits of up to 16 bits. Arithmetic is that of floats: operands become f32 exactly, results are rounded once.
#include "values/posit.hpp"

#include <cmath>
#include <vector>

#include "values/convert.hpp"

namespace kpu::values {
namespace {

constexpr int kept_fraction = 40;  ///< fraction bits kept of 52; the last one says whether any below is set

std::vector<float> table_of(PositFormat format) {
    std::vector<float> table(size_t{1} << format.bits);
    for (uint32_t pattern = 0; pattern < table.size(); ++pattern)
        table[pattern] = f32_of_posit(format, pattern);
    return table;
}

/// Returns the table of a posit type, made when the type is first met.
template <ElemType type>
const std::vector<float>& table() {
    static const std::vector<float> numbers = table_of(posit_format(type));
    return numbers;
}

/// The pattern of a positive number without its sign bit, long enough to need no rounding.
struct Unrounded {
    uint64_t bits;
    int length;
};

/// `power` and `fraction` (52 bits) of binary64; the regime fits into the pattern.
Unrounded unrounded(PositFormat format, int power, uint64_t fraction) {
    const int regime = power >> format.es;  // floor
    const auto exponent = static_cast<uint64_t>(power - regime * (1 << format.es));
    const int dropped = 52 - kept_fraction;
    const bool sticky = (fraction & ((uint64_t{1} << dropped) - 1)) != 0;
    Unrounded result{regime < 0 ? 1 : (uint64_t{2} << (regime + 1)) - 2,
                     regime < 0 ? 1 - regime : regime + 2};
    result.bits = result.bits << format.es | exponent;
    result.bits = result.bits << kept_fraction | fraction >> dropped | (sticky ? 1 : 0);
    result.length += format.es + kept_fraction;
    return result;
}

/// Returns the pattern of a positive finite number.
uint32_t magnitude_of(PositFormat format, uint64_t double_bits) {
    const uint32_t largest = (uint32_t{1} << (format.bits - 1)) - 1;
    const int power = static_cast<int>(double_bits >> 52) - 1023;
    const int most = (format.bits - 2) * (1 << format.es);  // powers of the largest number and of the least
    if (power >= most) return largest;
    if (power < -most) return 1;
    const Unrounded exact = unrounded(format, power, double_bits & ((uint64_t{1} << 52) - 1));
    const int shift = exact.length - (format.bits - 1);
    uint64_t kept = exact.bits >> shift;
    const uint64_t rest = exact.bits & ((uint64_t{1} << shift) - 1);
    const uint64_t half = uint64_t{1} << (shift - 1);
    if (rest > half || (rest == half && (kept & 1) != 0)) ++kept;
    return static_cast<uint32_t>(kept);
}

}  // namespace

float f32_of_posit(PositFormat format, uint32_t pattern) {
    const uint32_t sign_bit = uint32_t{1} << (format.bits - 1);
    pattern &= 2 * sign_bit - 1;
    if (pattern == 0) return 0;
    if (pattern == sign_bit) return float_of(f32_nan);
    const bool negative = (pattern & sign_bit) != 0;
    const uint32_t magnitude = negative ? 2 * sign_bit - pattern : pattern;
    int at = format.bits - 2;  // of the bit after those that were read
    const uint32_t first = magnitude >> at & 1;
    int run = 0;
    for (; at >= 0 && (magnitude >> at & 1) == first; --at) ++run;
    --at;  // the bit that ends the regime
    int power = first == 1 ? run - 1 : -run;
    for (int bit = 0; bit < format.es; ++bit, --at)  // bits that the pattern has no room for are 0
        power = 2 * power + (at >= 0 ? static_cast<int>(magnitude >> at & 1) : 0);
    const int fraction_bits = at >= 0 ? at + 1 : 0;
    const uint32_t one = uint32_t{1} << fraction_bits;
    const uint32_t significand = one | (magnitude & (one - 1));
    const float value = std::ldexp(static_cast<float>(significand), power - fraction_bits);
    return negative ? -value : value;
}

uint32_t posit_of(PositFormat format, double value) {
    const uint32_t sign_bit = uint32_t{1} << (format.bits - 1);
    if (!std::isfinite(value)) return sign_bit;
    if (value == 0) return 0;
    const uint64_t bits = bits_of(value);
    const uint32_t magnitude = magnitude_of(format, bits & (UINT64_MAX >> 1));
    return value < 0 ? 2 * sign_bit - magnitude : magnitude;
}

float f32_of_posit(ElemType type, uint32_t pattern) {
    switch (type) {
        case ElemType::posit8:
            return table<ElemType::posit8>()[pattern];
        case ElemType::posit8_es1:
            return table<ElemType::posit8_es1>()[pattern];
        case ElemType::posit8_es2:
            return table<ElemType::posit8_es2>()[pattern];
        case ElemType::posit16_es0:
            return table<ElemType::posit16_es0>()[pattern];
        case ElemType::posit16_es2:
            return table<ElemType::posit16_es2>()[pattern];
        default:
            return table<ElemType::posit16>()[pattern];
    }
}

}  // namespace kpu::values
