#include "values/elementary.hpp"

#include <sleef.h>

namespace kpu::values {

namespace elementary {
double acos(double x) { return Sleef_cinz_acosd1_u10purec(x); }
double acosh(double x) { return Sleef_cinz_acoshd1_u10purec(x); }
double asin(double x) { return Sleef_cinz_asind1_u10purec(x); }
double asinh(double x) { return Sleef_cinz_asinhd1_u10purec(x); }
double atan(double x) { return Sleef_cinz_atand1_u10purec(x); }
double atan2(double y, double x) { return Sleef_cinz_atan2d1_u10purec(y, x); }
double cbrt(double x) { return Sleef_cinz_cbrtd1_u10purec(x); }
double lgamma(double x) { return Sleef_cinz_lgammad1_u10purec(x); }
double atanh(double x) { return Sleef_cinz_atanhd1_u10purec(x); }
double cos(double x) { return Sleef_cinz_cosd1_u10purec(x); }
double cosh(double x) { return Sleef_cinz_coshd1_u10purec(x); }
double erf(double x) { return Sleef_cinz_erfd1_u10purec(x); }
double expm1(double x) { return Sleef_cinz_expm1d1_u10purec(x); }
double log1p(double x) { return Sleef_cinz_log1pd1_u10purec(x); }
double sin(double x) { return Sleef_cinz_sind1_u10purec(x); }
double sinh(double x) { return Sleef_cinz_sinhd1_u10purec(x); }
double tan(double x) { return Sleef_cinz_tand1_u10purec(x); }
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

}  // namespace kpu::values
