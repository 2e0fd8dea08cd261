#include "values/elementary.hpp"

#include <sleef.h>

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

}  // namespace kpu::values
