// Element-wise operations with one operand.
#include <cmath>

#include "base/diagnostics.hpp"
#include "values/elementary.hpp"
#include "values/kernel/tiles/tile_float.hpp"

namespace kpu::values::kernel {
namespace {

using Function = double (*)(double);

double inverse_sqrt(double x) { return 1.0 / std::sqrt(x); }
double exp2(double x) { return elementary::pow(2.0, x); }
double log2(double x) { return elementary::log(x) / 0.69314718055994530942; }
double logistic(double x) { return 1.0 / (1.0 + elementary::exp(-x)); }

/// Newton's method from Winitzki's approximation; towards the ends on erfc, where 1 - |y| is exact.
double erf_inv(double y) {
    const double size = std::fabs(y);
    if (!(size < 1)) return size == 1 ? std::copysign(HUGE_VAL, y) : std::nan("");
    if (size == 0) return y;
    constexpr double a = 0.147, two_by_sqrt_pi = 1.12837916709551257390;
    const double log = elementary::log1p(-size * size), half = 2 / (3.14159265358979323846 * a) + log / 2;
    double x = std::sqrt(std::sqrt(half * half - log / a) - half);
    for (int i = 0; i < 4; ++i) {
        const double error = size < 0.5 ? elementary::erf(x) - size : (1 - size) - elementary::erfc(x);
        x -= error / (two_by_sqrt_pi * elementary::exp(-x * x));
    }
    return std::copysign(x, y);
}

/// Functions of binary64, rounded once.
Function function_of(const TileExpr& expr) {
    switch (expr.op) {
        case Op::inverse_sqrt:
            return inverse_sqrt;
        case Op::sin:
            return elementary::sin;
        case Op::cos:
            return elementary::cos;
        case Op::tan:
            return elementary::tan;
        case Op::asin:
            return elementary::asin;
        case Op::acos:
            return elementary::acos;
        case Op::atan:
            return elementary::atan;
        case Op::sinh:
            return elementary::sinh;
        case Op::cosh:
            return elementary::cosh;
        case Op::tanh:
            return elementary::tanh;
        case Op::asinh:
            return elementary::asinh;
        case Op::acosh:
            return elementary::acosh;
        case Op::atanh:
            return elementary::atanh;
        case Op::exp:
            return elementary::exp;
        case Op::exp2:
            return exp2;
        case Op::expm1:
            return elementary::expm1;
        case Op::log:
            return elementary::log;
        case Op::log2:
            return log2;
        case Op::log1p:
            return elementary::log1p;
        case Op::cbrt:
            return elementary::cbrt;
        case Op::logistic:
            return logistic;
        case Op::erf:
            return expr.dims.empty() ? elementary::erf : elementary::erfc;
        case Op::erf_inv:
            return erf_inv;
        case Op::log_gamma:
            return elementary::lgamma;
        default:
            return nullptr;
    }
}

float sign_of(float a) { return a > 0 ? 1.0F : a < 0 ? -1.0F : a; }

float to_even(float a) {
    const float whole = std::nearbyint(a);  // in the rounding mode of FloatEnvironment
    return std::copysign(whole, a);
}

float power_of(float a, int64_t n) {
    double power = 1, base = a;
    for (auto left = static_cast<uint64_t>(std::abs(n)); left > 0; left >>= 1, base *= base)
        if (left & 1) power *= base;
    return settled(n < 0 ? 1 / power : power);
}

/// Rounded to fewer bits of mantissa, half to even; beyond the exponent infinity, below it zero.
float in_format(float a, int exponent, int mantissa) {
    if (a != a) return float_of(f32_nan);
    const uint32_t bits = bits_of(a), sign = bits & 0x80000000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude >= 0x7f800000u) return a;
    const int drop = 23 - mantissa;
    if (drop > 0) {
        const uint32_t odd = magnitude >> drop & 1;
        magnitude += (uint32_t{1} << (drop - 1)) - 1 + odd;
        magnitude &= ~((uint32_t{1} << drop) - 1);
    }
    const int bias = (1 << (exponent - 1)) - 1, power = static_cast<int>(magnitude >> 23) - 127;
    if (power > bias) magnitude = 0x7f800000u;
    if (power < 1 - bias) magnitude = 0;
    return float_of(sign | magnitude);
}

template <typename F>
Tile each(const Tile& a, F f) {
    Tile result(Type::f32, a.shape);
    const float* in = a.as<float>();
    float* out = result.make_as<float>();
    for (size_t i = 0; i < a.count(); ++i) out[i] = f(in[i]);
    return result;
}
template <typename F>
Tile tests(const Tile& a, F f) {
    Tile result(Type::boolean, a.shape);
    const float* in = a.as<float>();
    uint8_t* out = result.make();
    for (size_t i = 0; i < a.count(); ++i) out[i] = f(in[i]);
    return result;
}

Tile floats(const TileExpr& expr, const Tile& a) {
    switch (expr.op) {
        case Op::negate:
            return each(a, [](float x) { return float_of(bits_of(x) ^ 0x80000000u); });
        case Op::abs:
            return each(a, [](float x) { return float_of(bits_of(x) & 0x7fffffffu); });
        case Op::sign:
            return each(a, [](float x) { return settled(sign_of(flushed(x))); });
        case Op::sqrt:
            return each(a, [](float x) { return settled(std::sqrt(flushed(x))); });
        case Op::reciprocal:
            return each(a, [](float x) { return settled(1.0F / flushed(x)); });
        case Op::floor:
            return each(a, [](float x) { return settled(std::floor(flushed(x))); });
        case Op::ceil:
            return each(a, [](float x) { return settled(std::ceil(flushed(x))); });
        case Op::trunc:
            return each(a, [](float x) { return settled(std::trunc(flushed(x))); });
        case Op::round:
            return each(a, [](float x) { return settled(std::round(flushed(x))); });
        case Op::round_even:
            return each(a, [](float x) { return settled(to_even(flushed(x))); });
        case Op::integer_pow:
            return each(a, [n = expr.dims[0]](float x) { return power_of(flushed(x), n); });
        case Op::reduce_precision:
            return each(a, [&](float x) {
                return in_format(flushed(x), static_cast<int>(expr.dims[0]), static_cast<int>(expr.dims[1]));
            });
        case Op::is_nan:
            return tests(a, [](float x) { return x != x; });
        case Op::is_inf:
            return tests(a, [](float x) { return std::fabs(x) == HUGE_VALF; });
        case Op::is_finite:
            return tests(a, [](float x) { return std::fabs(x) < HUGE_VALF; });
        default:
            break;
    }
    const Function function = function_of(expr);
    if (function == nullptr)
        throw InternalError("no tile operation " + std::string(kpu::kernel::operation(expr.op).name));
    return each(a, [function](float x) { return settled(function(flushed(x))); });
}

template <typename T>
T integer(const TileExpr& expr, T a) {
    using U = std::make_unsigned_t<T>;
    const auto bits = static_cast<U>(a);
    switch (expr.op) {
        case Op::negate:
            return static_cast<T>(0u - bits);
        case Op::abs:
            return static_cast<T>(a < T{0} ? static_cast<T>(0u - bits) : a);
        case Op::sign:
            return static_cast<T>(a < T{0} ? -1 : a > T{0} ? 1 : 0);
        case Op::bit_not:
            return static_cast<T>(~bits);
        case Op::popcount:
            return static_cast<T>(__builtin_popcount(bits));
        case Op::clz:
            return static_cast<T>(
                bits == 0 ? 8 * sizeof(T) : static_cast<size_t>(__builtin_clz(bits)) - (32 - 8 * sizeof(T)));
        case Op::integer_pow: {
            unsigned power = 1, base = bits;
            for (auto n = static_cast<uint64_t>(std::max<int64_t>(expr.dims[0], 0)); n > 0;
                 n >>= 1, base *= base)
                if (n & 1) power *= base;
            return static_cast<T>(power);
        }
        default:
            throw InternalError("no tile operation " + std::string(kpu::kernel::operation(expr.op).name));
    }
}

}  // namespace

Tile unary_tile(const TileExpr& expr, const Tile& a) {
    if (computes_wide(a.type)) {
        const Tile wide = unary_tile(expr, computable(a));
        return wide.type == Type::boolean ? wide : computed_in(wide, a.type);
    }
    if (a.type == Type::f32) return floats(expr, a);
    Tile result(a.type, a.shape);
    if (a.type == Type::boolean) {  // not
        for (size_t i = 0; i < a.count(); ++i) result.make()[i] = a.bytes()[i] ^ 1;
        return result;
    }
    with_storage(a.type, [&](auto zero) {
        using T = decltype(zero);
        if constexpr (std::is_integral_v<T>) {
            const T* in = a.as<T>();
            T* out = result.make_as<T>();
            for (size_t i = 0; i < a.count(); ++i) out[i] = integer(expr, in[i]);
        }
    });
    return result;
}

}  // namespace kpu::values::kernel
