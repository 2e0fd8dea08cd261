#pragma once
// What operators that take elements by index have in common.
#include <vector>

#include "compiler/onnx/call.hpp"

namespace kpu::onnx {

/// Rows of x [..., rows, ...] along an axis, by indices of any rank.
ValueId gathered(Call& call, ValueId x, ValueId indices, int64_t axis);
/// x as a matrix of so many rows.
ValueId flat(Call& call, ValueId x, int64_t rows);
ValueId positions_constant(Call& call, std::vector<int64_t> positions, Sizes shape);
/// Numbers of the rows that tuples of `depth` positions name, in the dimensions `dims`.
std::vector<int64_t> constant_rows(const Known& indices, const Sizes& dims, int64_t depth);

}  // namespace kpu::onnx
