#include "values/elementary.hpp"

#include <sleef.h>

#include "base/diagnostics.hpp"

namespace kpu::values {

namespace elementary {
double exp(double x) { return Sleef_cinz_expd1_u10purec(x); }
double log(double x) { return Sleef_cinz_logd1_u10purec(x); }
double tanh(double x) { return Sleef_cinz_tanhd1_u10purec(x); }
double erfc(double x) { return Sleef_cinz_erfcd1_u15purec(x); }
double pow(double x, double y) { return Sleef_cinz_powd1_u10purec(x, y); }
}  // namespace elementary

double maximum(double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return std::nan("");
    if (a == b) return std::signbit(a) ? b : a;
    return a > b ? a : b;
}

double minimum(double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return std::nan("");
    if (a == b) return std::signbit(a) ? a : b;
    return a < b ? a : b;
}

double pointwise_value(const PointwiseProblem& p, double a, double b) {
    switch (p.op) {
        case Op::relu:
            return maximum(a, 0.0);
        case Op::sigmoid:
            return elementary::sigmoid(a);
        case Op::tanh:
            return elementary::tanh(a);
        case Op::exp:
            return elementary::exp(a);
        case Op::log:
            return elementary::log(a);
        case Op::sqrt:
            return std::sqrt(a);
        case Op::abs:
            return std::fabs(a);
        case Op::neg:
            return -a;
        case Op::gelu:
            return elementary::gelu(a);
        case Op::silu:
            return elementary::silu(a);
        case Op::leaky_relu:
            return a < 0 ? p.alpha * a : a;
        case Op::clamp:
            return minimum(maximum(a, p.low), p.high);
        case Op::add:
            return a + b;
        case Op::sub:
            return a - b;
        case Op::mul:
            return a * b;
        case Op::div:
            return p.truncate ? std::trunc(a / b) : a / b;
        case Op::min:
            return minimum(a, b);
        case Op::max:
            return maximum(a, b);
        case Op::pow:
            return elementary::pow(a, b);
        default:
            throw InternalError("not an elementwise operation");
    }
}

}  // namespace kpu::values
