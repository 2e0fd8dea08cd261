// The functions of reductions and searches, one row each; the opcodes' own rows stand in isa/opcodes/.
#include "values/reductions.hpp"

#include <cmath>

#include "values/elementary.hpp"

namespace kpu::values {
namespace {

using fast::Kernels;

double add(double sum, double v) { return sum + v; }

}  // namespace

const std::vector<Reduction>& reduction_table() {
    static const std::vector<Reduction> rows = {
        {"reduce_sum", 0, add, nullptr, &Kernels::add},
        {"reduce_max", -HUGE_VAL, maximum, nullptr, &Kernels::maximum},
        {"reduce_min", HUGE_VAL, minimum, nullptr, &Kernels::minimum},
        {"reduce_mean", 0, add, [](double sum, double count) { return sum / count; }, &Kernels::add},
        {"reduce_prod", 1, [](double product, double v) { return product * v; }, nullptr,
         &Kernels::multiply_each},
        {"reduce_l2", 0, [](double sum, double v) { return sum + v * v; },
         [](double sum, double) { return std::sqrt(sum); }},
    };
    return rows;
}

const std::vector<Search>& search_table() {
    static const std::vector<Search> rows = {
        {"argmax", [](double v, double held) { return v > held; }},
        {"argmin", [](double v, double held) { return v < held; }},
    };
    return rows;
}

}  // namespace kpu::values
