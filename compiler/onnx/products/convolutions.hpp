#pragma once
// Convolutions, for the operators that are made of them.
#include <optional>

#include "compiler/onnx/products/windows.hpp"

namespace kpu::onnx {

/// Computes x [N, C, d...], w [Cout, C / groups, k...]; result [N, Cout, ...], of type `to`, quantised as
/// told.
ValueId convolution(Call& call, ValueId x, ValueId w, std::optional<ValueId> bias, const Window& window,
                    int64_t groups, ElemType to, const BoundQuant& quant = {});

}  // namespace kpu::onnx
