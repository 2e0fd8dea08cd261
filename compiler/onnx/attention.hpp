#pragma once
// Heads of attention, for operators that have it.
#include "compiler/onnx/call.hpp"

namespace kpu::onnx {

/// [B, S, heads * size] to [B, heads, S, size]; what has four dimensions stays.
ValueId split_heads(Call& call, ValueId x, int64_t heads);
/// [B, heads, S, size] to [B, S, heads * size].
ValueId join_heads(Call& call, ValueId x);

}  // namespace kpu::onnx
