#pragma once
// A graph while a pass rewrites it: who makes and who reads each value stays known.
#include <vector>

#include "compiler/graph/graph.hpp"

namespace kpu::passes {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

/// Nodes keep their ids until finish(): new ones are appended, removed ones lose their outputs. Between, the
/// order of nodes is not one in which they can be executed.
class Rewriter {
  public:
    explicit Rewriter(Graph& graph);

    Graph& graph;

    /// Returns the node that makes it; -1: none does.
    int32_t producer_id(ValueId id) const { return producers_[id]; }
    const Node* producer(ValueId id) const {
        return producers_[id] < 0 ? nullptr : &graph.nodes[static_cast<size_t>(producers_[id])];
    }
    /// Returns the nodes that read it, one for each operand.
    const std::vector<NodeId>& users(ValueId id) const { return users_[id]; }
    bool is_output(ValueId id) const { return output_uses_[id] > 0; }
    /// True if nothing but this node reads it.
    bool read_only_by(ValueId id, NodeId node) const;
    bool alive(NodeId node) const { return !graph.nodes[node].outputs.empty(); }

    /// Adds a new node. Result: its first output.
    ValueId add(std::string_view opcode, std::vector<ValueId> operands, BoundAttrs attrs,
                graph::NodeOptions options);
    ValueId add_constant(std::string name, ElemType elem, const Dims& shape, graph::Data data,
                         BoundQuant quant = {});
    /// Puts another node in the place of one: the same outputs, so that their readers stay as they are.
    void replace_node(NodeId id, std::string_view opcode, std::vector<ValueId> operands, BoundAttrs attrs);
    /// Replaces a value: whoever reads `from`, the host too, reads `to`.
    void replace(ValueId from, ValueId to);
    void remove(NodeId id);
    /// Takes in values that were added to the graph directly.
    void grow();

    /// Orders the nodes, keeping the order of old ones where possible, and drops what nobody needs.
    void finish();

  private:
    void link(NodeId id);
    void unlink(NodeId id);

    std::vector<int32_t> producers_;
    std::vector<std::vector<NodeId>> users_;
    std::vector<uint32_t> output_uses_;
};

/// Orders nodes so that each stands after those that it reads, otherwise as they are. Throws InternalError on
/// a cycle.
void sort_nodes(Graph& graph);

/// Notes that the operators `from` stands for went into `into`.
void absorb(Node& into, const Node& from);

}  // namespace kpu::passes
