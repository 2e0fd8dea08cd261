// The functions of elementwise opcodes, one row each; the opcodes' own rows stand in isa/opcodes/.
#include "values/elementwise.hpp"

#include <cmath>

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

}  // namespace

const std::vector<Elementwise>& elementwise_table() {
    static const std::vector<Elementwise> rows = {
        {"relu", [](const Element& e) { return maximum(e.a, 0.0); },
         [](const Kernels& k, const Elements& e) { k.maximum(e.a, zeros, e.count); }},
        {"sigmoid", [](const Element& e) { return sigmoid(e.a); }, apply<&Kernels::sigmoid>},
        {"tanh", [](const Element& e) { return elementary::tanh(e.a); }, apply<&Kernels::tanh>},
        {"exp", [](const Element& e) { return elementary::exp(e.a); }, apply<&Kernels::exp>},
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
        {"pow", [](const Element& e) { return elementary::pow(e.a, e.b); }, apply<&Kernels::pow>},
    };
    return rows;
}

}  // namespace kpu::values
