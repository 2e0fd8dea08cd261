#pragma once
// Forms of a value (`choose`), of which one is computed: which operations are for one form alone.
#include <optional>
#include <vector>

#include "compiler/graph/graph.hpp"

namespace kpu::graph {

/// Throws UserError that names the node where nodes of positions do not fit to Graph::positions, or it has none.
void check_positions(const Graph& graph);

/// Returns, for each node, the form that it is needed for; none: it is needed always.
std::vector<std::optional<uint32_t>> forms_of(const Graph& graph);

}  // namespace kpu::graph
