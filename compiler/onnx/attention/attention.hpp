#pragma once
// Heads of attention, and what operators that have it share: masks, rotary embeddings.
#include "compiler/onnx/call.hpp"

namespace kpu::onnx {

/// Splits heads: [B, S, heads * size] to [B, heads, S, size]; what has four dimensions stays.
ValueId split_heads(Call& call, ValueId x, int64_t heads);
/// Joins heads: [B, heads, S, size] to [B, S, heads * size].
ValueId join_heads(Call& call, ValueId x);
/// Repeats shared heads: [B, groups, S, size] to [B, heads, S, size]: each head as often as queries share it.
ValueId shared_heads(Call& call, ValueId x, int64_t heads);

/// Returns 0 where attention is allowed, else -infinity.
ValueId bias_of(Call& call, ValueId allowed, ElemType elem);

/// Sines or cosines [B, S, 1, half] of positions [B, S]; without positions the table is [B, S, half] itself.
ValueId angles(Call& call, ValueId table, std::optional<ValueId> positions);
/// Rotates x [B, S, heads, size], of which the first 2 * half elements are turned, in pairs side by side or
/// half a head apart.
ValueId rotated(Call& call, ValueId x, ValueId cosine, ValueId sine, bool interleaved);

}  // namespace kpu::onnx
