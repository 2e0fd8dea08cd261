// Normalisations that no opcode of the device computes: their sums of squares would leave the range of a narrow float, or lose
// what the difference of two means is.
#include <algorithm>

#include "compiler/passes/match.hpp"
#include "compiler/passes/passes.hpp"

namespace kpu::passes {
namespace {

/// Statistics are what is computed of results of reductions and constants alone. A norm begins with the reduction of squares,
/// goes through statistics, a root among them, and ends where an operation reads them that has other data too.
class WideNorms {
  public:
    WideNorms(Graph& graph, ElemType precision, const graph::Supports& supports)
        : graph_(graph),
          precision_(precision),
          supports_(supports),
          makers_(graph::producers(graph)),
          users_(graph::users(graph)),
          statistic_(graph.values.size()),
          inside_(graph.nodes.size()) {}

    void run() {
        if (!casts(precision_, ElemType::f32) || !casts(ElemType::f32, precision_)) return;
        for (const Node& node : graph_.nodes) find_statistics(node);
        for (NodeId n = 0; n < graph_.nodes.size(); ++n) {
            const std::vector<NodeId> begin = squares(n);
            if (!begin.empty()) follow(begin, n);
        }
        for (NodeId n = 0; n < graph_.nodes.size(); ++n) {
            Node& node = graph_.nodes[n];
            if (inside_[n] && node.kept == ElemType::none && keeps(n)) node.kept = ElemType::f32;
        }
    }

  private:
    bool casts(ElemType from, ElemType to) const {
        return graph::is_supported(supports_, "cast", {from}, {to});
    }
    bool keeps(NodeId n) const {
        return can_keep(graph_, graph_.nodes[n], ElemType::f32, precision_, supports_);
    }
    static bool is_reduction(const Node& node) {
        return is_any(node, {"reduce_sum", "reduce_mean", "reduce_l2"});
    }
    static bool is_view(const Node& node) { return node.spec().traits.reorders || is(node, "cast"); }
    static bool is_root(const Node& node) { return is_any(node, {"sqrt", "rsqrt", "pow", "reduce_l2"}); }
    bool is_float_node(const Node& node) const { return is_plain_float(graph_.value(node.outputs[0])); }

    void find_statistics(const Node& node) {
        const auto known = [this](ValueId id) { return statistic_[id]; };
        const auto fixed = [this](ValueId id) { return statistic_[id] || graph_.value(id).constant(); };
        const bool follows = (is_elementwise(node) || is_view(node)) &&
                             std::any_of(node.inputs.begin(), node.inputs.end(), known) &&
                             std::all_of(node.inputs.begin(), node.inputs.end(), fixed);
        if (follows || (is_reduction(node) && is_float_node(node))) statistic_[node.outputs[0]] = true;
    }

    const Node* maker(ValueId id) const {
        return makers_[id] < 0 ? nullptr : &graph_.nodes[static_cast<size_t>(makers_[id])];
    }

    bool is_square(const Node& node) const {
        if (is(node, "pow")) return uniform_number(graph_.value(node.inputs[1])) == 2.0;
        return is(node, "square") || (is(node, "mul") && node.inputs[0] == node.inputs[1]);
    }

    /// Returns a reduction of squares and what makes these; empty: it is none, or the device has no wide form
    /// of it.
    std::vector<NodeId> squares(NodeId n) const {
        const Node& node = graph_.nodes[n];
        if (!is_reduction(node) || !is_float_node(node)) return {};
        std::vector<NodeId> nodes{n};
        for (ValueId id = node.inputs[0]; !is(node, "reduce_l2"); id = graph_.nodes[nodes.back()].inputs[0]) {
            const Node* before = maker(id);
            if (before == nullptr || (!is_view(*before) && !is_square(*before))) return {};
            nodes.push_back(static_cast<NodeId>(makers_[id]));
            if (is_square(*before)) break;
        }
        const bool wide =
            std::all_of(nodes.begin(), nodes.end(), [this](NodeId each) { return keeps(each); });
        return wide ? nodes : std::vector<NodeId>{};
    }

    void follow(const std::vector<NodeId>& begin, NodeId reduction) {
        std::vector<NodeId> found{reduction}, ends;
        std::vector<bool> seen(graph_.nodes.size());
        bool root = is_root(graph_.nodes[reduction]);
        for (size_t i = 0; i < found.size(); ++i) {
            for (const NodeId user : users_[graph_.nodes[found[i]].outputs[0]]) {
                const Node& node = graph_.nodes[user];
                if (seen[user] || (!is_elementwise(node) && !is_view(node))) continue;
                seen[user] = true;
                root = root || is_root(node);
                (statistic_[node.outputs[0]] ? found : ends).push_back(user);
            }
        }
        if (!root) return;
        found.insert(found.end(), begin.begin(), begin.end());
        found.insert(found.end(), ends.begin(), ends.end());
        for (const NodeId n : found) take(n);
    }

    /// Takes a node with the statistics that it reads, and the x - mean.
    void take(NodeId first) {
        std::vector<NodeId> open{first};
        while (!open.empty()) {
            const NodeId n = open.back();
            open.pop_back();
            if (inside_[n]) continue;
            inside_[n] = true;
            const bool reduces = is_reduction(graph_.nodes[n]);
            for (const ValueId id : graph_.nodes[n].inputs) {
                const Node* before = maker(id);
                if (before == nullptr || (reduces && !is_square(*before))) continue;
                if (statistic_[id] || reads_statistic(*before))
                    open.push_back(static_cast<NodeId>(makers_[id]));
            }
        }
    }
    bool reads_statistic(const Node& node) const {
        return is_elementwise(node) && std::any_of(node.inputs.begin(), node.inputs.end(),
                                                   [this](ValueId id) { return statistic_[id]; });
    }

    Graph& graph_;
    ElemType precision_;
    const graph::Supports& supports_;
    std::vector<int32_t> makers_;
    std::vector<std::vector<NodeId>> users_;
    std::vector<bool> statistic_;  ///< indexed by value
    std::vector<bool> inside_;     ///< for each node: part of a norm
};

}  // namespace

void keep_norms_wide(Graph& graph, ElemType precision, const graph::Supports& supports) {
    WideNorms(graph, precision, supports).run();
}

}  // namespace kpu::passes
