#pragma once
// Operands with scale and zero point, for the operators that have them: real = (q - zero_point) * scale.
#include <optional>

#include "compiler/onnx/call.hpp"

namespace kpu::onnx {

/// Returns scale and zero point in operands `scale` and `scale` + 1, which may be per channel or per block of
/// `shape`.
BoundQuant quant_of(Call& call, size_t scale, const Sizes& shape, int64_t given_axis, int64_t block);

/// Returns the same integers as quantised numbers, if they stand for nothing else. An input that nobody else
/// reads simply has the quantisation.
std::optional<ValueId> renamed(Call& call, size_t operand, const BoundQuant& quant);

/// Returns operand `x`, with scale and zero point in the two after it, as numbers of `elem`. `axis`: that of
/// many scales.
ValueId dequantised(Call& call, size_t x, int64_t axis, int64_t block, ElemType elem);

/// Makes blocks from i4 `steps`, one in a byte: products can take them as they are.
std::shared_ptr<const graph::Blocks> blocks_of(graph::Data steps, const Known& scales,
                                               const std::vector<double>& zero_points, size_t axis,
                                               int64_t size);

}  // namespace kpu::onnx
