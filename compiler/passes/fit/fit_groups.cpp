// Convolutions of a few large groups: tiles hold whole groups, so each group gets a convolution of its own.
#include "compiler/passes/channels.hpp"
#include "compiler/passes/fit/fit_tiles.hpp"

namespace kpu::passes {

bool fit_groups(Rewriter& rewriter, NodeId id, const TileRoom& room) {
    Graph& graph = rewriter.graph;
    const Node node = graph.nodes[id];
    if (!is_convolution(node) || node.spec().depthwise) return false;
    const int64_t groups = node.attrs.integer("groups", 1);
    const graph::Value &x = graph.value(node.inputs[0]), &w = graph.value(node.inputs[1]),
                       &y = graph.value(node.outputs[0]);
    const size_t last = x.shape.rank - 1U;
    if (groups == 1 || is_per_channel(x) || is_per_channel(y) || (!w.constant() && is_per_channel(w)))
        return false;
    // as much again for what the weights are multiplied with
    if (room.fits(w.elem, 2 * static_cast<int64_t>(w.elements()) / groups)) return false;
    BoundAttrs attrs = node.attrs;
    set_integer(attrs, "groups", 1);
    const int64_t in = x.shape[last] / groups, out = y.shape[last] / groups;
    const graph::NodeOptions options{node.source, y.name + ".group", y.elem, y.quant};
    std::vector<ValueId> parts;
    for (int64_t g = 0; g < groups; ++g) {
        std::vector<ValueId> operands{channels_of(rewriter, node, node.inputs[0], g * in, in)};
        for (size_t i = 1; i < node.inputs.size(); ++i)
            operands.push_back(channels_of(rewriter, node, node.inputs[i], g * out, out));
        parts.push_back(rewriter.add(node.spec().name, operands, attrs, options));
    }
    rewriter.replace_node(id, "concat", parts,
                          graph::attributes({graph::integer("axis", static_cast<int64_t>(last))}));
    return true;
}

}  // namespace kpu::passes
