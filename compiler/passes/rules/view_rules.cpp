// Views of views, and views that show all of their operand as it is.
#include <algorithm>

#include "compiler/passes/rules.hpp"

namespace kpu::passes {
namespace {

/// Views keep elements as they are, but an axis of scales may mean another dimension afterwards.
bool scales_have_axis(const graph::Value& value) {
    return value.quant && value.quant.kind != proto::Quant::PER_TENSOR;
}

void become_reshape(Rewriter& rewriter, NodeId id, ValueId x) {
    const Dims& shape = rewriter.graph.value(rewriter.graph.nodes[id].outputs[0]).shape;
    become(rewriter, id, "reshape", {x}, graph::attributes({graph::ints("target_shape", shape_list(shape))}));
}

bool simplify_transpose(Rewriter& rewriter, NodeId id) {
    Graph& graph = rewriter.graph;
    const Node& node = graph.nodes[id];
    if (!is(node, "transpose")) return false;
    const ValueId x = node.inputs[0];
    const std::vector<int> perm = perm_of(node);
    if (std::is_sorted(perm.begin(), perm.end())) {
        replace_by(rewriter, id, x);
        return true;
    }
    if (moves_nothing(graph.value(x).shape, perm) && !scales_have_axis(graph.value(x))) {
        become_reshape(rewriter, id, x);
        return true;
    }
    const Node* maker = rewriter.producer(x);
    if (maker == nullptr || !is(*maker, "transpose")) return false;
    const std::vector<int> first = perm_of(*maker);
    std::vector<int64_t> both;
    for (const int d : perm) both.push_back(first[static_cast<size_t>(d)]);
    become(rewriter, id, "transpose", {maker->inputs[0]}, graph::attributes({graph::ints("perm", both)}));
    return true;
}

/// Drops a reshape that drops the dimensions which a reduction has kept.
bool drop_kept_dimensions(Rewriter& rewriter, NodeId id, const Node& maker) {
    Graph& graph = rewriter.graph;
    if (maker.spec().traits.needs != Needs::reduced || maker.attrs.integer("keepdims", 0) == 0) return false;
    if (!rewriter.read_only_by(maker.outputs[0], id)) return false;
    const graph::Value& x = graph.value(maker.inputs[0]);
    BoundAttrs attrs = maker.attrs;
    set_integer(attrs, "keepdims", 0);
    const Dims dropped = infer_shapes(maker.spec(), {{x.elem, x.shape}}, attrs)[0];
    if (!(dropped == graph.value(graph.nodes[id].outputs[0]).shape)) return false;
    std::swap(graph.nodes[id].source,
              graph.nodes[static_cast<size_t>(rewriter.producer_id(maker.outputs[0]))].source);
    become(rewriter, id, maker.spec().name, maker.inputs, attrs);
    return true;
}

bool simplify_reshape(Rewriter& rewriter, NodeId id) {
    Graph& graph = rewriter.graph;
    const Node& node = graph.nodes[id];
    if (!is(node, "reshape")) return false;
    const ValueId x = node.inputs[0];
    if (graph.value(x).shape == graph.value(node.outputs[0]).shape) {
        replace_by(rewriter, id, x);
        return true;
    }
    const Node* maker = rewriter.producer(x);
    if (maker == nullptr) return false;
    if (!is(*maker, "reshape")) return drop_kept_dimensions(rewriter, id, *maker);
    become_reshape(rewriter, id, maker->inputs[0]);
    return true;
}

/// Concatenations of one, parts that are the whole, empty borders.
bool drop_whole(Rewriter& rewriter, NodeId id) {
    const Graph& graph = rewriter.graph;
    const Node& node = graph.nodes[id];
    if (!is_any(node, {"concat", "split", "slice", "pad"})) return false;
    if (node.inputs.size() != 1 || node.outputs.size() != 1) return false;
    const Dims& shape = graph.value(node.inputs[0]).shape;
    if (!(shape == graph.value(node.outputs[0]).shape)) return false;
    if (is(node, "slice")) {
        for (const SliceRange& range : slice_ranges(shape, node.attrs)) {
            if (range.step != 1) return false;  // all of it, backwards
        }
    }
    replace_by(rewriter, id, node.inputs[0]);
    return true;
}

/// Reductions of one element.
bool drop_reduction(Rewriter& rewriter, NodeId id) {
    const Graph& graph = rewriter.graph;
    const Node& node = graph.nodes[id];
    if (!is_any(node, {"reduce_sum", "reduce_max", "reduce_min", "reduce_mean", "reduce_prod"})) return false;
    const graph::Value &x = graph.value(node.inputs[0]), &y = graph.value(node.outputs[0]);
    if (x.elements() != y.elements() || x.quant || y.quant || y.shape.rank == 0) return false;
    become_reshape(rewriter, id, node.inputs[0]);
    return true;
}

}  // namespace

const std::vector<Rule> view_rules = {simplify_transpose, simplify_reshape, drop_whole, drop_reduction};

}  // namespace kpu::passes
