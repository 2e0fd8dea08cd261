#pragma once
// Strips: which chains of a graph are cut, and the graph in which they are.
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/mapping/wishes.hpp"
#include "compiler/target/target.hpp"

namespace kpu::compiler {

struct InStrips {
    graph::Graph graph;
    std::vector<std::set<std::string>> chains;  ///< names of the operations of each chain that is cut
    bool heads_apart = false;                   ///< each head of attention has strips of its own
};

/// Returns a graph with chains cut whose tensors would else go through DDR, so that each strip of them stays
/// in the room that tensors have in L2. What the graph computes stays the same, bit for bit. Rows that the
/// next strip needs too are copied, not computed again. Nodes of strips say so (Node::strips), and their
/// source is the operation. Nothing: it is better as it is. Throws UserError where strips that are wished
/// cannot be made. `left_out`: operations that are not cut. `heads_apart`: heads of attention may be.
std::optional<InStrips> in_strips(const graph::Graph& graph, const Target& target,
                                  const MappingWishes& wishes = {},
                                  const std::set<std::string>& left_out = {}, bool heads_apart = true);

}  // namespace kpu::compiler
