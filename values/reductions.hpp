#pragma once

#include <string_view>
#include <vector>

#include "values/fast/kernels.hpp"

namespace kpu::values {

/// What a reduction computes: its step for each element, in row-major ascending order. The result is rounded
/// once, as that of an elementwise opcode.
struct Reduction {
    std::string_view opcode;
    double start;
    double (*step)(double so_far, double element);
    /// The same bits for many results side by side; null: the step, element by element.
    void (*fast::Kernels::*vector)(double* so_far, const double* elements, int64_t count) = nullptr;
};
const std::vector<Reduction>& reduction_table();

/// What a search finds: the first element that no other one is better than; the first NaN before all.
struct Search {
    std::string_view opcode;
    bool (*better)(double element, double held);
};
const std::vector<Search>& search_table();

}  // namespace kpu::values
