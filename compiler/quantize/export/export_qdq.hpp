#pragma once
// A quantized graph as an ONNX model, so that other runtimes can run it.
#include <string>

#include "compiler/graph/graph.hpp"

namespace kpu::quantize {

/// Returns the bytes of a model of opset 20 (21 where steps have 4 or 16 bits): steps lie between
/// QuantizeLinear and DequantizeLinear, operators are those of floats (f32, whatever floats the graph has),
/// in ONNX's order of dimensions. Inputs and outputs are the host's. The graph is as it is before it is
/// fitted to a device. Throws UserError that names an operator ONNX has no equal of.
std::string export_qdq(const graph::Graph& graph);

}  // namespace kpu::quantize
