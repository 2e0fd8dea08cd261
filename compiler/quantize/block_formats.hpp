#pragma once
// Products of matrices in block formats: MXFP8, MXFP6, MXFP4 and MXINT8 of OCP (Microscaling 1.0), and NVFP4.
//
// Neighbours along the sum share a scale, which both factors get from their own numbers: no samples are needed. Weights are
// rounded here, activations on the device. Weights of 4 bits meet activations in MXFP8. NVFP4's f32 of the tensor, of weights,
// multiplies the sums.
#include <string>
#include <string_view>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/graph/supports.hpp"

namespace kpu::quantize {

struct BlockFormat {
    std::string_view name;  ///< as --precision has it
    ElemType element = ElemType::none;
    ElemType scale = ElemType::u8;  ///< u8: E8M0
    int64_t size = 32;
    bool of_tensor = false;  ///< one f32 more, by which the scales reach their greatest number
};

/// Returns the format; null: there is none.
const BlockFormat* find_block_format(std::string_view name);
/// Returns the format of the activations which meet weights in it.
const BlockFormat& activations_of(const BlockFormat& weights);

/// `graph` has the device's floats, and products without an addend or with a constant one (split_addends). Nodes that are kept
/// in a type stay. Result: products that stay floats, and why, as QuantizeResult::in_floats has them.
std::vector<std::string> make_block_products(graph::Graph& graph, const BlockFormat& format,
                                             const graph::Supports& supports);

}  // namespace kpu::quantize
