// Lookups in tables larger than L1.
#include <algorithm>

#include "compiler/graph/supports.hpp"
#include "compiler/passes/fit_tiles.hpp"

namespace kpu::passes {
namespace {

/// A row that a kernel copies takes about as long as so many bytes that stream.
constexpr int64_t least_row = 512;

}  // namespace

bool fit_gather(Rewriter& rewriter, NodeId id, const TileRoom& room) {
    Graph& graph = rewriter.graph;
    const Node node = graph.nodes[id];
    if (!is(node, "gather")) return false;
    const graph::Value x = graph.value(node.inputs[0]);
    const graph::Value &index = graph.value(node.inputs[1]), &y = graph.value(node.outputs[0]);
    if (!x.constant() || has_quant(index) ||
        !graph::is_supported({}, "gather_rows", {x.elem, index.elem}, {y.elem}))
        return false;
    const size_t axis = from_front(node.attrs.integer("axis", 0), x.shape.rank);
    if (std::any_of(x.shape.begin(), x.shape.begin() + axis, [](int64_t size) { return size != 1; }))
        return false;
    const int64_t rows = x.shape[axis], width = x.shape.product() / rows, count = index.shape.product();
    const auto bytes = static_cast<int64_t>(packed_bytes(x.elem, static_cast<uint64_t>(x.shape.product())));
    const bool column_fits = room.fits(x.elem, rows + count);
    if (column_fits && count * std::max(bytes / rows, least_row) >= bytes) return false;
    const graph::NodeOptions options{node.source, y.name + ".rows", y.elem, y.quant};
    const ValueId table =
        x.shape.rank == 2
            ? node.inputs[0]
            : rewriter.add_constant(x.name, x.elem, graph::dims({rows, width}), x.data, x.quant);
    const ValueId places =
        rewriter.add("reshape", {node.inputs[1]}, graph::attributes({graph::ints("target_shape", {count})}),
                     {node.source, index.name + ".rows", index.elem, {}});
    const ValueId picked = rewriter.add("gather_rows", {table, places}, {}, options);
    rewriter.replace_node(
        id, "reshape", {picked},
        graph::attributes({graph::ints("target_shape", shape_list(graph.value(node.outputs[0]).shape))}));
    return true;
}

}  // namespace kpu::passes
