// Posits against their definition, read bit by bit, for every es; the element types against fractions in tests/conformance/nem.
#include "values/posit.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/values/helpers.hpp"
#include "values/convert.hpp"

namespace kpu::values {
namespace {

using testing::op;
using testing::Operand;
using testing::Random;

/// Returns the value of a pattern from the standard's text: useed^k * 2^e * (1 + f). Exact in binary64 up to
/// 17 bits.
double defined_value(PositFormat format, uint32_t pattern) {
    std::string text;
    for (int bit = format.bits - 1; bit >= 0; --bit) text += (pattern >> bit & 1) != 0 ? '1' : '0';
    if (text.find('1') == std::string::npos) return 0;
    if (text.find('1') == 0 && text.find('1', 1) == std::string::npos) return NAN;
    if (text[0] == '1') {
        const uint32_t all = uint32_t{1} << format.bits;
        return -defined_value(format, all - pattern);
    }
    std::string rest = text.substr(1);
    const size_t run = std::min(rest.find(rest[0] == '1' ? '0' : '1'), rest.size());
    const int k = rest[0] == '1' ? static_cast<int>(run) - 1 : -static_cast<int>(run);
    rest = run + 1 < rest.size() ? rest.substr(run + 1) : "";
    rest.append(static_cast<size_t>(format.es), '0');
    int exponent = 0;
    for (int i = 0; i < format.es; ++i) exponent = 2 * exponent + (rest[static_cast<size_t>(i)] - '0');
    double fraction = 1, weight = 0.5;
    for (size_t i = static_cast<size_t>(format.es); i < rest.size(); ++i, weight /= 2)
        fraction += rest[i] == '1' ? weight : 0;
    const double useed = std::ldexp(1.0, 1 << format.es);
    return std::pow(useed, k) * std::ldexp(fraction, exponent);
}

/// Returns the pattern of a positive number: that below or above, as the pattern with one bit more that lies
/// between them says.
uint32_t nearest(PositFormat format, double value) {
    const uint32_t largest = (uint32_t{1} << (format.bits - 1)) - 1;
    if (value >= defined_value(format, largest)) return largest;
    if (value <= defined_value(format, 1)) return 1;
    uint32_t low = 1;
    for (uint32_t step = largest / 2 + 1; step > 0; step /= 2) {
        if (low + step <= largest && defined_value(format, low + step) <= value) low += step;
    }
    const double tie = defined_value({format.bits + 1, format.es}, 2 * low + 1);
    return value > tie || (value == tie && low % 2 == 1) ? low + 1 : low;
}

class Formats : public ::testing::TestWithParam<PositFormat> {
  protected:
    uint32_t patterns() const { return uint32_t{1} << GetParam().bits; }
};

// Every pattern has the value that the definition gives, and that value its pattern: nothing is rounded.
TEST_P(Formats, DecodesAndEncodesAllPatterns) {
    for (uint32_t pattern = 0; pattern < patterns(); ++pattern) {
        const float value = f32_of_posit(GetParam(), pattern);
        const double expected = defined_value(GetParam(), pattern);
        if (std::isnan(expected)) {
            ASSERT_EQ(bits_of(value), f32_nan);
        } else {
            ASSERT_EQ(bits_of(static_cast<double>(value)), bits_of(expected)) << pattern;
        }
        ASSERT_EQ(posit_of(GetParam(), expected), pattern);
    }
}

// Between each two neighbours: the tie goes to the even pattern, what lies next to it to its own side; alike below
// zero.
TEST_P(Formats, RoundsToTheNearestPattern) {
    const uint32_t largest = patterns() / 2 - 1;
    for (uint32_t low = 1; low < largest; ++low) {
        const double tie = defined_value({GetParam().bits + 1, GetParam().es}, 2 * low + 1);
        const uint32_t even = low % 2 == 0 ? low : low + 1;
        ASSERT_EQ(posit_of(GetParam(), tie), even) << low;
        ASSERT_EQ(posit_of(GetParam(), std::nextafter(tie, 0)), low);
        ASSERT_EQ(posit_of(GetParam(), std::nextafter(tie, HUGE_VAL)), low + 1);
        ASSERT_EQ(posit_of(GetParam(), -tie), patterns() - even);
    }
}

// No number becomes zero or NaR; what is no number does.
TEST_P(Formats, Ends) {
    const uint32_t nar = patterns() / 2;
    for (const double tiny : {5e-324, 1e-300, f32_of_posit(GetParam(), 1) / 4.0})
        EXPECT_EQ(posit_of(GetParam(), tiny), 1u);
    EXPECT_EQ(posit_of(GetParam(), -5e-324), patterns() - 1);
    for (const double huge : {1.7e308, f32_of_posit(GetParam(), nar - 1) * 4.0})
        EXPECT_EQ(posit_of(GetParam(), huge), nar - 1);
    EXPECT_EQ(posit_of(GetParam(), -1.7e308), nar + 1);
    EXPECT_EQ(posit_of(GetParam(), 0.0), 0u);
    EXPECT_EQ(posit_of(GetParam(), -0.0), 0u);
    for (const double none : {HUGE_VAL, -HUGE_VAL, static_cast<double>(NAN)})
        EXPECT_EQ(posit_of(GetParam(), none), nar);
}

// Random numbers of all sizes, against the search for the neighbours.
TEST_P(Formats, RandomNumbers) {
    Random random(5);
    for (int i = 0; i < 100000; ++i) {
        const double value = std::ldexp(1 + static_cast<double>(random()) * 0x1p-64,
                                        static_cast<int>(testing::pick(random, -130, 130)));
        ASSERT_EQ(posit_of(GetParam(), value), nearest(GetParam(), value)) << value;
        ASSERT_EQ(posit_of(GetParam(), -value), patterns() - nearest(GetParam(), value)) << -value;
    }
}

INSTANTIATE_TEST_SUITE_P(AllEs, Formats,
                         ::testing::Values(PositFormat{8, 0}, PositFormat{8, 1}, PositFormat{8, 2},
                                           PositFormat{8, 3}, PositFormat{16, 0}, PositFormat{16, 1},
                                           PositFormat{16, 2}, PositFormat{16, 3}),
                         [](const auto& format) {
                             return "posit" + std::to_string(format.param.bits) + "_es" +
                                    std::to_string(format.param.es);
                         });

// Sums are f32 with one fused multiply-add a step, and rounded once: two of the largest posit8 (64) make 4096
// twice, which f32 holds and posit8 does not; with its opposite they are zero, not what a rounded sum would leave.
TEST(Posit, ProductsAccumulateInF32) {
    Operand a(ElemType::posit8, {1, 3}), b(ElemType::posit8, {3, 1}), y(ElemType::posit8, {1, 1});
    const auto posit8 = [](double value) {
        return static_cast<uint8_t>(posit_of(posit_format(ElemType::posit8), value));
    };
    a.set<uint8_t>({posit8(64), posit8(64), posit8(1.5)});
    b.set<uint8_t>({posit8(64), posit8(-64), posit8(0.5)});
    for (const auto& backend : {make_reference_backend().release(), make_fast_backend().release()}) {
        const std::unique_ptr<ComputeBackend> owner(backend);
        owner->execute(op("gemm"), {a.tensor(), b.tensor()}, {y.tensor()}, {});
        EXPECT_EQ(y.get<uint8_t>()[0], posit8(0.75));
        Operand sums(ElemType::f32, {1, 1});
        b.set<uint8_t>({posit8(64), posit8(64), posit8(0.5)});
        owner->execute(op("gemm.acc"), {a.tensor(), b.tensor()}, {sums.tensor()}, {});
        EXPECT_EQ(sums.get<float>()[0], 8192.75F);
        b.set<uint8_t>({posit8(64), posit8(-64), posit8(0.5)});
    }
}

}  // namespace
}  // namespace kpu::values
