#pragma once
// Helpers that operators which take elements by index share.
#include <vector>

#include "compiler/onnx/call.hpp"

namespace kpu::onnx {

/// Returns the rows of x [..., rows, ...] along an axis, by indices of any rank.
ValueId gathered(Call& call, ValueId x, ValueId indices, int64_t axis);
/// Returns x as a matrix of so many rows.
ValueId flat(Call& call, ValueId x, int64_t rows);
ValueId positions_constant(Call& call, std::vector<int64_t> positions, Sizes shape);
/// Returns the numbers of the rows that tuples of `depth` positions name, in the dimensions `dims`.
std::vector<int64_t> constant_rows(const Known& indices, const Sizes& dims, int64_t depth);
/// data [rows, n, width], indices [rows, m, 1 or width, depth], updates [rows, m, width] of positions in `dims`. An
/// opcode combines an update with what is there.
ValueId scatter_kernel(Call& call, ValueId data, ValueId indices, const Sizes& dims, ValueId updates,
                       std::string_view opcode);

}  // namespace kpu::onnx
