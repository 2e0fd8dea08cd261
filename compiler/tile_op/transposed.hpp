#pragma once
// Transposed convolutions cut into rows: a part of X with its neighbours makes whole windows, of which pads cut off
// what the neighbouring parts make.
#include <optional>

#include "compiler/tile_op/window.hpp"
#include "isa/shapes.hpp"

namespace kpu::compiler {

/// Returns the window along X of `strides` elements of Y, in spatial dimension `d` of X, W and Y with these
/// sizes. Nothing where Y has another size than `strides` times X: it stays whole.
std::optional<Window> transposed_window(const BoundAttrs& attrs, size_t d, int64_t x, int64_t w, int64_t y);

/// Sets pads and output_padding for the part of X that such a window gives, and `wanted` elements of Y.
void crop_transposed(BoundAttrs& attrs, size_t d, int64_t w, const Window& window, const Part& x,
                     int64_t wanted);

}  // namespace kpu::compiler
