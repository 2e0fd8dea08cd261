#pragma once
// Models that are quantized already: `quantize` and `dequantize` nodes around float operators (QDQ) become
// operators on integers, with the model's own scales.
#include "compiler/graph/graph.hpp"
#include "compiler/quantize/quantize.hpp"

namespace kpu::quantize {

/// True if some values of the graph have a quantisation.
bool is_quantized(const graph::Graph& graph);

/// dequantize -> operator -> quantize becomes the operator in int8; views, maxima, relu and clamp may stand
/// between. Operators whose operands or results have no quantisation, or that the device has no int8 form of,
/// run in options.real (options.ranges is not used); integer operators stay as they are. u8 becomes i8 with
/// another zero point. Conversions at inputs and outputs are the host's unless options say otherwise.
QuantizeResult absorb_qdq(const graph::Graph& graph, const QuantizeOptions& options);

}  // namespace kpu::quantize
