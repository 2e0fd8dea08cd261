#pragma once
#include <vector>

#include "compiler/graph/graph.hpp"

namespace kpu::compiler {

/// Marks the values in which minus infinity in the place of any very low number changes nothing: all that is
/// made of it by additions, scales, choices and views goes into functions that are at their limit there, such
/// as a softmax. So masks are applied.
std::vector<bool> masked_values(const graph::Graph& graph);
/// True if what a node computes of finite numbers is never low.
bool is_never_low(const graph::Node& node);

}  // namespace kpu::compiler
