// Guards after a softmax that its rows do not need: exporters replace NaN, which is what a row of -infinity
// gives.
#include <algorithm>
#include <cmath>

#include "compiler/graph/data.hpp"
#include "compiler/graph/supports.hpp"
#include "compiler/passes/rules.hpp"

namespace kpu::passes {
namespace {

// Finite in all types that a network is compiled to, with a number of scores beside it.
constexpr double finite_scores = 3e4;
constexpr int most_depth = 24;

bool is_small(double x) { return std::fabs(x) <= finite_scores; }

/// True if its elements are finite whatever the inputs are, where products of the network are.
bool is_finite(const Rewriter& rewriter, ValueId id, int depth = 0) {
    const graph::Value& value = rewriter.graph.value(id);
    if (value.constant()) {
        const std::vector<double> all = graph::numbers(value);
        return std::all_of(all.begin(), all.end(), is_small);
    }
    const Node* const node = rewriter.producer(id);
    if (node == nullptr || depth > most_depth) return false;
    const OpcodeSpec& spec = node->spec();
    if (graph::is_product(spec) || spec.traits.finite == Finite::always) return true;
    if (is(*node, "div")) {
        const auto by = uniform_number(rewriter.graph.value(node->inputs[1]));
        return by && std::fabs(*by) > 1 / finite_scores && is_finite(rewriter, node->inputs[0], depth + 1);
    }
    if (spec.traits.finite != Finite::of_finite) return false;
    for (size_t i = 0; i < node->inputs.size(); ++i) {
        const bool data = operand_spec(spec.inputs, i).role == OperandRole::data;
        if (data && !is_finite(rewriter, node->inputs[i], depth + 1)) return false;
    }
    return true;
}

/// True if in each row along the last dimension some element is finite, and none is +infinity or NaN.
bool rows_have_keys(const Rewriter& rewriter, ValueId id, int64_t keys, int depth = 0) {
    if (is_finite(rewriter, id)) return true;
    const graph::Value& value = rewriter.graph.value(id);
    if (value.shape.rank == 0 || value.shape[value.shape.rank - 1U] != keys || depth > most_depth)
        return false;
    if (value.constant()) {
        const std::vector<double> all = graph::numbers(value);
        for (auto row = all.begin(); row != all.end(); row += keys) {
            if (!std::any_of(row, row + keys, is_small) ||
                std::any_of(row, row + keys, [](double x) { return !(x <= finite_scores); }))
                return false;
        }
        return true;
    }
    const Node* const node = rewriter.producer(id);
    if (node == nullptr || !is(*node, "add")) return false;
    const ValueId a = node->inputs[0], b = node->inputs[1];
    const auto masked = [&](ValueId scores, ValueId mask) {
        return is_finite(rewriter, scores) && rows_have_keys(rewriter, mask, keys, depth + 1);
    };
    return masked(a, b) || masked(b, a);
}

/// Drops where(is_nan(p), c, p) of a softmax p: p.
bool drop_guard(Rewriter& rewriter, NodeId id) {
    const Graph& graph = rewriter.graph;
    const Node& node = graph.nodes[id];
    if (!is(node, "where")) return false;
    const ValueId kept = node.inputs[2];
    const Node *const test = rewriter.producer(node.inputs[0]), *const softmax = rewriter.producer(kept);
    if (test == nullptr || softmax == nullptr || !is(*test, "is_nan") || !is(*softmax, "softmax") ||
        test->inputs[0] != kept)
        return false;
    const graph::Value &p = graph.value(kept), &y = graph.value(node.outputs[0]);
    if (!(p.shape == y.shape) || p.elem != y.elem || has_quant(p) || has_quant(y)) return false;
    if (from_front(softmax->attrs.integer("axis", -1), p.shape.rank) + 1 != p.shape.rank) return false;
    if (!rows_have_keys(rewriter, softmax->inputs[0], p.shape[p.shape.rank - 1U])) return false;
    replace_by(rewriter, id, kept);
    return true;
}

}  // namespace

const std::vector<Rule> guard_rules = {drop_guard};

}  // namespace kpu::passes
