// The functions behind elementwise opcodes against MPFR: every f16 and bf16 input, random f32 ones.
#include "values/elementary.hpp"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <map>

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

/// Returns the double rounded to odd: a later rounding to f16, bf16 or f32 is then the only one.
double odd_double(const mpfr_t value) {
    double nearest = mpfr_get_d(value, MPFR_RNDZ);
    if (std::isfinite(nearest) && mpfr_cmp_d(value, nearest) != 0) {
        uint64_t bits = bits_of(nearest) | 1;
        std::memcpy(&nearest, &bits, sizeof bits);
    }
    return nearest;
}

using Function = int (*)(mpfr_t, const mpfr_t, mpfr_rnd_t);

/// Opcodes that are one function of MPFR.
const std::map<std::string_view, Function>& plain_functions() {
    static const std::map<std::string_view, Function> table = {
        {"exp", mpfr_exp},       {"log", mpfr_log},     {"tanh", mpfr_tanh},   {"sqrt", mpfr_sqrt},
        {"erf", mpfr_erf},       {"sin", mpfr_sin},     {"cos", mpfr_cos},     {"tan", mpfr_tan},
        {"asin", mpfr_asin},     {"acos", mpfr_acos},   {"atan", mpfr_atan},   {"sinh", mpfr_sinh},
        {"cosh", mpfr_cosh},     {"asinh", mpfr_asinh}, {"acosh", mpfr_acosh}, {"atanh", mpfr_atanh},
        {"rsqrt", mpfr_rec_sqrt}};
    return table;
}

/// x / 2 erfc(-x / sqrt 2)
void gelu(mpfr_t to, const mpfr_t x) {
    static Wide w;
    mpfr_sqrt_ui(w.value, 2, MPFR_RNDN);
    mpfr_div(w.value, x, w.value, MPFR_RNDN);
    mpfr_neg(w.value, w.value, MPFR_RNDN);
    mpfr_erfc(w.value, w.value, MPFR_RNDN);
    mpfr_mul(to, x, w.value, MPFR_RNDN);
    mpfr_div_2ui(to, to, 1, MPFR_RNDN);
}

/// 1 / (1 + exp(-x))
void sigmoid(mpfr_t to, const mpfr_t x) {
    static Wide w;
    mpfr_neg(w.value, x, MPFR_RNDN);
    mpfr_exp(w.value, w.value, MPFR_RNDN);
    mpfr_add_ui(w.value, w.value, 1, MPFR_RNDN);
    mpfr_ui_div(to, 1, w.value, MPFR_RNDN);
}

/// x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)); the constant is the nearest binary64
void gelu_tanh(mpfr_t to, const mpfr_t x) {
    static Wide u, w;
    mpfr_sqr(u.value, x, MPFR_RNDN);
    mpfr_mul_d(u.value, u.value, 0.044715, MPFR_RNDN);
    mpfr_add_ui(u.value, u.value, 1, MPFR_RNDN);
    mpfr_mul(u.value, u.value, x, MPFR_RNDN);
    mpfr_const_pi(w.value, MPFR_RNDN);
    mpfr_ui_div(w.value, 8, w.value, MPFR_RNDN);
    mpfr_sqrt(w.value, w.value, MPFR_RNDN);
    mpfr_mul(u.value, u.value, w.value, MPFR_RNDN);
    sigmoid(u.value, u.value);
    mpfr_mul(to, x, u.value, MPFR_RNDN);
}

/// ln(1 + exp(x))
void softplus(mpfr_t to, const mpfr_t x) {
    static Wide w;
    if (mpfr_cmp_ui(x, 200) > 0) return static_cast<void>(mpfr_set(to, x, MPFR_RNDN));  // exp(x) may overflow
    mpfr_exp(w.value, x, MPFR_RNDN);
    mpfr_log1p(to, w.value, MPFR_RNDN);
}

constexpr double selu_alpha = 1.67326319217681884765625, selu_gamma = 1.05070102214813232421875;

/// The activations; all bend at 0 or in the exponential.
void activation(std::string_view op, mpfr_t v) {
    static Wide w;
    if (op == "gelu") {
        gelu(v, v);
    } else if (op == "gelu_tanh") {
        gelu_tanh(w.value, v);
        mpfr_set(v, w.value, MPFR_RNDN);
    } else if (op == "softplus") {
        softplus(v, v);
    } else if (op == "mish") {
        softplus(w.value, v);
        mpfr_tanh(w.value, w.value, MPFR_RNDN);
        mpfr_mul(v, v, w.value, MPFR_RNDN);
    } else if (op == "elu" || op == "selu") {
        if (mpfr_sgn(v) < 0) mpfr_expm1(v, v, MPFR_RNDN);
        if (op == "elu") return;
        if (mpfr_sgn(v) < 0) mpfr_mul_d(v, v, selu_alpha, MPFR_RNDN);
        mpfr_mul_d(v, v, selu_gamma, MPFR_RNDN);
    } else {  // sigmoid, silu
        sigmoid(w.value, v);
        if (op == "silu") {
            mpfr_mul(v, v, w.value, MPFR_RNDN);
        } else {
            mpfr_set(v, w.value, MPFR_RNDN);
        }
    }
}

/// f(x) exactly enough: the formulas of the opcode table in 128 bits. In binary64 silu and its like of a tiny x
/// are x / 2, which may be a tie of a subnormal result where the exact value is just beside it.
double exact(std::string_view op, double x) {
    const bool halves = op == "silu" || op == "gelu" || op == "gelu_tanh";
    if (halves && std::fabs(x) < 0x1p-60) return x / 2;
    if (op == "rsqrt" && x == 0) return std::copysign(HUGE_VAL, x);  // IEEE 754; MPFR's is positive
    static Wide v;
    mpfr_set_d(v.value, x, MPFR_RNDN);
    const auto found = plain_functions().find(op);
    if (found != plain_functions().end()) {
        found->second(v.value, v.value, MPFR_RNDN);
    } else {
        activation(op, v.value);
    }
    return odd_double(v.value);
}

uint32_t rounded(ElemType type, double value) {
    alignas(4) uint8_t bytes[4] = {};
    store_float(type, bytes, 0, value);
    return load<uint32_t>(bytes, 0);
}

constexpr std::string_view functions[] = {
    "exp",  "log",  "tanh",      "sqrt",     "erf",   "sin",   "cos",   "tan",   "asin",
    "acos", "atan", "sinh",      "cosh",     "asinh", "acosh", "atanh", "rsqrt", "sigmoid",
    "silu", "gelu", "gelu_tanh", "softplus", "mish",  "elu",   "selu"};

/// Returns f(x) as the engines compute it.
double computed(std::string_view op, double x) {
    for (const Elementwise& row : elementwise_table()) {
        const double attributes[] = {op == "selu" ? selu_alpha : 1, selu_gamma};
        if (row.opcode == op) return row.function({x, 0, 0, attributes, false});
    }
    throw InternalError("no such function");
}

class Elementary : public ::testing::TestWithParam<ElemType> {};

// Every result over all 65,536 inputs is the correctly rounded one.
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
