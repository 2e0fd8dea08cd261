// Convolutions of a few large groups: tiles hold whole groups, so each group gets a convolution of its own.
#include "compiler/graph/data.hpp"
#include "compiler/passes/fit_tiles.hpp"

namespace kpu::passes {
namespace {

/// Columns [first, first + count) of the last dimension of a constant, with their scales.
ValueId constant_columns(Rewriter& rewriter, ValueId id, int64_t first, int64_t count) {
    const graph::Value from = rewriter.graph.value(id);
    const size_t last = from.shape.rank - 1U;
    Dims shape = from.shape;
    shape[last] = count;
    const uint64_t each = graph::element_bytes(from.elem),
                   row = static_cast<uint64_t>(from.shape[last]) * each,
                   part = static_cast<uint64_t>(count) * each;
    graph::NewData made =
        graph::new_data(graph::data_bytes(from.elem, static_cast<uint64_t>(shape.product())));
    for (uint64_t at = 0, to = 0; to < made.data.size; at += row, to += part)
        std::copy_n(from.data.bytes + at + static_cast<uint64_t>(first) * each, part, made.bytes + to);
    BoundQuant quant = from.quant;
    if (quant.kind == proto::Quant::PER_CHANNEL && static_cast<size_t>(quant.axis) == last) {
        const auto cut = [&](auto& list) {
            if (list.size() > 1) list = {list.begin() + first, list.begin() + first + count};
        };
        cut(quant.scales);
        cut(quant.zero_points);
    }
    return rewriter.add_constant(from.name, from.elem, shape, std::move(made.data), std::move(quant));
}

/// The same of any value; a slice costs nothing, it is a view.
ValueId columns(Rewriter& rewriter, const Node& node, ValueId id, int64_t first, int64_t count) {
    const graph::Value& from = rewriter.graph.value(id);
    if (from.constant()) return constant_columns(rewriter, id, first, count);
    const auto last = static_cast<int64_t>(from.shape.rank) - 1;
    const graph::NodeOptions options{node.source, from.name + ".channels", from.elem, from.quant};
    return rewriter.add("slice", {id}, slice_of(last, first, first + count), options);
}

bool is_per_channel(const graph::Value& value) {
    return value.quant && value.quant.kind != proto::Quant::PER_TENSOR;
}

}  // namespace

bool fit_groups(Rewriter& rewriter, NodeId id, const TileRoom& room) {
    Graph& graph = rewriter.graph;
    const Node node = graph.nodes[id];
    if (!is_any(node, {"conv1d", "conv2d", "conv2d.acc", "conv3d"})) return false;
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
        std::vector<ValueId> operands{columns(rewriter, node, node.inputs[0], g * in, in)};
        for (size_t i = 1; i < node.inputs.size(); ++i)
            operands.push_back(columns(rewriter, node, node.inputs[i], g * out, out));
        parts.push_back(rewriter.add(node.spec().name, operands, attrs, options));
    }
    rewriter.replace_node(id, "concat", parts,
                          graph::attributes({graph::integer("axis", static_cast<int64_t>(last))}));
    return true;
}

}  // namespace kpu::passes
