#pragma once
// Windows of convolutions and pools, which move along the dimensions after batch and channels.
#include "compiler/onnx/call.hpp"

namespace kpu::onnx {

struct Window {
    Sizes kernel, strides, dilations, pads;  ///< pads: before each dimension, then after each
    size_t rank() const { return kernel.size(); }
    int64_t extent(size_t d) const { return (kernel[d] - 1) * dilations[d] + 1; }
};

/// Makes the window from the attributes and the sizes of the moved dimensions; auto_pad is resolved.
Window window_of(const Call& call, const Sizes& kernel, const Sizes& spatial);
Sizes spatial_of(const Sizes& shape);

/// Moves channels: [N, C, d...] to [N, d..., C] and back.
ValueId channels_last(Call& call, ValueId x);
ValueId channels_first(Call& call, ValueId x);

}  // namespace kpu::onnx
