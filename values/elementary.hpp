#pragma once

#include <cmath>

namespace kpu::values {

/// Functions of binary64 with the same bits on every machine, compiler and C library: SLEEF's deterministic
/// functions (error at most 1.0 unit in the last place of binary64, erfc 1.5), never the C library's.
namespace elementary {
double acos(double x);
double acosh(double x);
double asin(double x);
double asinh(double x);
double atan(double x);
double atan2(double y, double x);
double atanh(double x);
double cbrt(double x);
double cos(double x);
double cosh(double x);
double erf(double x);
double expm1(double x);
double lgamma(double x);
double log1p(double x);
double sin(double x);
double sinh(double x);
double tan(double x);
double exp(double x);
double log(double x);
double tanh(double x);
double erfc(double x);
double pow(double x, double y);
}  // namespace elementary

/// IEEE 754-2019: NaN propagates, -0 < +0.
double maximum(double a, double b);
double minimum(double a, double b);

}  // namespace kpu::values
