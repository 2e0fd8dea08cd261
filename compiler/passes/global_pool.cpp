// The mean over height and width is an average pool over the whole window: vector units beside the array have
// pools, while reductions need the general ones.
#include "compiler/passes/passes.hpp"
#include "compiler/passes/rules.hpp"

namespace kpu::passes {
namespace {

bool is_mean_over_pixels(const Graph& graph, const Node& node) {
    if (!is(node, "reduce_mean")) return false;
    const Dims& x = graph.value(node.inputs[0]).shape;
    return x.rank == 4 && reduced_axes(x, node.attrs) == std::vector<bool>{false, true, true, false};
}

bool pool(Rewriter& rewriter, NodeId id) {
    Graph& graph = rewriter.graph;
    const Node node = graph.nodes[id];
    if (!is_mean_over_pixels(graph, node)) return false;
    const Dims& x = graph.value(node.inputs[0]).shape;
    const BoundAttrs window =
        graph::attributes({graph::ints("kernel_shape", {x[1], x[2]}), graph::ints("pads", {0, 0, 0, 0}),
                           graph::ints("strides", {1, 1})});
    if (node.attrs.integer("keepdims", 0) != 0) {
        become(rewriter, id, "avgpool", node.inputs, window);
        return true;
    }
    const graph::Value& y = graph.value(node.outputs[0]);
    graph::NodeOptions options{node.source, y.name, y.elem, y.quant};
    const std::vector<int64_t> target = shape_list(y.shape);
    const ValueId pooled = rewriter.add("avgpool", node.inputs, window, options);
    graph.nodes.back().absorbed = node.absorbed;
    become(rewriter, id, "reshape", {pooled}, graph::attributes({graph::ints("target_shape", target)}));
    return true;
}

}  // namespace

void pool_globally(Graph& graph, const Options&) {
    Rewriter rewriter(graph);
    apply_rules(rewriter, {pool});
    rewriter.finish();
}

}  // namespace kpu::passes
