// The functions of elementwise opcodes, one row each; the opcodes' own rows stand in isa/opcodes/.
#include "values/elementwise.hpp"

#include <cmath>
#include <limits>

#include "values/elementary.hpp"

namespace kpu::values {
namespace {

using fast::Kernels;

/// A vector form that is one kernel of one or two operands.
template <void (*Kernels::*kernel)(double*, int64_t)>
void apply(const Kernels& k, const Elements& e) {
    (k.*kernel)(e.a, e.count);
}
template <void (*Kernels::*kernel)(double*, const double*, int64_t)>
void apply(const Kernels& k, const Elements& e) {
    (k.*kernel)(e.a, e.b, e.count);
}

constexpr double zeros[chunk] = {};

double sigmoid(double x) { return 1.0 / (1.0 + elementary::exp(-x)); }

/// Computes softplus without the overflow of exp(x), and without cancellation below 0.
double softplus(double x) { return maximum(x, 0.0) + elementary::log1p(elementary::exp(-std::fabs(x))); }

/// x / 2 (1 + tanh u), without the cancellation that the sum has below 0
double gelu_tanh(double x) {
    const double u = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
    return x / (1.0 + elementary::exp(-2.0 * u));
}

/// Modulo 0 NaN, which is 0 of plain integers.
double floor_mod(double a, double b) {
    const double rest = std::fmod(a, b);
    if (rest == 0) return std::copysign(0.0, b);
    return (rest < 0) == (b < 0) ? rest : rest + b;
}

double sign(double x) {
    if (std::isnan(x)) return x;
    return static_cast<double>(x > 0) - static_cast<double>(x < 0);
}

double condition(bool holds) { return holds ? 1.0 : 0.0; }

void add_functions(std::vector<Elementwise>& t) {
    using E = const Element&;
    t.push_back({"erf", [](E e) { return elementary::erf(e.a); }});
    t.push_back({"sin", [](E e) { return elementary::sin(e.a); }});
    t.push_back({"cos", [](E e) { return elementary::cos(e.a); }});
    t.push_back({"tan", [](E e) { return elementary::tan(e.a); }});
    t.push_back({"asin", [](E e) { return elementary::asin(e.a); }});
    t.push_back({"acos", [](E e) { return elementary::acos(e.a); }});
    t.push_back({"atan", [](E e) { return elementary::atan(e.a); }});
    t.push_back({"sinh", [](E e) { return elementary::sinh(e.a); }, nullptr, true});
    t.push_back({"cosh", [](E e) { return elementary::cosh(e.a); }, nullptr, true});
    t.push_back({"asinh", [](E e) { return elementary::asinh(e.a); }});
    t.push_back({"acosh", [](E e) { return elementary::acosh(e.a); }});
    t.push_back({"atanh", [](E e) { return elementary::atanh(e.a); }});
    t.push_back({"reciprocal", [](E e) { return 1.0 / e.a; }});
    t.push_back({"rsqrt", [](E e) { return 1.0 / std::sqrt(e.a); }});
    t.push_back({"square", [](E e) { return e.a * e.a; }});
    t.push_back({"floor", [](E e) { return std::floor(e.a); }});
    t.push_back({"ceil", [](E e) { return std::ceil(e.a); }});
    t.push_back({"round", [](E e) { return std::nearbyint(e.a); }});
    t.push_back({"sign", [](E e) { return sign(e.a); }});
    t.push_back({"fmod", [](E e) { return std::fmod(e.a, e.b); }});
    t.push_back({"floor_mod", [](E e) { return floor_mod(e.a, e.b); }});
}

void add_activations(std::vector<Elementwise>& t) {
    using E = const Element&;
    t.push_back({"elu", [](E e) { return e.a < 0 ? e.attributes[0] * elementary::expm1(e.a) : e.a; }});
    t.push_back({"celu", [](E e) {
                     const double alpha = e.attributes[0];
                     return e.a < 0 ? alpha * elementary::expm1(e.a / alpha) : e.a;
                 }});
    t.push_back({"selu", [](E e) {
                     const double bent = e.a < 0 ? e.attributes[0] * elementary::expm1(e.a) : e.a;
                     return e.attributes[1] * bent;
                 }});
    t.push_back({"softplus", [](E e) { return softplus(e.a); }});
    t.push_back({"mish", [](E e) { return e.a * elementary::tanh(softplus(e.a)); }});
    t.push_back({"hard_sigmoid",
                 [](E e) { return minimum(maximum(e.attributes[0] * e.a + e.attributes[1], 0.0), 1.0); }});
    t.push_back({"hard_swish", [](E e) { return e.a * minimum(maximum(e.a / 6.0 + 0.5, 0.0), 1.0); }});
    t.push_back({"gelu_tanh", [](E e) { return gelu_tanh(e.a); }});
    t.push_back({"thresholded_relu", [](E e) { return e.a > e.attributes[0] ? e.a : 0.0; }});
    t.push_back({"prelu", [](E e) { return e.a < 0 ? e.b * e.a : e.a; }});
}

void add_conditions(std::vector<Elementwise>& t) {
    using E = const Element&;
    t.push_back({"equal", [](E e) { return condition(e.a == e.b); }});
    t.push_back({"not_equal", [](E e) { return condition(e.a != e.b); }});
    t.push_back({"less", [](E e) { return condition(e.a < e.b); }});
    t.push_back({"less_equal", [](E e) { return condition(e.a <= e.b); }});
    t.push_back({"greater", [](E e) { return condition(e.a > e.b); }});
    t.push_back({"greater_equal", [](E e) { return condition(e.a >= e.b); }});
    t.push_back({"is_nan", [](E e) { return condition(std::isnan(e.a)); }});
    t.push_back(
        {"is_inf", [](E e) { return condition(std::isinf(e.a) && e.attributes[e.a > 0 ? 0 : 1] != 0); }});
    t.push_back({"and", [](E e) { return condition(e.a != 0 && e.b != 0); }});
    t.push_back({"or", [](E e) { return condition(e.a != 0 || e.b != 0); }});
    t.push_back({"xor", [](E e) { return condition((e.a != 0) != (e.b != 0)); }});
    t.push_back({"not", [](E e) { return condition(e.a == 0); }});
    t.push_back({"where", [](E e) { return e.a != 0 ? e.b : e.c; }});
}

int64_t bits_of(double x) { return static_cast<int64_t>(x); }

/// Returns the number of bits by which an operand of a shift shifts, as far as they count.
int64_t distance(const Element& e) {
    const int64_t bits = e.range.high - e.range.low < (1 << 8)    ? 8
                         : e.range.high - e.range.low < (1 << 16) ? 16
                                                                  : 32;
    return e.b >= 0 && e.b < static_cast<double>(bits) ? bits_of(e.b) : bits;
}

/// Returns the bits that the type of Y has.
double shift_left(const Element& e) {
    const uint64_t span = static_cast<uint64_t>(e.range.high - e.range.low) + 1;
    const uint64_t low = (static_cast<uint64_t>(bits_of(e.a)) << distance(e)) % span;
    const auto value = static_cast<int64_t>(low);
    return static_cast<double>(value > e.range.high ? value - static_cast<int64_t>(span) : value);
}

void add_bits(std::vector<Elementwise>& t) {
    using E = const Element&;
    t.push_back({"bit_and", [](E e) { return static_cast<double>(bits_of(e.a) & bits_of(e.b)); }});
    t.push_back({"bit_or", [](E e) { return static_cast<double>(bits_of(e.a) | bits_of(e.b)); }});
    t.push_back({"bit_xor", [](E e) { return static_cast<double>(bits_of(e.a) ^ bits_of(e.b)); }});
    t.push_back({"shift_left", shift_left});
    t.push_back({"shift_right", [](E e) { return static_cast<double>(bits_of(e.a) >> distance(e)); }});
}

/// Returns the rows with a vector form.
std::vector<Elementwise> vector_rows() {
    return {
        {"relu", [](const Element& e) { return maximum(e.a, 0.0); },
         [](const Kernels& k, const Elements& e) { k.maximum(e.a, zeros, e.count); }},
        {"sigmoid", [](const Element& e) { return sigmoid(e.a); }, apply<&Kernels::sigmoid>},
        {"tanh", [](const Element& e) { return elementary::tanh(e.a); }, apply<&Kernels::tanh>},
        {"exp", [](const Element& e) { return elementary::exp(e.a); }, apply<&Kernels::exp>, true},
        {"log", [](const Element& e) { return elementary::log(e.a); }, apply<&Kernels::log>},
        {"sqrt", [](const Element& e) { return std::sqrt(e.a); }, apply<&Kernels::square_root>},
        {"abs", [](const Element& e) { return std::fabs(e.a); }, apply<&Kernels::absolute>},
        {"neg", [](const Element& e) { return -e.a; }, apply<&Kernels::negate>},
        // x/2 (1 + erf(x / sqrt 2)), without the cancellation that the sum has below 0
        {"gelu", [](const Element& e) { return 0.5 * e.a * elementary::erfc(-e.a * 0.70710678118654752440); },
         apply<&Kernels::gelu>},
        {"silu", [](const Element& e) { return e.a * sigmoid(e.a); }, apply<&Kernels::silu>},
        {"leaky_relu", [](const Element& e) { return e.a < 0 ? e.attributes[0] * e.a : e.a; },
         [](const Kernels& k, const Elements& e) { k.leaky(e.a, e.attributes[0], e.count); }},
        {"clamp", [](const Element& e) { return minimum(maximum(e.a, e.attributes[0]), e.attributes[1]); },
         [](const Kernels& k, const Elements& e) {
             k.maximum(e.a, e.lines[0], e.count);
             k.minimum(e.a, e.lines[1], e.count);
         }},
        {"add", [](const Element& e) { return e.a + e.b; }, apply<&Kernels::add>},
        {"sub", [](const Element& e) { return e.a - e.b; }, apply<&Kernels::subtract>},
        {"mul", [](const Element& e) { return e.a * e.b; }, apply<&Kernels::multiply_each>},
        {"div", [](const Element& e) { return e.integers ? std::trunc(e.a / e.b) : e.a / e.b; },
         [](const Kernels& k, const Elements& e) {
             k.divide_each(e.a, e.b, e.count);
             if (e.integers) k.truncate(e.a, e.count);
         }},
        {"min", [](const Element& e) { return minimum(e.a, e.b); }, apply<&Kernels::minimum>},
        {"max", [](const Element& e) { return maximum(e.a, e.b); }, apply<&Kernels::maximum>},
        {"pow", [](const Element& e) { return elementary::pow(e.a, e.b); }, apply<&Kernels::pow>, true},
    };
}

}  // namespace

double bounded(const Elementwise& row, const Element& e, double result) {
    if (!row.grows || !std::isinf(result) || !std::isfinite(e.a) || !std::isfinite(e.b)) return result;
    const bool pole = e.a == 0 && row.opcode == "pow";  // 0 to a negative power
    return pole ? result : std::copysign(std::numeric_limits<double>::max(), result);
}

const std::vector<Elementwise>& elementwise_table() {
    static const std::vector<Elementwise> rows = [] {
        std::vector<Elementwise> table = vector_rows();
        add_functions(table);
        add_activations(table);
        add_conditions(table);
        add_bits(table);
        return table;
    }();
    return rows;
}

}  // namespace kpu::values
