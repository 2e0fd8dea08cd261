// Reshapes after products move after the elementwise nodes and norms that follow: products of many dimensions
// are computed as [rows, columns], and what is added and activated after them joins their group.
// Concatenations of products move after activations too.
#include <algorithm>
#include <optional>

#include "compiler/graph/data.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/passes/rules.hpp"

namespace kpu::passes {
namespace {

int64_t last(const Dims& shape) { return shape.rank == 0 ? 1 : shape[shape.rank - 1U]; }

/// Returns the reshape that makes a value, if it keeps the last dimension.
const Node* row_reshape(const Rewriter& rewriter, ValueId value) {
    const Node* node = rewriter.producer(value);
    if (node == nullptr || !is(*node, "reshape")) return nullptr;
    const Graph& graph = rewriter.graph;
    const BoundQuant& quant = graph.value(value).quant;
    const bool whole = !quant || quant.kind == proto::Quant::PER_TENSOR;
    return whole && last(graph.value(node->inputs[0]).shape) == last(graph.value(value).shape) ? node
                                                                                               : nullptr;
}

/// True for a product, or what elementwise nodes and norms made of one.
bool comes_of_product(const Rewriter& rewriter, ValueId value) {
    std::vector<ValueId> waiting{value};
    for (int steps = 0; steps < 24 && !waiting.empty(); ++steps) {
        const Node* node = rewriter.producer(waiting.back());
        waiting.pop_back();
        if (node == nullptr) continue;
        const OpcodeSpec& spec = node->spec();
        if (spec.macs != nullptr) return true;
        const bool by_rows = spec.traits.elementwise || spec.traits.vectors || spec.traits.converts;
        if (by_rows) waiting.insert(waiting.end(), node->inputs.begin(), node->inputs.end());
    }
    return false;
}

/// Computes each row of the last dimension, or each element, for itself.
bool works_on_rows(const Graph& graph, const Node& node) {
    const Dims& shape = graph.value(node.outputs[0]).shape;
    if (node.outputs.size() != 1 || has_quant(graph.value(node.outputs[0]))) return false;
    const Traits& traits = node.spec().traits;
    if (traits.elementwise || traits.converts) return true;
    return traits.needs == Needs::row &&
           from_front(node.attrs.integer("axis", 0), shape.rank) + 1 == shape.rank;
}

/// True for a constant that is the same for all rows.
bool same_for_rows(const graph::Value& value) {
    const auto elements = static_cast<int64_t>(value.elements());
    return value.constant() && !value.quant && (elements == 1 || elements == last(value.shape));
}

class Sink {
  public:
    Sink(Rewriter& rewriter, NodeId id) : rewriter_(rewriter), graph_(rewriter.graph), id_(id) {}

    bool run() {
        const Node node = graph_.nodes[id_];
        if (!works_on_rows(graph_, node) || !find_rows(node)) return false;
        std::vector<ValueId> operands;
        for (size_t i = 0; i < node.inputs.size(); ++i) operands.push_back(operand(node, i));
        BoundAttrs attrs = node.attrs;
        if (attrs.find("axis") != nullptr) set_integer(attrs, "axis", rows_.rank - 1);
        const graph::Value& y = graph_.value(node.outputs[0]);
        graph::NodeOptions options{node.source, y.name, y.elem, y.quant};
        const std::vector<int64_t> target = shape_list(y.shape);
        const ValueId made = rewriter_.add(node.spec().name, operands, attrs, options);
        graph_.nodes.back().absorbed = node.absorbed;
        // the reshape takes over the result; its name is the reshape's that went
        become(rewriter_, id_, "reshape", {made}, graph::attributes({graph::ints("target_shape", target)}));
        graph_.nodes[id_].source = reshape_.source;
        graph_.nodes[id_].absorbed.clear();
        return true;
    }

  private:
    bool fits(const Node& node, ValueId operand) const {
        const graph::Value& value = graph_.value(operand);
        const Dims& whole = graph_.value(node.outputs[0]).shape;
        return value.shape == whole || same_for_rows(value) || before_reshape(value, whole);
    }

    /// Returns the shape of an operand that is broadcast to the result, as it is broadcast to what stands
    /// before the reshape: a mask for all heads, where these are cut in two dimensions. Nothing where it
    /// would change along a joined one.
    std::optional<Dims> before_reshape(const graph::Value& value, const Dims& whole) const {
        if (value.shape.rank > whole.rank || has_quant(value)) return std::nullopt;
        Dims own;  // of the result's rank
        for (size_t d = value.shape.rank; d < whole.rank; ++d) own[own.rank++] = 1;
        for (const int64_t size : value.shape) own[own.rank++] = size;
        Dims result;
        for (const Run& run : runs_of(rows_, whole)) {
            bool all = true, none = true;
            for (size_t d = run.to; d < run.to_end; ++d) {
                all = all && own[d] == whole[d];
                none = none && own[d] == 1;
            }
            if (!all && !none) return std::nullopt;
            for (size_t d = run.from; d < run.from_end; ++d) result[result.rank++] = all ? rows_[d] : 1;
        }
        return result;
    }

