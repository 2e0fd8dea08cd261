#pragma once
// Computing nodes whose operands are constants: shapes, indices, masks, and small numbers around them.
#include <string_view>

#include "compiler/onnx/call.hpp"

namespace kpu::onnx {

/// False: it did not, the node goes into the graph.
using Folder = bool (*)(Call& call);

/// Null: not an operator of the family.
Folder find_elementwise_folder(std::string_view type);
Folder find_moving_folder(std::string_view type);

/// Returns the elements of x at flat positions.
Known picked(const Known& x, Sizes shape, const std::vector<int64_t>& positions);
/// Returns the flat position in an operand of `from` for each element of `to`, to which it broadcasts.
std::vector<int64_t> broadcast_positions(const Sizes& from, const Sizes& to);
/// Distances between neighbours along each dimension.
Sizes strides_of(const Sizes& shape);

}  // namespace kpu::onnx
