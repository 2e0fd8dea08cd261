#pragma once
// Orders of dimensions, chosen for all values of a graph together.
//
// Values that transposes make out of each other are one array, seen in several ways: a class. Nodes that work in
// any order of dimensions (elementwise, concat, reductions along adapted axes, ...) are free to choose one; all
// others are not. Each class costs a transpose for every further order in which it is read. The search changes
// the orders of free nodes as long as that moves fewer elements.
#include <map>
#include <vector>

#include "compiler/passes/match.hpp"

namespace kpu::passes {

using Perm = std::vector<int>;
Perm identity(size_t rank);
/// Returns compose(a, b)[i] = a[b[i]].
Perm compose(const Perm& a, const Perm& b);

class Layouts {
  public:
    /// Orders as the graph has them.
    Layouts(const Graph& graph, bool host_layout);
    /// Lowers the cost until no change of one node, or of nodes that hang together, does. Never raises it.
    void search();

    bool free(NodeId node) const { return free_[node]; }
    /// Returns the order: dimension i of what a free node makes is dimension order(node)[i] of what it made
    /// before.
    const Perm& order(NodeId node) const { return orders_[node]; }
    /// True if a free node wants this operand in its own order of dimensions.
    bool follows(NodeId node, size_t operand) const;
    ValueId root(ValueId value) const { return roots_[value]; }
    /// Returns the relation: dimension d of the value is dimension relation(value)[d] of its root.
    const Perm& relation(ValueId value) const { return relations_[value]; }
    /// Returns the order in which an input of the graph is read most often, in dimensions of the value.
    Perm wanted_order(ValueId input) const;

  private:
    struct Cost {
        uint64_t moved = 0;  ///< bits of elements that transposes move
        /// Number of these before free nodes, which had better stay with what made the value.
        uint64_t early = 0;
        bool operator<(const Cost& o) const { return moved != o.moved ? moved < o.moved : early < o.early; }
    };
    struct Wish {
        uint64_t order = 0;
        uint32_t readers = 0, free_readers = 0;
        Perm example;
    };
    struct Class {
        uint64_t bits = 0;
        bool costs = true;     ///< constants are transposed at compile time
        bool produced = true;  ///< false: the host makes it in any order
        uint64_t produced_order = 0;
        int32_t producer = -1;     ///< free node
        std::vector<Wish> wishes;  ///< orders in which it is read
    };
    struct Edge {
        ValueId value;
        bool made;  ///< made by the node; else read
    };
    using Component = std::vector<NodeId>;

    void relate();
    void find_free_nodes();
    void count_fixed_readers(bool host_layout);
    bool allowed(NodeId node, const Perm& order) const;
    uint64_t code(ValueId root, const Perm& order) const;
    Cost cost_of(const Class& c) const;
    void wish(ValueId value, const Perm& order, int readers, bool free);
    void set_order(NodeId node, const Perm& order);
    /// Returns the order of the class of an edge when the node has this one, and back.
    Perm class_order(const Edge& edge, const Perm& order) const {
        return compose(relations_[edge.value], order);
    }
    Perm node_order(const Edge& edge, const Perm& order) const;
    std::vector<Edge> edges(NodeId node) const;
    std::vector<Perm> candidates(NodeId node) const;
    std::vector<Component> components() const;
    bool improve(NodeId node);
    bool improve(const Component& component);
    bool try_orders(const std::vector<std::pair<NodeId, Perm>>& orders);
    std::vector<std::pair<NodeId, Perm>> spread(NodeId from, const Perm& order,
                                                const Component& component) const;

    const Graph& graph_;
    std::vector<ValueId> roots_;
    std::vector<Perm> relations_;
    std::vector<bool> free_;
    std::vector<Perm> orders_;
    std::vector<Class> classes_;                     ///< indexed by root
    std::vector<std::vector<NodeId>> free_readers_;  ///< indexed by root
    std::vector<int32_t> component_of_;
    Cost cost_;
};

/// Rewrites the graph into the orders that were chosen.
void rewrite_layouts(Graph& graph, const Layouts& layouts, bool host_layout);

}  // namespace kpu::passes
