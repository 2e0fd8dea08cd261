// Groups: a node with the chain of elementwise nodes after it, which stays on chip.
#include <algorithm>
#include <set>

#include "compiler/passes/match.hpp"
#include "compiler/passes/passes.hpp"

namespace kpu::passes {
namespace {

bool is_anchor(const Node& node) { return node.spec().traits.grouping == Grouping::anchor; }
bool is_link(const Node& node) { return node.spec().traits.grouping == Grouping::link; }

bool is_softmax(const Node& node) { return node.spec().traits.probabilities; }

class Fusion {
  public:
    Fusion(Graph& graph, const Options& options)
        : graph_(graph), options_(options), rewriter_(graph), group_(graph.nodes.size(), 0) {}

    void run() {
        // the last product that a sum waits for takes the sum: its other operands are there by then
        for (size_t id = graph_.nodes.size(); id-- > 0;) {
            if (is_anchor(graph_.nodes[id]) && !is_softmax(graph_.nodes[id])) grow(static_cast<NodeId>(id));
        }
        for (const bool softmax : {false, true}) {
            for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
                const Node& node = graph_.nodes[id];
                if ((softmax ? is_softmax(node) : is_link(node)) && group_[id] == 0) grow(id);
            }
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
            if (is_softmax(graph_.nodes[static_cast<size_t>(next)]) &&
                !fits(chain, static_cast<NodeId>(next)))
                break;
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
        if (group_[readers[0]] != 0 || next.alone || !(is_link(next) || is_softmax(next)) ||
            next.outputs.size() != 1)
            return -1;
        const Dims& shape = graph_.value(next.outputs[0]).shape;
        const auto fits = [&](ValueId operand) {
            return graph_.value(operand).constant() || graph_.value(operand).shape == shape;
        };
        if (!(graph_.value(value).shape == shape)) return -1;
        return std::all_of(next.inputs.begin(), next.inputs.end(), fits) ? static_cast<int32_t>(readers[0])
                                                                         : -1;
    }

    /// Whether whole rows of what these nodes compute, and of a softmax after them, have room in L1: some at a time, and all
    /// that a product needs for them.
    bool fits(const std::vector<NodeId>& chain, NodeId softmax) const {
        constexpr uint64_t few = 16;
        const Node& anchor = graph_.nodes[chain[0]];
        const bool product = anchor.spec().traits.needs == Needs::matrix;
        if (!product && !is_link(anchor)) return false;
        if (product && graph_.value(anchor.inputs[1]).constant()) return false;
        const Node& last = graph_.nodes[softmax];
        const graph::Value& y = graph_.value(last.outputs[0]);
        const size_t along = axis_of(y.shape, last.attrs);
        if (along + 1u != y.shape.rank) return false;
        const auto length = static_cast<uint64_t>(y.shape[along]);
        uint64_t row = 2 * packed_bytes(y.elem, length), whole = 0;
        if (product) {
            const graph::Value &a = graph_.value(anchor.inputs[0]), &b = graph_.value(anchor.inputs[1]);
            const auto sum = static_cast<uint64_t>(a.shape[a.shape.rank - 1u]);
            row += packed_bytes(a.elem, sum);
            whole = packed_bytes(b.elem, sum * length);
        }
        for (const NodeId id : chain) {
            const Node& node = graph_.nodes[id];
            row += packed_bytes(graph_.value(node.outputs[0]).elem, length);
            for (size_t i = id == chain[0] && product ? 2 : 0; i < node.inputs.size(); ++i)
                row += packed_bytes(graph_.value(node.inputs[i]).elem, length);
        }
        return options_.l1_bytes > 0 && 2 * (whole + 2 * few * row) <= options_.l1_bytes;
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
    const Options& options_;
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

void fuse(Graph& graph, const Options& options) {
    Fusion(graph, options).run();
    clear_absorbed(graph);
}

}  // namespace kpu::passes
