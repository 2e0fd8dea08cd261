#pragma once
// Convolutions that see one pixel at a time, as products over all pixels.
#include "compiler/memory/memory.hpp"

namespace kpu::compiler {

/// Makes one axis `pixels` of the images, rows and columns of a convolution of 1x1 without strides, where all operands
/// have their pixels in one row of memory: tiles can then fill the rows of an array whatever the images' width. Operands
/// get new values, which are other views of the same bytes. False: nothing is changed.
bool flatten(graph::Graph& graph, MemoryPlan& memory, TileOp& op);

}  // namespace kpu::compiler
