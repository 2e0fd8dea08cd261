#pragma once
// A quantized graph as an ONNX model, so that other runtimes can run it.
#include <string>

#include "compiler/graph/graph.hpp"

namespace kpu::quantize {

/// Bytes of a model of opset 20: int8 values lie between QuantizeLinear and DequantizeLinear, operators are
/// those of floats (f32, also where the graph has f16), in ONNX's order of dimensions. Inputs and outputs are
/// the host's. Throws UserError that names an operator ONNX has no equal of.
std::string export_qdq(const graph::Graph& graph);

}  // namespace kpu::quantize
