#pragma once

#include <cstdint>
#include <string_view>

#include "compiler/graph/graph.hpp"

namespace kpu::graph {

/// The integer attribute of a node that does fewer multiply-accumulates of the model's operation than its operands show:
/// rows of zeros, or of neighbours, in a transposed convolution. No opcode has it: tasks do not get it.
constexpr std::string_view own_macs = "macs";
/// Returns the multiply-accumulates of the model's operation that a node does; 0: it is no product.
uint64_t macs_of(const Graph& graph, const Node& node);
/// Sets the attribute.
void set_macs(Node& node, uint64_t macs);

}  // namespace kpu::graph
