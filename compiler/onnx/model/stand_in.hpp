#pragma once
// Constants whose bytes a file lacks: what a network takes does not depend on the numbers of its weights.
#include "compiler/onnx/model/model.hpp"

namespace kpu::onnx {

/// Returns the numbers for a tensor of this type and shape: the same each time, others for each seed, none
/// that a pass would compute away. Floats keep the sums of products about as large as what they are made of.
graph::Data stand_in(Type type, const Sizes& shape, uint32_t seed);

}  // namespace kpu::onnx
