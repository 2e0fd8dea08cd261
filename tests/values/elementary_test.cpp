// The functions behind elementwise opcodes against MPFR: every f16 and bf16 input, random f32 ones.
#include "values/elementary.hpp"

#include <gtest/gtest.h>
#include <mpfr.h>

#include "tests/values/helpers.hpp"
#include "values/elementwise.hpp"

namespace kpu::values {
namespace {

constexpr mpfr_prec_t precision = 128;

/// A number of 128 bits.
struct Wide {
    mpfr_t value;
    Wide() { mpfr_init2(value, precision); }
    ~Wide() { mpfr_clear(value); }
    Wide(const Wide&) = delete;
    Wide& operator=(const Wide&) = delete;
};

/// Rounded to odd: a later rounding to f16, bf16 or f32 is then the only one.
double odd_double(const mpfr_t value) {
    double nearest = mpfr_get_d(value, MPFR_RNDZ);
    if (std::isfinite(nearest) && mpfr_cmp_d(value, nearest) != 0) {
        uint64_t bits = bits_of(nearest) | 1;
        std::memcpy(&nearest, &bits, sizeof bits);
    }
    return nearest;
}

/// f(x) exactly enough: the formulas of the opcode table in 128 bits. In binary64 silu and gelu of a tiny x
/// are x / 2, which may be a tie of a subnormal result where the exact value is just beside it.
double exact(std::string_view op, double x) {
    if ((op == "silu" || op == "gelu") && std::fabs(x) < 0x1p-60) return x / 2;
    static Wide v, w;
    mpfr_set_d(v.value, x, MPFR_RNDN);
    if (op == "exp") {
        mpfr_exp(v.value, v.value, MPFR_RNDN);
    } else if (op == "log") {
        mpfr_log(v.value, v.value, MPFR_RNDN);
    } else if (op == "tanh") {
        mpfr_tanh(v.value, v.value, MPFR_RNDN);
    } else if (op == "sqrt") {
        mpfr_sqrt(v.value, v.value, MPFR_RNDN);
    } else if (op == "gelu") {  // x/2 erfc(-x / sqrt 2)
        mpfr_sqrt_ui(w.value, 2, MPFR_RNDN);
        mpfr_div(w.value, v.value, w.value, MPFR_RNDN);
        mpfr_neg(w.value, w.value, MPFR_RNDN);
        mpfr_erfc(w.value, w.value, MPFR_RNDN);
        mpfr_mul(v.value, v.value, w.value, MPFR_RNDN);
        mpfr_div_2ui(v.value, v.value, 1, MPFR_RNDN);
    } else {  // sigmoid, silu
        mpfr_neg(w.value, v.value, MPFR_RNDN);
        mpfr_exp(w.value, w.value, MPFR_RNDN);
        mpfr_add_ui(w.value, w.value, 1, MPFR_RNDN);
        mpfr_ui_div(w.value, 1, w.value, MPFR_RNDN);
        if (op == "silu") {
            mpfr_mul(v.value, v.value, w.value, MPFR_RNDN);
        } else {
            mpfr_set(v.value, w.value, MPFR_RNDN);
        }
    }
    return odd_double(v.value);
}

uint32_t rounded(ElemType type, double value) {
    alignas(4) uint8_t bytes[4] = {};
    store_float(type, bytes, 0, value);
    return load<uint32_t>(bytes, 0);
}

constexpr std::string_view functions[] = {"exp", "log", "tanh", "sqrt", "sigmoid", "silu", "gelu"};

/// f(x) as the engines compute it.
double computed(std::string_view op, double x) {
    for (const Elementwise& row : elementwise_table()) {
        if (row.opcode == op) return row.function({x, 0, 0, nullptr, false});
    }
    throw InternalError("no such function");
}

class Elementary : public ::testing::TestWithParam<ElemType> {};

// Of all 65,536 inputs every result is the correctly rounded one.
TEST_P(Elementary, EveryInputIsCorrectlyRounded) {
    const ElemType type = GetParam();
    for (const std::string_view op : functions) {
        int wrong = 0;
        for (uint32_t pattern = 0; pattern < 65536; ++pattern) {
            const auto bits = static_cast<uint16_t>(pattern);
            const double x = type == ElemType::f16 ? f32_of_f16(bits) : f32_of_bf16(bits);
            wrong += rounded(type, computed(op, x)) != rounded(type, exact(op, x));
        }
        EXPECT_EQ(wrong, 0) << op;
    }
}

INSTANTIATE_TEST_SUITE_P(Types, Elementary, ::testing::Values(ElemType::f16, ElemType::bf16),
                         [](const auto& test) { return std::string(name_of(test.param)); });

// Random f32 inputs of every magnitude: correctly rounded as well.
TEST(ElementaryF32, RandomInputsAreCorrectlyRounded) {
    testing::Random random(5);
    for (const std::string_view op : functions) {
        for (int i = 0; i < 20000; ++i) {
            // half of them in the range where the functions bend
            const double near = (static_cast<double>(random()) * 0x1p-64 - 0.5) * 40;
            const double x =
                i % 2 == 0 ? double(float_of(static_cast<uint32_t>(random()))) : double(float(near));
            ASSERT_EQ(rounded(ElemType::f32, computed(op, x)), rounded(ElemType::f32, exact(op, x)))
                << op << " of " << x;
        }
    }
}

// pow on f16: random pairs, and the special cases of IEEE 754.
TEST(ElementaryPow, PairsAreCorrectlyRounded) {
    testing::Random random(6);
    Wide a, b;
    const auto check = [&](double x, double y) {
        mpfr_set_d(a.value, x, MPFR_RNDN);
        mpfr_set_d(b.value, y, MPFR_RNDN);
        mpfr_pow(a.value, a.value, b.value, MPFR_RNDN);
        EXPECT_EQ(rounded(ElemType::f16, elementary::pow(x, y)), rounded(ElemType::f16, odd_double(a.value)))
            << x << " to the power of " << y;
    };
    for (int i = 0; i < 50000; ++i) {
        check(f32_of_f16(static_cast<uint16_t>(random())), f32_of_f16(static_cast<uint16_t>(random())));
    }
    const double values[] = {0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, HUGE_VAL, -HUGE_VAL, NAN};
    for (const double x : values) {
        for (const double y : values) check(x, y);
    }
}

}  // namespace
}  // namespace kpu::values
