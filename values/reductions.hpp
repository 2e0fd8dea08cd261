#pragma once

#include <cmath>
#include <string_view>
#include <vector>

#include "values/fast/kernels.hpp"

namespace kpu::values {

/// A reduction's arithmetic: its step for each element, in row-major ascending order. The result is rounded
/// once, as that of an elementwise opcode.
struct Reduction {
    std::string_view opcode;
    double start;
    double (*step)(double so_far, double element);
    /// Computes the result from the last step's value and the number of elements; null: the value is the
    /// result.
    double (*finish)(double so_far, double count) = nullptr;
    /// The same bits for many results side by side; null: the step, element by element.
    void (*fast::Kernels::*vector)(double* so_far, const double* elements, int64_t count) = nullptr;
};
const std::vector<Reduction>& reduction_table();

/// A search's result: the first element that no other one is better than; the first NaN before all. Or the
/// last ones.
struct Search {
    std::string_view opcode;
    bool (*better)(double element, double held);
    /// True if an element that comes later takes the place of the one held.
    bool replaces(double element, double held, bool last) const {
        if (std::isnan(held)) return last && std::isnan(element);
        return std::isnan(element) || better(element, held) || (last && element == held);
    }
};
const std::vector<Search>& search_table();

}  // namespace kpu::values
