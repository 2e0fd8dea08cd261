#pragma once
// Products in float8, the rest of the network in another float type.
//
// A product's factors are divided by scales and rounded to float8: activations have one of the tensor, from their range on the
// samples, constant weights one for each output channel. The greatest number of a range becomes the greatest of f8e4m3, what
// exceeds it saturates; or a sixteenth of the greatest of f8e5m2, which has numbers to spare. Sums are f32, multiplied by the product of the scales in f32, and become the network's type.
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/graph/supports.hpp"
#include "compiler/quantize/ranges.hpp"

namespace kpu::quantize {

/// Ranges by the names of values, which stay when some are kept in other types.
using NamedRanges = std::unordered_map<std::string, Range>;
NamedRanges by_name(const graph::Graph& graph, const std::vector<Range>& ranges);

/// `graph` has the device's floats, and products without an addend or with a constant one (split_addends). `elem` is f8e4m3
/// or f8e5m2. Nodes that are kept in a type stay. A value without a range has that of the one it is a cast or a view of.
/// Result: products that stay floats, and why, as QuantizeResult::in_floats has them.
std::vector<std::string> make_float8_products(graph::Graph& graph, const NamedRanges& ranges, ElemType elem,
                                              const graph::Supports& supports);

}  // namespace kpu::quantize
