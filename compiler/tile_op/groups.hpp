#pragma once
// Which nodes of a graph become one operation, and which only rename bytes.
#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"

namespace kpu::compiler {

/// Nodes [first, last) of the graph, which become one operation.
struct NodeRange {
    graph::NodeId first = 0, last = 0;
    /// Name of the anchor's source; NAME:2, NAME:3, ... for further ones of that source. Strips of one have
    /// the same.
    std::string name;
};

/// Groups that become tasks; nodes that only rename bytes are in none.
struct GroupList {
    std::vector<NodeRange> ranges;
    std::vector<bool> internal;  ///< for each value: made and used by one group
};
GroupList groups_of(const graph::Graph& graph);

/// True if its operands can be made where the result has them.
bool joins(const graph::Node& node);
/// Makes nothing: its outputs are windows of its inputs' bytes, or the other way round.
bool renames(const graph::Graph& graph, const graph::Node& node);

}  // namespace kpu::compiler
