#pragma once
// Products, for operators that are made of them.
#include <optional>

#include "compiler/onnx/call.hpp"

namespace kpu::onnx {

/// Returns A [.., M, K] times B [.., K, N] plus C, of floats.
ValueId gemm(Call& call, ValueId a, ValueId b, std::optional<ValueId> c = std::nullopt);

/// Operands of a gemm whose result, reshaped, is the product in NumPy's sense.
struct MatmulOperands {
    ValueId a, b;
    Sizes shape;
};
MatmulOperands matmul_operands(Call& call, ValueId a, ValueId b);
ValueId matmul(Call& call, ValueId a, ValueId b);

}  // namespace kpu::onnx
