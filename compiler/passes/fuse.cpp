// Groups: a node with the chain of elementwise nodes after it, which stays on chip.
#include <algorithm>
#include <set>

#include "compiler/passes/match.hpp"
#include "compiler/passes/passes.hpp"

namespace kpu::passes {
namespace {

bool is_anchor(const Node& node) {
    switch (node.spec().op_class) {
        case OpcodeClass::gemm:
        case OpcodeClass::conv:
        case OpcodeClass::pooling:
        case OpcodeClass::norm:
        case OpcodeClass::softmax:
        case OpcodeClass::reduction:
            return true;
        default:
            return false;
    }
}

bool is_link(const Node& node) {
    const OpcodeClass kind = node.spec().op_class;
    return kind == OpcodeClass::elementwise || kind == OpcodeClass::convert;
}

class Fusion {
  public:
    explicit Fusion(Graph& graph) : graph_(graph), rewriter_(graph), group_(graph.nodes.size(), 0) {}

    void run() {
        // the last product that a sum waits for takes the sum: its other operands are there by then
        for (size_t id = graph_.nodes.size(); id-- > 0;) {
            if (is_anchor(graph_.nodes[id])) grow(static_cast<NodeId>(id));
        }
        for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
            if (is_link(graph_.nodes[id]) && group_[id] == 0) grow(id);
        }
        place();
    }

  private:
    void grow(NodeId first) {
        constexpr size_t most_operands = 24;  // each has a tile in L1
        std::vector<NodeId> chain{first};
        size_t operands = graph_.nodes[first].inputs.size();
        while (true) {
            const int32_t next = next_link(chain.back());
            if (next < 0) break;
            operands += graph_.nodes[static_cast<size_t>(next)].inputs.size() - 1;
            if (operands > most_operands) break;
            chain.push_back(static_cast<NodeId>(next));
        }
        if (chain.size() == 1) return;
        chains_.push_back(chain);
        for (const NodeId id : chain) group_[id] = chains_.size();
    }

    /// Returns the node that alone reads what this one makes, if it can follow in the same group; -1.
    int32_t next_link(NodeId id) const {
        const Node& node = graph_.nodes[id];
        if (node.alone || node.outputs.size() != 1) return -1;
        const ValueId value = node.outputs[0];
        const std::vector<NodeId>& readers = rewriter_.users(value);
        if (readers.empty() || !rewriter_.read_only_by(value, readers[0])) return -1;
        const Node& next = graph_.nodes[readers[0]];
        if (group_[readers[0]] != 0 || next.alone || !is_link(next) || next.outputs.size() != 1) return -1;
        const Dims& shape = graph_.value(next.outputs[0]).shape;
        const auto fits = [&](ValueId operand) {
            return graph_.value(operand).constant() || graph_.value(operand).shape == shape;
        };
        if (!(graph_.value(value).shape == shape)) return -1;
        return std::all_of(next.inputs.begin(), next.inputs.end(), fits) ? static_cast<int32_t>(readers[0])
                                                                         : -1;
    }

    /// Places a group where its last node stood: all that it reads is there.
    void place() {
        std::vector<Node> ordered;
        uint32_t number = 0;
        const auto take = [&](NodeId id, uint32_t group, bool anchor) {
            ordered.push_back(std::move(graph_.nodes[id]));
            ordered.back().group = group;
            ordered.back().anchor = anchor;
        };
        for (NodeId id = 0; id < group_.size(); ++id) {
            if (group_[id] == 0) {
                take(id, 0, true);
                continue;
            }
            const std::vector<NodeId>& chain = chains_[group_[id] - 1];
            if (id != chain.back()) continue;
            ++number;
            for (const NodeId member : chain) take(member, number, member == chain.front());
        }
        graph_.nodes = std::move(ordered);
    }

    Graph& graph_;
    Rewriter rewriter_;
    std::vector<size_t> group_;  ///< 1 + index into chains_; 0: alone
    std::vector<std::vector<NodeId>> chains_;
};

/// Operators of which some node is left are not absorbed; others are once.
void clear_absorbed(Graph& graph) {
    std::set<std::string> named;
    for (const Node& node : graph.nodes) named.insert(node.source.name);
    for (Node& node : graph.nodes) {
        const auto known = [&](const graph::Source& source) { return !named.insert(source.name).second; };
        node.absorbed.erase(std::remove_if(node.absorbed.begin(), node.absorbed.end(), known),
                            node.absorbed.end());
    }
}

}  // namespace

void fuse(Graph& graph, const Options&) {
    Fusion(graph).run();
    clear_absorbed(graph);
}

}  // namespace kpu::passes