    /// Finds the shape before a reshape that can move after this node.
    bool find_rows(const Node& node) {
        const bool elementwise = is_elementwise(node);
        const size_t candidates = elementwise ? node.inputs.size() : 1;
        const Dims& whole = graph_.value(node.outputs[0]).shape;
        for (size_t i = 0; i < candidates; ++i) {
            const Node* reshape = row_reshape(rewriter_, node.inputs[i]);
            if (reshape == nullptr || !(graph_.value(node.inputs[i]).shape == whole)) continue;
            if (!comes_of_product(rewriter_, reshape->inputs[0])) continue;
            reshape_ = *reshape;
            rows_ = graph_.value(reshape->inputs[0]).shape;
            const auto fit = [&](ValueId operand) { return fits(node, operand); };
            return !elementwise || std::all_of(node.inputs.begin(), node.inputs.end(), fit);
        }
        return false;
    }

    /// Returns an operand with the rows of the product.
    ValueId operand(const Node& node, size_t i) {
        const ValueId id = node.inputs[i];
        const graph::Value value = graph_.value(id);
        const Dims& y = graph_.value(node.outputs[0]).shape;
        if (!is_elementwise(node) && i > 0) return id;
        if (value.shape == y) return with_rows(id, value, node.source);
        if (value.shape.rank < 2) return id;  // [C] or a scalar: it repeats along the last dimension
        if (!same_for_rows(value)) return reshaped(id, value, *before_reshape(value, y), node.source);
        Dims vector;
        vector[vector.rank++] = static_cast<int64_t>(value.elements());
        return rewriter_.add_constant(value.name, value.elem, vector, value.data);
    }

    ValueId with_rows(ValueId id, const graph::Value& value, const graph::Source& source) {
        const Node* reshape = rewriter_.producer(id);
        if (reshape != nullptr && is(*reshape, "reshape") && graph_.value(reshape->inputs[0]).shape == rows_)
            return reshape->inputs[0];
        return reshaped(id, value, rows_, source);
    }

    ValueId reshaped(ValueId id, const graph::Value& value, const Dims& shape, const graph::Source& source) {
        if (value.constant())
            return rewriter_.add_constant(value.name, value.elem, shape, value.data, value.quant);
        graph::NodeOptions options{
            {source.name + "/reshape", "Reshape"}, value.name, value.elem, value.quant};
        return rewriter_.add("reshape", {id},
                             graph::attributes({graph::ints("target_shape", shape_list(shape))}), options);
    }

    Rewriter& rewriter_;
    Graph& graph_;
    NodeId id_;
    Node reshape_;
    Dims rows_;
};

}  // namespace

/// Computes parts, so that they join their groups, and their results need not be kept until all are there.
bool compute_parts(Rewriter& rewriter, NodeId id) {
    Graph& graph = rewriter.graph;
    const Node node = graph.nodes[id];
    if (!is_elementwise(node) || has_quant(graph.value(node.outputs[0]))) return false;
    const auto concat_id = rewriter.producer_id(node.inputs[0]);
    if (concat_id < 0 || !rewriter.read_only_by(node.inputs[0], id)) return false;
    const Node concat = graph.nodes[static_cast<size_t>(concat_id)];
    if (!is(concat, "concat") || has_quant(graph.value(node.inputs[0]))) return false;
    for (size_t i = 1; i < node.inputs.size(); ++i) {
        const graph::Value& value = graph.value(node.inputs[i]);
        if (!value.constant() || value.elements() != 1 || value.shape.rank > 1) return false;
    }
    for (const ValueId part : concat.inputs) {
        const Node* reshape = row_reshape(rewriter, part);
        const ValueId made = reshape != nullptr ? reshape->inputs[0] : part;
        if (!rewriter.read_only_by(part, static_cast<NodeId>(concat_id)) || !comes_of_product(rewriter, made))
            return false;
    }
    std::vector<ValueId> parts;
    for (const ValueId part : concat.inputs) {
        std::vector<ValueId> operands = node.inputs;
        operands[0] = part;
        graph::NodeOptions options{
            node.source, graph.value(part).name, graph.value(node.outputs[0]).elem, {}};
        parts.push_back(rewriter.add(node.spec().name, std::move(operands), node.attrs, std::move(options)));
    }
    become(rewriter, id, "concat", std::move(parts), concat.attrs);
    graph.nodes[id].source = concat.source;
    return true;
}

void sink_reshapes(Graph& graph, const Options&) {
    Rewriter rewriter(graph);
    for (NodeId id = 0, given = graph.nodes.size(); id < given; ++id) {
        if (rewriter.alive(id)) compute_parts(rewriter, id);
    }
    // each node once, in their order: a reshape moves past all that follows it
    const size_t count = graph.nodes.size();
    for (NodeId id = 0; id < count; ++id) {
        if (rewriter.alive(id)) Sink(rewriter, id).run();
    }
    apply_rules(rewriter, view_rules);
    rewriter.finish();
}

}  // namespace kpu::passes
