#include "values/convert.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/values/helpers.hpp"
#include "values/fast/kernels.hpp"
#include "values/small_float.hpp"

namespace kpu::values {
namespace {

using testing::Random;

struct Format {
    int exponent, mantissa;
};
constexpr Format formats[] = {{5, 10}, {8, 7}};

uint16_t encode(const Format& f, double value) { return f.exponent == 5 ? f16_of(value) : bf16_of(value); }
float decode(const Format& f, uint16_t bits) {
    return f.exponent == 5 ? f32_of_f16(bits) : f32_of_bf16(bits);
}

/// Returns the value of a bit pattern from the definition of the format.
double defined_value(const Format& f, uint32_t bits) {
    const int bias = (1 << (f.exponent - 1)) - 1;
    const int exponent = static_cast<int>(bits >> f.mantissa) & ((1 << f.exponent) - 1);
    const int mantissa = static_cast<int>(bits) & ((1 << f.mantissa) - 1);
    double value = exponent == 0 ? std::ldexp(mantissa, 1 - bias - f.mantissa)
                                 : std::ldexp((1 << f.mantissa) + mantissa, exponent - bias - f.mantissa);
    if (exponent == (1 << f.exponent) - 1) value = mantissa != 0 ? NAN : HUGE_VAL;
    return (bits >> 15 & 1) != 0 ? -value : value;
}

/// Returns the nearest value of the format, ties to even, by comparing with both neighbours.
uint16_t nearest(const Format& f, double value) {
    const uint32_t infinity = ((1U << f.exponent) - 1) << f.mantissa;
    const double magnitude = std::fabs(value);
    uint32_t below = 0;
    for (uint32_t step = 1U << 14; step > 0; step /= 2) {
        if (below + step < infinity && defined_value(f, below + step) <= magnitude) below += step;
    }
    // the value after the greatest finite one, for the purpose of rounding
    const double top = std::ldexp(1.0, 1 << (f.exponent - 1));
    const double low = defined_value(f, below);
    const double high = below + 1 == infinity ? top : defined_value(f, below + 1);
    const double half = low + (high - low) / 2;
    uint32_t result = magnitude > half || (magnitude == half && below % 2 == 1) ? below + 1 : below;
    if (std::isinf(value)) result = infinity;
    return static_cast<uint16_t>(result | (std::signbit(value) ? 0x8000U : 0U));
}

// Every 16-bit pattern decodes to the value that the format's definition gives, NaNs to the canonical one.
TEST(Convert, DecodesAllPatterns) {
    for (const Format& f : formats) {
        for (uint32_t bits = 0; bits < 65536; ++bits) {
            const float value = decode(f, static_cast<uint16_t>(bits));
            const double expected = defined_value(f, bits);
            if (std::isnan(expected)) {
                ASSERT_EQ(bits_of(value), f32_nan);
            } else {
                ASSERT_EQ(bits_of(static_cast<double>(value)), bits_of(expected)) << bits;
            }
        }
    }
}

// Encoding an exact value gives its pattern back; a NaN gives the positive quiet NaN without payload.
TEST(Convert, RoundTripsAllPatterns) {
    for (const Format& f : formats) {
        for (uint32_t bits = 0; bits < 65536; ++bits) {
            const double value = defined_value(f, bits);
            const uint16_t nan = f.exponent == 5 ? f16_nan : bf16_nan;
            ASSERT_EQ(encode(f, value), std::isnan(value) ? nan : bits);
        }
    }
}

/// Doubles around every interesting place: neighbours and midpoints of representable values, and random ones.
std::vector<double> hard_values(const Format& f) {
    std::vector<double> values = {0.0, -0.0, HUGE_VAL, -HUGE_VAL, 5e-324, -5e-324, 1.7e308, 1e-45, -3e38};
    const uint32_t infinity = ((1U << f.exponent) - 1) << f.mantissa;
    for (uint32_t bits = 0; bits < infinity; bits += 3) {
        const double low = defined_value(f, bits);
        const double high =
            bits + 1 == infinity ? std::ldexp(1.0, 1 << (f.exponent - 1)) : defined_value(f, bits + 1);
        const double middle = low + (high - low) / 2;
        for (const double v : {low, middle, std::nextafter(middle, 0), std::nextafter(middle, HUGE_VAL)}) {
            values.push_back(v);
            values.push_back(-v);
        }
    }
    Random random(7);
    for (int i = 0; i < 2000; ++i) {
        values.push_back(std::ldexp(static_cast<double>(random()) * 0x1p-64 - 0.5,
                                    static_cast<int>(testing::pick(random, -160, 140))));
    }
    return values;
}

// One rounding to nearest even from binary64, ties and one bit beside ties included.
TEST(Convert, EncodesToTheNearest) {
    for (const Format& f : formats) {
        for (const double value : hard_values(f)) ASSERT_EQ(encode(f, value), nearest(f, value)) << value;
    }
}

// Every kernel set converts like the scalar definitions: all f16 and bf16 patterns in, hard values out, also
// by way of f32 rounded to odd.
TEST(Convert, KernelsAgreeWithTheDefinition) {
    const fast::KernelList list = fast::usable_kernels();
    for (int k = 0; k < list.count; ++k) {
        const fast::Kernels& kernels = *list.items[k];
        SCOPED_TRACE(kernels.name);
        std::vector<uint16_t> patterns(65536);
        for (size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<uint16_t>(i);
        for (const Format& f : formats) {
            std::vector<float> wide(65536);
            (f.exponent == 5 ? kernels.f32_of_f16 : kernels.f32_of_bf16)(patterns.data(), wide.data(), 65536);
            for (size_t i = 0; i < 65536; ++i) {
                const float expected = decode(f, patterns[i]);
                ASSERT_TRUE(std::isnan(expected) ? std::isnan(wide[i])
                                                 : bits_of(wide[i]) == bits_of(expected))
                    << i;
            }
            std::vector<double> hard = hard_values(f);
            hard.push_back(NAN);
            const auto count = static_cast<int64_t>(hard.size());
            std::vector<float> odd(hard.size());
            std::vector<uint16_t> narrow(hard.size());
            kernels.odd_f32_of_f64(hard.data(), odd.data(), count);
            const auto encode_floats = f.exponent == 5 ? kernels.f16_of_f32 : kernels.bf16_of_f32;
            encode_floats(odd.data(), narrow.data(), count);
            for (size_t i = 0; i < hard.size(); ++i) ASSERT_EQ(narrow[i], encode(f, hard[i])) << hard[i];
            for (size_t i = 0; i < hard.size(); ++i) odd[i] = static_cast<float>(hard[i]);
            encode_floats(odd.data(), narrow.data(), count);
            for (size_t i = 0; i < hard.size(); ++i) ASSERT_EQ(narrow[i], encode(f, odd[i])) << odd[i];
        }
    }
}

/// Returns the magnitude nearest to a number among all of them, the even one of two.
uint8_t nearest(const std::array<float, 256>& values, double value) {
    int best = 0;
    for (int bits = 1; bits < 0x80; ++bits) {
        const double far = std::fabs(std::fabs(value) - double{values[static_cast<size_t>(bits)]});
        const double least = std::fabs(std::fabs(value) - double{values[static_cast<size_t>(best)]});
        if (far < least || (far == least && bits % 2 == 0)) best = bits;
    }
    return static_cast<uint8_t>(best);
}

// Conversions of every number of 16 bits, and what is next to it in f32.
TEST(Float8, EveryPatternAndEveryHalf) {
    for (const SmallFloat& format : {e4m3fn, e5m2, e4m3b11fnuz}) {
        const std::array<float, 256> values = small_float_values(format);
        const double top = double{values[format.greatest]},
                     end = top + (top - double{values[format.greatest - size_t{1}]}) / 2;
        for (uint32_t bits = 0; bits < 256; ++bits) {
            if (std::isnan(values[bits])) continue;
            EXPECT_EQ(small_float_of(double{values[bits]}, format), bits);
        }
        for (uint32_t bits = 0; bits < 3 * 65536; ++bits) {
            const auto half = static_cast<uint16_t>(bits / 3);
            for (float value : {f32_of_f16(half), f32_of_bf16(half)}) {
                if (bits % 3 != 0) value = std::nextafter(value, bits % 3 == 1 ? HUGE_VALF : -HUGE_VALF);
                const uint8_t found = small_float_of(double{value}, format);
                const auto sign = static_cast<uint8_t>(std::signbit(value) ? 0x80 : 0);
                const double size = std::fabs(double{value});
                uint8_t expected = nearest(values, double{value});
                if (size > end || (size == end && format.greatest % 2 == 1)) expected = format.infinity;
                const bool is_nan = value != value || expected == format.nan;
                const bool is_zero = expected == 0 && !format.has_minus_zero;
                EXPECT_EQ(found, is_nan ? format.nan : is_zero ? 0 : expected | sign) << value;
            }
        }
    }
}

/// Ends of the formats: finite numbers stay finite, and so do infinities where the format has none.
TEST(Float8, Saturating) {
    const double most = std::numeric_limits<double>::max();
    for (const double value : {449.0, 464.0, 464.1, 1e9, most, double{HUGE_VAL}}) {
        EXPECT_EQ(saturated_small_float(value, e4m3fn), 0x7e) << value;
        EXPECT_EQ(saturated_small_float(-value, e4m3fn), 0xfe) << value;
    }
    for (const double value : {61439.0, 61440.0, 1e9, most}) {
        EXPECT_EQ(saturated_small_float(value, e5m2), 0x7b) << value;
        EXPECT_EQ(saturated_small_float(-value, e5m2), 0xfb) << value;
    }
    EXPECT_EQ(saturated_small_float(HUGE_VAL, e5m2), 0x7c);
    EXPECT_EQ(saturated_small_float(-HUGE_VAL, e5m2), 0xfc);
    EXPECT_EQ(saturated_small_float(-NAN, e4m3fn), 0x7f);
    EXPECT_EQ(saturated_small_float(-NAN, e5m2), 0x7e);
    EXPECT_EQ(saturated_small_float(-0.0, e4m3fn), 0x80);
}

TEST(Float8, WhatIsSpecial) {
    EXPECT_EQ(small_float_of(464.0, e4m3fn), 0x7e);  // half way to 480, which is no number: to the even one
    EXPECT_EQ(small_float_of(464.1, e4m3fn), 0x7f);
    EXPECT_EQ(small_float_of(-INFINITY, e4m3fn), 0x7f);
    EXPECT_EQ(small_float_of(61439.0, e5m2), 0x7b);
    EXPECT_EQ(small_float_of(61440.0, e5m2), 0x7c);
    EXPECT_EQ(small_float_of(-1e300, e5m2), 0xfc);
    EXPECT_EQ(small_float_of(-0.0, e5m2), 0x80);
    EXPECT_EQ(small_float_of(-0.0, e4m3b11fnuz), 0);
    EXPECT_EQ(small_float_of(-1e-9, e4m3b11fnuz), 0);
    EXPECT_EQ(small_float_of(30.9, e4m3b11fnuz), 0x7f);
    EXPECT_EQ(small_float_of(31.0, e4m3b11fnuz), 0x80);
    EXPECT_EQ(small_float_of(std::ldexp(1.0, -10), e4m3fn), 0);  // half of the least: to the even one
    EXPECT_EQ(small_float_of(std::ldexp(3.0, -10), e4m3fn), 2);
    EXPECT_TRUE(std::isnan(small_float_values(e4m3b11fnuz)[0x80]));
    EXPECT_TRUE(std::isinf(small_float_values(e5m2)[0xfc]));
}

}  // namespace
}  // namespace kpu::values
