#include "compiler/passes/channels.hpp"

#include <algorithm>

#include "compiler/graph/data.hpp"
#include "compiler/passes/fit/fit_tiles.hpp"

namespace kpu::passes {
namespace {

/// Returns columns [first, first + count) of the last dimension of a constant, with their scales.
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

}  // namespace

ValueId channels_of(Rewriter& rewriter, const Node& node, ValueId id, int64_t first, int64_t count) {
    const graph::Value& from = rewriter.graph.value(id);
    if (from.constant()) return constant_columns(rewriter, id, first, count);
    const auto last = static_cast<int64_t>(from.shape.rank) - 1;
    const graph::NodeOptions options{node.source, from.name + ".channels", from.elem, from.quant};
    return rewriter.add("slice", {id}, slice_of(last, first, first + count), options);
}

bool is_per_channel(const graph::Value& value) {
    return value.quant && value.quant.kind != proto::Quant::PER_TENSOR;
}

}  // namespace kpu::passes
