// The functions of reductions and searches, one row each; the opcodes' own rows stand in isa/opcodes/.
#include "values/reductions.hpp"

#include <cmath>

#include "values/elementary.hpp"

namespace kpu::values {
namespace {

using fast::Kernels;

}  // namespace

const std::vector<Reduction>& reduction_table() {
    static const std::vector<Reduction> rows = {
        {"reduce_sum", 0, [](double sum, double v) { return sum + v; }, &Kernels::add},
        {"reduce_max", -HUGE_VAL, maximum, &Kernels::maximum},
        {"reduce_min", HUGE_VAL, minimum, &Kernels::minimum},
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
