#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "values/fast/fast.hpp"

namespace kpu::values {

/// An opcode's arithmetic: the definition, and a vectorised form with the same bits.
struct Arithmetic {
    std::string_view opcode;
    std::function<void(const Call&)> reference;
    /// Null, or false: leaves it to the reference.
    std::function<bool(const fast::Kernels&, fast::Scratch&, const Call&)> fast;
};

/// Returns every opcode that has arithmetic, elementwise ones, reductions and searches from their own tables.
const std::vector<Arithmetic>& arithmetic_table();

}  // namespace kpu::values
