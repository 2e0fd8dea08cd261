#pragma once

#include "values/problem.hpp"

namespace kpu::values {

/// A view copies elements as they are, so both engines use the same code. Throws UserError on an index of a
/// gather outside its dimension.
struct View {
    std::string_view opcode;
    void (*copy)(const Call&);
};
const std::vector<View>& view_table();

}  // namespace kpu::values
