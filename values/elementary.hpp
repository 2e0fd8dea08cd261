#pragma once

#include <cmath>

#include "values/problem.hpp"

namespace kpu::values {

/// Functions of binary64 with the same bits on every machine, compiler and C library: SLEEF's deterministic
/// functions (error at most 1.0 unit in the last place of binary64, erfc 1.5), never the C library's.
namespace elementary {
double exp(double x);
double log(double x);
double tanh(double x);
double erfc(double x);
double pow(double x, double y);
inline double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
inline double silu(double x) { return x * sigmoid(x); }
/// x/2 (1 + erf(x / sqrt 2)), without the cancellation that the sum has below 0.
inline double gelu(double x) { return 0.5 * x * erfc(-x * 0.70710678118654752440); }
}  // namespace elementary

/// IEEE 754-2019: NaN propagates, -0 < +0.
double maximum(double a, double b);
double minimum(double a, double b);

/// f(a, b); b is unused by operations of one operand.
double pointwise_value(const PointwiseProblem& p, double a, double b);

}  // namespace kpu::values
