#pragma once
// Needs of models of integer operators (QLinearConv and its kin) on devices of i8.
#include "compiler/graph/graph.hpp"
#include "compiler/graph/supports.hpp"

namespace kpu::quantize {

/// Makes quantized u8 values i8, 128 lower with their zero point. Those that the host gives or gets as
/// integers stay, and what must have one type with them; where products meet them, they are converted.
void make_signed(graph::Graph& graph);

/// Moves `quantize` after a float input that nothing else reads, and `dequantize` before an output, to the
/// host, at load and store.
void quantize_on_host(graph::Graph& graph);

/// Sums of products of integers are too large for 16-bit floats, and their scales too small: until both have met, the floats
/// that they become are f32. So are those of steps of 16 bits. `kept`: by node, as Plan::kept. Result: nodes of sums that the device has no f32 form of.
std::vector<graph::NodeId> keep_sums_wide(const graph::Graph& graph, const graph::Supports& supports,
                                          std::vector<ElemType>& kept);

/// Returns i8 for u8: the same steps, 128 lower.
BoundQuant as_i8(BoundQuant quant, ElemType elem);
graph::Data as_i8(const graph::Data& data, ElemType elem);

}  // namespace kpu::quantize
