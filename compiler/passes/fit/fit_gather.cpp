// Lookups in tables larger than L1.
#include <algorithm>
#include <numeric>

#include "compiler/graph/data.hpp"
#include "compiler/graph/supports.hpp"
#include "compiler/passes/fit/fit_tiles.hpp"

namespace kpu::passes {
namespace {

/// A row that a kernel copies takes about as long as so many bytes of a table that is read as a whole, or, if it exceeds
/// L1, a few columns at a time.
constexpr int64_t row_of_whole = 2048, row_of_columns = 512;

/// Returns the fewest equal parts of a row that fit; 0: there are none of some size.
int64_t parts_of_row(ElemType elem, int64_t width, const TileRoom& room) {
    constexpr int64_t shortest = 32;
    if (room.fits(elem, width)) return 1;
    for (int64_t parts = 2; width / parts >= shortest; ++parts) {
        if (width % parts == 0 && room.fits(elem, width / parts)) return parts;
    }
    return 0;
}

ValueId reshaped(Rewriter& rewriter, const Node& node, ValueId value, std::vector<int64_t> shape) {
    const graph::Value& of = rewriter.graph.value(value);
    if (shape_list(of.shape) == shape) return value;
    const graph::NodeOptions options{node.source, of.name + ".rows", of.elem, of.quant};
    return rewriter.add("reshape", {value},
                        graph::attributes({graph::ints("target_shape", std::move(shape))}), options);
}

/// Returns rows of places: row i is parts i * parts, i * parts + 1, ..., also where i counts from the end.
ValueId places_of_parts(Rewriter& rewriter, const Node& node, ValueId rows, int64_t parts) {
    std::vector<double> numbers(static_cast<size_t>(parts));
    std::iota(numbers.begin(), numbers.end(), 0.0);
    const auto constant = [&](const std::vector<double>& of) {
        return rewriter.add_constant(node.source.name + "/constant", ElemType::i32,
                                     graph::dims({1, static_cast<int64_t>(of.size())}),
                                     graph::make_numbers(ElemType::i32, of));
    };
    const graph::NodeOptions options{node.source, node.source.name + ".parts", ElemType::i32, {}};
    const ValueId first = rewriter.add("mul", {rows, constant({static_cast<double>(parts)})}, {}, options);
    return rewriter.add("add", {first, constant(numbers)}, {}, options);
}

}  // namespace

bool fit_lookup(Rewriter& rewriter, NodeId id, const TileRoom& room) {
    const Node node = rewriter.graph.nodes[id];
    if (!is(node, "gather_elements")) return false;
    const graph::Value& x = rewriter.graph.value(node.inputs[0]);
    const size_t axis = from_front(node.attrs.integer("axis", 0), x.shape.rank);
    const int64_t length = x.shape[axis], count = rewriter.graph.value(node.outputs[0]).shape.product();
    if (x.shape.product() != length || room.fits(x.elem, length + count)) return false;
    const ValueId places = reshaped(rewriter, node, node.inputs[1], {count});
    rewriter.replace_node(id, "gather", {node.inputs[0], places},
                          graph::attributes({graph::integer("axis", static_cast<int64_t>(axis))}));
    return true;
}

bool fit_gather(Rewriter& rewriter, NodeId id, const TileRoom& room) {
    Graph& graph = rewriter.graph;
    const Node node = graph.nodes[id];
    if (!is(node, "gather")) return false;
    const graph::Value x = graph.value(node.inputs[0]), index = graph.value(node.inputs[1]),
                       y = graph.value(node.outputs[0]);
    const auto is_table = [&](const graph::Port& port) { return port.value == node.inputs[0]; };
    const bool given = std::any_of(graph.inputs.begin(), graph.inputs.end(), is_table);
    if (!(x.constant() || given) || has_quant(index) ||
        !graph::is_supported({}, "gather_rows", {x.elem, index.elem}, {y.elem}))
        return false;
    const size_t axis = from_front(node.attrs.integer("axis", 0), x.shape.rank);
    if (std::any_of(x.shape.begin(), x.shape.begin() + axis, [](int64_t size) { return size != 1; }))
        return false;
    const int64_t rows = x.shape[axis], width = x.shape.product() / rows, count = index.shape.product();
    const auto bytes = static_cast<int64_t>(packed_bytes(x.elem, static_cast<uint64_t>(x.shape.product())));
    const bool column_fits = room.fits(x.elem, rows + count);
    const int64_t least = room.fits(x.elem, x.shape.product()) ? row_of_whole : row_of_columns;
    if (column_fits && count * std::max(bytes / rows, least) >= bytes) return false;
    const int64_t parts = parts_of_row(x.elem, width, room);
    if (parts == 0) return false;
    const Dims shape = graph::dims({rows * parts, width / parts});
    const ValueId table = x.shape == shape ? node.inputs[0]
                          : given          ? reshaped(rewriter, node, node.inputs[0], shape_list(shape))
                                           : rewriter.add_constant(x.name, x.elem, shape, x.data, x.quant);
    ValueId places = node.inputs[1];
    if (parts > 1)
        places = places_of_parts(rewriter, node, reshaped(rewriter, node, places, {count, 1}), parts);
    places = reshaped(rewriter, node, places, {count * parts});
    const ValueId picked =
        rewriter.add("gather_rows", {table, places}, {}, {node.source, y.name + ".rows", y.elem, y.quant});
    rewriter.replace_node(id, "reshape", {picked},
                          graph::attributes({graph::ints("target_shape", shape_list(y.shape))}));
    return true;
}

}  // namespace kpu::passes
