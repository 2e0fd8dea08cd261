#pragma once
// Attributes and operands of shape operators; folding and graph nodes ask the same.
#include "compiler/onnx/call.hpp"

namespace kpu::onnx {

/// Returns the target: 0 keeps a dimension (unless `zero_is_zero`), -1 is what is left.
Sizes reshape_target(const Sizes& from, const Sizes& target, bool zero_is_zero);
Sizes squeezed(const Call& call, const Sizes& from, const Sizes& axes);
Sizes unsqueezed(const Call& call, const Sizes& from, const Sizes& axes);
Sizes transpose_perm(const Call& call);
Sizes split_sizes(Call& call, int64_t whole);

struct SliceSpec {
    Sizes starts, ends, axes, steps;  ///< axes from the front
};
SliceSpec slice_spec(Call& call);

/// Returns the amounts before each dimension, then those after each.
Sizes pad_amounts(Call& call);

}  // namespace kpu::onnx
