// A convolution of 1x1 that steps over pixels reads those alone that it uses: a slice costs nothing, it is a view.
#include <algorithm>

#include "compiler/passes/passes.hpp"
#include "compiler/passes/rules.hpp"

namespace kpu::passes {
namespace {

/// Bytes of a pixel from which on rows of one pixel move as fast as whole lines do: a burst of DRAM.
constexpr uint64_t least_row = 64;

bool all(const std::vector<int64_t>& values, int64_t value) {
    return std::all_of(values.begin(), values.end(), [value](int64_t of) { return of == value; });
}

bool steps_over_pixels(const Graph& graph, const Node& node) {
    const OpcodeSpec& spec = node.spec();
    if (spec.window_rank != 2 || spec.depthwise || spec.transposed) return false;
    const graph::Value &x = graph.value(node.inputs[0]), &w = graph.value(node.inputs[1]);
    return w.shape[0] == 1 && w.shape[1] == 1 && all(ints_of(node, "pads"), 0) &&
           !all(ints_of(node, "strides"), 1) && !x.constant() &&
           packed_bytes(x.elem, static_cast<uint64_t>(x.shape[3])) >= least_row;
}

bool slice_pixels(Rewriter& rewriter, NodeId id) {
    Graph& graph = rewriter.graph;
    const Node node = graph.nodes[id];
    if (!steps_over_pixels(graph, node)) return false;
    const graph::Value& x = graph.value(node.inputs[0]);
    const Dims& y = graph.value(node.outputs[0]).shape;
    const std::vector<int64_t> steps = ints_of(node, "strides");
    const std::vector<int64_t> ends{(y[1] - 1) * steps[0] + 1, (y[2] - 1) * steps[1] + 1};
    const graph::NodeOptions options{node.source, x.name + ".pixels", x.elem, x.quant};
    std::vector<ValueId> operands = node.inputs;
    operands[0] = rewriter.add("slice", {node.inputs[0]},
                               graph::attributes({graph::ints("starts", {0, 0}), graph::ints("ends", ends),
                                                  graph::ints("axes", {1, 2}), graph::ints("steps", steps)}),
                               options);
    BoundAttrs attrs = node.attrs;
    set_ints(attrs, "strides", {1, 1});
    rewriter.replace_node(id, node.spec().name, operands, attrs);
    return true;
}

}  // namespace

void read_strided(Graph& graph, const Options&) {
    Rewriter rewriter(graph);
    apply_rules(rewriter, {slice_pixels});
    rewriter.finish();
}

}  // namespace kpu::passes
