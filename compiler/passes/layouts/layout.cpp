// Orders of dimensions inside the network (layouts.hpp): transposes cancel, move to where they cost least, into
// constants, and to the host's side of inputs and outputs.
#include <algorithm>
#include <optional>

#include "compiler/graph/data.hpp"
#include "compiler/passes/layouts/layouts.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/passes/rules.hpp"

namespace kpu::passes {
namespace {

/// Reductions keep their dimensions, so that all orders suit them; a reshape drops them. simplify undoes it.
bool keep_dimensions(Rewriter& rewriter, NodeId id) {
    Graph& graph = rewriter.graph;
    const Node node = graph.nodes[id];
    if (node.spec().traits.needs != Needs::reduced || node.attrs.find("keepdims") == nullptr) return false;
    if (node.attrs.integer("keepdims", 0) != 0) return false;
    BoundAttrs attrs = node.attrs;
    set_integer(attrs, "keepdims", 1);
    const graph::Value& y = graph.value(node.outputs[0]);
    graph::NodeOptions options;
    options.source = node.source;
    options.elem = y.elem;
    options.quant = y.quant;
    options.output = y.name;
    const std::vector<int64_t> target = shape_list(y.shape);
    const ValueId kept = rewriter.add(node.spec().name, node.inputs, attrs, options);
    graph.nodes.back().absorbed = node.absorbed;
    become(rewriter, id, "reshape", {kept}, graph::attributes({graph::ints("target_shape", target)}));
    return true;
}

/// Transposes weights: the operand A of a product is reshape(transpose(x)), [N, ...] to [N, K]: the constant
/// B has its rows in the order of x instead.
bool transpose_weights(Rewriter& rewriter, NodeId id) {
    Graph& graph = rewriter.graph;
    const Node& node = graph.nodes[id];
    if (!is_matrix_product(node)) return false;
    const graph::Value& b = graph.value(node.inputs[1]);
    const Node* reshape = rewriter.producer(node.inputs[0]);
    if (!b.constant() || b.shape.rank != 2 || reshape == nullptr || !is(*reshape, "reshape")) return false;
    if (b.quant && b.quant.kind != proto::Quant::PER_TENSOR && b.quant.axis == 0) return false;
    const Node* transpose = rewriter.producer(reshape->inputs[0]);
    if (transpose == nullptr || !is(*transpose, "transpose")) return false;
    const std::vector<int> perm = perm_of(*transpose);
    const Dims from = graph.value(transpose->outputs[0]).shape, to = graph.value(node.inputs[0]).shape;
    if (perm[0] != 0 || to.rank != 2 || to[0] != from[0] || from.rank < 2) return false;
    Dims rows;  // B as [transposed dimensions..., columns]
    for (size_t d = 1; d < from.rank; ++d) rows[rows.rank++] = from[d];
    rows[rows.rank++] = b.shape[1];
    Perm back;  // dimension d of x is dimension back[d] of those rows
    const Perm inverse = graph::inverse(perm);
    for (size_t d = 1; d < inverse.size(); ++d) back.push_back(inverse[d] - 1);
    back.push_back(static_cast<int>(back.size()));
    graph::Data data = graph::permuted(b.data, graph::element_bytes(b.elem), rows, back);
    const ValueId x = transpose->inputs[0];
    graph::NodeOptions options;
    options.source = reshape->source;
    options.elem = graph.value(x).elem;
    options.quant = graph.value(node.inputs[0]).quant;
    std::vector<ValueId> operands = node.inputs;
    const BoundAttrs attrs = node.attrs;
    const std::string name(node.spec().name);
    operands[1] = rewriter.add_constant(b.name, b.elem, Dims(b.shape), std::move(data), BoundQuant(b.quant));
    operands[0] = rewriter.add("reshape", {x},
                               graph::attributes({graph::ints("target_shape", shape_list(to))}), options);
    become(rewriter, id, name, operands, attrs);
    return true;
}

/// Returns the dimension of `x` with which a run begins; nothing: its dimensions do not follow each other
/// there.
std::optional<size_t> begin_of(const Run& run, const std::vector<int>& perm, const Dims& x) {
    std::optional<size_t> begin, last;
    for (size_t d = run.from; d < run.from_end; ++d) {
        const auto at = static_cast<size_t>(perm[d]);
        if (x[at] == 1) continue;
        for (size_t between = last ? *last + 1 : at; between < at; ++between) {
            if (x[between] != 1) return std::nullopt;
        }
        if (last && at < *last) return std::nullopt;
        if (!begin) begin = at;
        last = at;
    }
    return begin ? begin : std::optional<size_t>(static_cast<size_t>(perm[run.from]));
}

bool scales_have_axis(const graph::Value& value) {
    return value.quant && value.quant.kind != proto::Quant::PER_TENSOR;
}

/// Rewrites reshape(transpose(x)) as transpose(reshape(x)) where the dimensions that are joined, or cut, are
/// neighbours in x.
bool reshape_first(Rewriter& rewriter, NodeId id) {
    Graph& graph = rewriter.graph;
    const Node node = graph.nodes[id];
    if (!is(node, "reshape")) return false;
    const Node* maker = rewriter.producer(node.inputs[0]);
    if (maker == nullptr || !is(*maker, "transpose") || !rewriter.read_only_by(node.inputs[0], id))
        return false;
    const Node transpose = *maker;
    const graph::Value x = graph.value(transpose.inputs[0]), y = graph.value(node.outputs[0]);
    if (x.constant() || scales_have_axis(x) || scales_have_axis(y) || y.elements() <= 1) return false;
    const std::vector<int> perm = perm_of(transpose);
    std::vector<std::pair<size_t, Run>> order;
    for (const Run& run : runs_of(graph.value(node.inputs[0]).shape, y.shape)) {
        const std::optional<size_t> begin = begin_of(run, perm, x.shape);
        if (!begin) return false;
        order.emplace_back(*begin, run);
    }
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    Dims shape;
    std::vector<int64_t> back(y.shape.rank);
    for (const auto& [begin, run] : order) {
        for (size_t d = run.to; d < run.to_end; ++d) {
            back[d] = shape.rank;
            shape[shape.rank++] = y.shape[d];
        }
    }
    const ValueId reshaped = rewriter.add("reshape", {transpose.inputs[0]},
                                          graph::attributes({graph::ints("target_shape", shape_list(shape))}),
                                          {node.source, y.name, x.elem, x.quant});
    graph.nodes.back().absorbed = node.absorbed;
    become(rewriter, id, "transpose", {reshaped}, graph::attributes({graph::ints("perm", back)}));
    graph.nodes[id].source = transpose.source;
    return true;
}

/// Makes one round of search. True if another one may find more. Result: whether another one may find more.
bool assign_once(Graph& graph, bool host_layout) {
    {
        Rewriter rewriter(graph);
        apply_rules(rewriter, {keep_dimensions});
        rewriter.finish();
    }
    Layouts layouts(graph, host_layout);
    layouts.search();
    rewrite_layouts(graph, layouts, host_layout);
    Rewriter rewriter(graph);
    apply_rules(rewriter, view_rules);
    bool moved = false;
    for (NodeId id = 0; id < graph.nodes.size(); ++id)
        moved = (rewriter.alive(id) && reshape_first(rewriter, id)) || moved;
    rewriter.finish();
    return moved;
}

}  // namespace

void assign_layouts(Graph& graph, const Options& options) {
    constexpr int most_rounds = 8;  // a transpose passes one reshape in each
    for (int round = 0; round < most_rounds && assign_once(graph, options.host_layout); ++round) {
    }
    Rewriter rewriter(graph);
    apply_rules(rewriter, view_rules);
    apply_rules(rewriter, {transpose_weights});
    rewriter.finish();
}

}  // namespace kpu::passes
