#pragma once
// Models that are quantized already: `quantize` and `dequantize` nodes around float operators (QDQ) become
// operators on integers, with the model's own scales.
#include "compiler/graph/graph.hpp"
#include "compiler/quantize/quantize.hpp"

namespace kpu::quantize {

/// Whether the graph has a `quantize` or `dequantize` node.
bool has_qdq(const graph::Graph& graph);

/// dequantize -> operator -> quantize becomes the operator in int8; u8 activations become i8 with another zero
/// point; views, maxima, relu and clamp may stand between. Operators whose operands or results have no
/// quantisation, or that the device has no int8 form of, run in options.real (options.ranges is not used).
QuantizeResult absorb_qdq(const graph::Graph& graph, const QuantizeOptions& options);

}  // namespace kpu::quantize
