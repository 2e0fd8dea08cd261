// Transposed convolutions whose result is not a multiple of their operand: lowering cuts only those that are.
#include <algorithm>
#include <optional>

#include "compiler/graph/macs.hpp"
#include "compiler/passes/fit/fit_tiles.hpp"

namespace kpu::passes {
namespace {

/// Changes of one spatial dimension: X gets zeros at its end, Y is cut off at its end.
struct Evened {
    int64_t x = 0, y = 0;
    int64_t pad_behind = 0, output_padding = 0;
};

/// Returns the changes; nothing where pads reach beyond a window.
std::optional<Evened> even_out(const Node& node, size_t d, int64_t x, int64_t w, int64_t y) {
    const int64_t step = ints_of(node, "strides")[d], reach = ints_of(node, "dilations")[d] * (w - 1) + 1,
                  before = ints_of(node, "pads")[d];
    if (before >= reach) return std::nullopt;
    Evened even;
    even.x = std::max(x, (y + step - 1) / step);
    even.y = even.x * step;
    const int64_t rest = (even.x - 1) * step + reach - before - even.y;
    even.pad_behind = std::max<int64_t>(0, rest);
    even.output_padding = std::max<int64_t>(0, -rest);
    return even;
}

/// True if one image whole and a few columns of the result fit.
bool image_fits(const graph::Value& x, const graph::Value& w, const graph::Value& y, int64_t groups,
                const TileRoom& room) {
    constexpr int64_t few = 16;
    const int64_t out = y.shape[3], columns = std::min(out / groups, few);
    return room.fits(x.elem, x.shape.product() / x.shape[0] / groups + w.shape.product() / out * columns +
                                 y.shape.product() / y.shape[0] / out * columns);
}

}  // namespace

bool fit_transposed(Rewriter& rewriter, NodeId id, const TileRoom& room) {
    Graph& graph = rewriter.graph;
    const Node node = graph.nodes[id];
    if (!node.spec().transposed) return false;
    const graph::Value x = graph.value(node.inputs[0]), w = graph.value(node.inputs[1]),
                       y = graph.value(node.outputs[0]);
    if (image_fits(x, w, y, node.attrs.integer("groups", 1), room)) return false;
    std::vector<int64_t> pads = ints_of(node, "pads"), more{0, 0}, zeros(8, 0);
    Dims even_y = y.shape;
    for (size_t d = 0; d < 2; ++d) {
        const std::optional<Evened> even = even_out(node, d, x.shape[d + 1], w.shape[d], y.shape[d + 1]);
        if (!even) return false;
        zeros[4 + d + 1] = even->x - x.shape[d + 1];
        even_y[d + 1] = even->y;
        pads[d + 2] = even->pad_behind;
        more[d] = even->output_padding;
    }
    const bool padded = std::count(zeros.begin(), zeros.end(), 0) < 8, cut = !(even_y == y.shape);
    if (!padded && !cut) return false;
    const auto named = [&](const graph::Value& of, const char* what) {
        return graph::NodeOptions{node.source, of.name + what, of.elem, of.quant};
    };
    std::vector<ValueId> operands = node.inputs;
    if (padded)
        operands[0] =
            rewriter.add("pad", {node.inputs[0]},
                         graph::attributes({graph::ints("pads", zeros), graph::word("mode", "constant"),
                                            graph::real("constant_value", 0)}),
                         named(x, ".padded"));
    BoundAttrs attrs = node.attrs;
    set_ints(attrs, "pads", pads);
    set_ints(attrs, "output_padding", more);
    const uint64_t macs = graph::macs_of(graph, node);
    if (!cut) {
        rewriter.replace_node(id, node.spec().name, operands, attrs);
        graph::set_macs(graph.nodes[id], macs);
        return true;
    }
    const ValueId whole = rewriter.add(node.spec().name, operands, attrs, named(y, ".whole"));
    graph::set_macs(graph.nodes.back(), macs);
    rewriter.replace_node(
        id, "slice", {whole},
        graph::attributes({graph::ints("starts", {0, 0}), graph::ints("ends", {y.shape[1], y.shape[2]}),
                           graph::ints("axes", {1, 2}), graph::ints("steps", {1, 1})}));
    return true;
}

}  // namespace kpu::passes
