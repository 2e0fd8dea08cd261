// Nodes whose smallest tile is larger than L1: reductions, pools, resizes, mirrored padding, and the pass for all kinds.
#include "compiler/passes/fit/fit_tiles.hpp"

#include <algorithm>
#include <utility>

#include "compiler/graph/data.hpp"
#include "compiler/graph/resizing.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/passes/rules.hpp"

namespace kpu::passes {

int64_t run_behind(const graph::Value& x, size_t d) {
    constexpr int64_t run_bytes = 16;
    int64_t behind = 1;
    for (size_t i = d + 1; i < x.shape.rank; ++i) behind *= x.shape[i];
    return std::min(behind, run_bytes * run_bytes / static_cast<int64_t>(packed_bytes(x.elem, run_bytes)));
}

int64_t divisor_that_fits(int64_t length, int64_t run, ElemType elem, const TileRoom& room) {
    for (int64_t parts = 2; parts * parts <= length; ++parts) {
        if (length % parts == 0 && room.fits(elem, length / parts * run)) return length / parts;
    }
    if (room.fits(elem, length)) return 1;
    const int64_t most = most_that_fit(length, run, elem, room);
    for (int64_t part = most; part > 1 && 2 * part > most; --part) {
        if (length % part == 0) return part;
    }
    return 1;
}

int64_t most_that_fit(int64_t length, int64_t run, ElemType elem, const TileRoom& room) {
    int64_t most = length;
    while (most > 1 && !room.fits(elem, most * run)) most = (most + 1) / 2;
    return most;
}

int64_t rest_of_parts(int64_t length, int64_t run, ElemType elem, const TileRoom& room) {
    const int64_t most = most_that_fit(length, run, elem, room);
    return room.fits(elem, length) || most == 1 ? 0 : length % most;
}

namespace {

BoundAttrs with_axes(const Node& node, std::vector<int64_t> axes, bool keep) {
    BoundAttrs attrs = node.attrs;
    set_ints(attrs, "axes", std::move(axes));
    set_integer(attrs, "keepdims", keep ? 1 : 0);
    return attrs;
}

graph::NodeOptions like(const Graph& graph, const Node& node, ValueId value) {
    const graph::Value& of = graph.value(value);
    return {node.source, of.name + ".part", of.elem, of.quant};
}

/// Splits one long dimension in two, of which the second fits.
bool reduce_halves(Rewriter& rewriter, NodeId id, size_t d, const TileRoom& room) {
    Graph& graph = rewriter.graph;
    const Node node = graph.nodes[id];
    const graph::Value x = graph.value(node.inputs[0]);
    const int64_t part = divisor_that_fits(x.shape[d], run_behind(x, d), x.elem, room);
    if (part == 1 || x.shape.rank == max_rank) return false;
    std::vector<int64_t> target = shape_list(x.shape);
    target[d] /= part;
    target.insert(target.begin() + static_cast<std::ptrdiff_t>(d) + 1, part);
    const graph::NodeOptions options = like(graph, node, node.inputs[0]);
    const ValueId cut = rewriter.add("reshape", {node.inputs[0]},
                                     graph::attributes({graph::ints("target_shape", target)}), options);
    const ValueId first =
        rewriter.add(node.spec().name, {cut}, with_axes(node, {static_cast<int64_t>(d) + 1}, false), options);
    rewriter.replace_node(id, node.spec().name, {first}, node.attrs);
    return true;
}

/// Splits one long dimension in two pieces, of which the first has such a divisor.
bool reduce_pieces(Rewriter& rewriter, NodeId id, size_t d, const TileRoom& room) {
    Graph& graph = rewriter.graph;
    const Node node = graph.nodes[id];
    const graph::Value x = graph.value(node.inputs[0]);
    const int64_t length = x.shape[d], first = length - rest_of_parts(length, run_behind(x, d), x.elem, room);
    if (first == length) return false;
    const auto axis = static_cast<int64_t>(d);
    const graph::NodeOptions options = like(graph, node, node.inputs[0]);
    std::vector<ValueId> results;
    for (const auto& [from, to] : {std::pair<int64_t, int64_t>{0, first}, {first, length}}) {
        const ValueId piece = rewriter.add("slice", {node.inputs[0]}, slice_of(axis, from, to), options);
        ValueId result = rewriter.add(node.spec().name, {piece}, with_axes(node, {axis}, true), options);
        if (is(node, "reduce_mean")) {  // the mean of both counts each as one half
            const double share = 2 * static_cast<double>(to - from) / static_cast<double>(length);
            const ValueId weight =
                rewriter.add_constant(node.source.name + "/constant", x.elem, graph::dims({1}),
                                      graph::make_numbers(x.elem, {share}));
            result = rewriter.add("mul", {result, weight}, {}, options);
        }
        results.push_back(result);
    }
    const ValueId both =
        rewriter.add("concat", results, graph::attributes({graph::integer("axis", axis)}), options);
    rewriter.replace_node(id, node.spec().name, {both}, node.attrs);
    return true;
}

}  // namespace

namespace {

/// Sums of steps are rounded once, at the end: in floats until then. False: the device has no such floats.
bool reduce_in_floats(Rewriter& rewriter, NodeId id, const TileRoom& room) {
    Graph& graph = rewriter.graph;
    const Node node = graph.nodes[id];
    const graph::Value x = graph.value(node.inputs[0]), y = graph.value(node.outputs[0]);
    if (!has_quant(x) || !has_quant(y)) return false;
    for (const ElemType real : {ElemType::f32, ElemType::f16}) {
        const auto takes = [&](std::string_view opcode, ElemType from, ElemType to) {
            return graph::is_supported(room.supports, opcode, {from}, {to});
        };
        if (!takes("dequantize", x.elem, real) || !takes(node.spec().name, real, real) ||
            !takes("quantize", real, y.elem))
            continue;
        const ValueId floats =
            rewriter.add("dequantize", {node.inputs[0]}, {}, {node.source, x.name + ".real", real, {}});
        const ValueId result =
            rewriter.add(node.spec().name, {floats}, node.attrs, {node.source, y.name + ".real", real, {}});
        rewriter.replace_node(id, "quantize", {result}, {});
        return true;
    }
    return false;
}

int64_t reduced_elements(const Dims& shape, const std::vector<bool>& reduced) {
    int64_t elements = 1;
    for (size_t d = 0; d < shape.rank; ++d) elements *= reduced[d] ? shape[d] : 1;
    return elements;
}

/// True if some steps of it are the result, so those of parts are too.
bool chooses(const Node& node) { return node.spec().traits.in_steps == InSteps::moved; }

}  // namespace

bool fit_reduction(Rewriter& rewriter, NodeId id, const TileRoom& room) {
    Graph& graph = rewriter.graph;
    const Node node = graph.nodes[id];
    if (node.spec().traits.needs != Needs::reduced || node.attrs.find("axes") == nullptr) return false;
    const graph::Value& x = graph.value(node.inputs[0]);
    const std::vector<bool> reduced = reduced_axes(x.shape, node.attrs);
    std::vector<int64_t> inner;
    int64_t elements = 1, run = 0;
    size_t first =
        x.shape.rank;  // the outermost one of `inner`; in front of it the first that does not fit any more
    for (size_t d = x.shape.rank; d-- > 0;) {
        if (!reduced[d]) continue;
        first = d;
        if (run == 0) run = run_behind(x, d);
        if (!room.fits(x.elem, elements * x.shape[d] * run)) break;
        elements *= x.shape[d];
        inner.insert(inner.begin(), static_cast<int64_t>(d));
    }
    if (inner.size() == static_cast<size_t>(std::count(reduced.begin(), reduced.end(), true))) return false;
    if (!chooses(node) && (has_quant(x) || has_quant(graph.value(node.outputs[0]))))
        return !room.fits(x.elem, reduced_elements(x.shape, reduced)) && reduce_in_floats(rewriter, id, room);
    if (elements == 1)
        return reduce_halves(rewriter, id, first, room) || reduce_pieces(rewriter, id, first, room);
    const ValueId parts = rewriter.add(node.spec().name, {node.inputs[0]}, with_axes(node, inner, true),
                                       like(graph, node, node.inputs[0]));
    rewriter.replace_node(id, node.spec().name, {parts}, node.attrs);
    return true;
}

bool fit_global_pool(Rewriter& rewriter, NodeId id, const TileRoom& room) {
    Graph& graph = rewriter.graph;
    const Node node = graph.nodes[id];
    if (node.spec().traits.needs != Needs::pool) return false;
    const graph::Value& x = graph.value(node.inputs[0]);
    const Dims& y = graph.value(node.outputs[0]).shape;
    const auto window = ints_of(node, "kernel_shape"), pads = ints_of(node, "pads");
    const bool whole = x.shape.rank == 4 && y[1] == 1 && y[2] == 1 && window[0] == x.shape[1] &&
                       window[1] == x.shape[2] && std::count(pads.begin(), pads.end(), 0) == 4;
    if (!whole || has_quant(x) || window[0] == 1 || window[1] == 1 ||
        room.fits(x.elem, window[0] * window[1]))
        return false;
    BoundAttrs along_x = node.attrs, along_y = node.attrs;
    set_ints(along_x, "kernel_shape", {1, window[1]});
    set_ints(along_y, "kernel_shape", {window[0], 1});
    const ValueId rows =
        rewriter.add(node.spec().name, {node.inputs[0]}, along_x, like(graph, node, node.inputs[0]));
    rewriter.replace_node(id, node.spec().name, {rows}, along_y);
    return true;
}

namespace {

/// True if X and Y are too large with these dimensions whole, of which one can be left for a second node.
bool is_too_large(const graph::Value& x, const Dims& y, const std::vector<size_t>& whole,
                  const TileRoom& room) {
    if (whole.size() < 2) return false;
    int64_t of_x = 1, of_y = 1;
    for (const size_t d : whole) {
        of_x *= x.shape[d];
        of_y *= y[d];
    }
    return !room.fits(x.elem, (of_x + of_y) * run_behind(x, whole.back()));
}

}  // namespace

bool fit_resize(Rewriter& rewriter, NodeId id, const TileRoom& room) {
    Graph& graph = rewriter.graph;
    const Node node = graph.nodes[id];
    if (node.spec().traits.needs != Needs::resized) return false;
    const graph::Value& x = graph.value(node.inputs[0]);
    const Dims& y = graph.value(node.outputs[0]).shape;
    std::vector<size_t> whole;
    for (size_t d = 0; d < y.rank; ++d) {
        if (x.shape[d] != y[d] && !(graph::repeats_elements(node.attrs) && y[d] % x.shape[d] == 0))
            whole.push_back(d);
    }
    if (!is_too_large(x, y, whole, room)) return false;
    const size_t along = whole.front();
    BoundAttrs first = node.attrs, second = node.attrs;
    std::vector<int64_t> sizes = shape_list(x.shape);
    sizes[along] = y[along];
    set_ints(first, "sizes", sizes);
    for (size_t i = 0; i < first.list.size(); ++i) {
        if (first.list[i].name != "scales" || first.list[i].reals.empty()) continue;
        for (size_t d = 0; d < y.rank; ++d) (d == along ? second : first).list[i].reals[d] = 1;
    }
    const ValueId between =
        rewriter.add(node.spec().name, {node.inputs[0]}, first, like(graph, node, node.inputs[0]));
    rewriter.replace_node(id, node.spec().name, {between}, second);
    return true;
}

bool fit_mirror(Rewriter& rewriter, NodeId id, const TileRoom& room) {
    Graph& graph = rewriter.graph;
    const Node node = graph.nodes[id];
    if (!is(node, "pad") || node.attrs.word("mode", "constant") != "reflect") return false;
    const graph::Value& x = graph.value(node.inputs[0]);
    const Dims& y = graph.value(node.outputs[0]).shape;
    std::vector<size_t> whole;
    for (size_t d = 0; d < y.rank; ++d) {
        if (x.shape[d] != y[d]) whole.push_back(d);
    }
    if (!is_too_large(x, y, whole, room)) return false;
    std::vector<int64_t> first = ints_of(node, "pads"), second = first;
    for (size_t d = 0; d < y.rank; ++d) {
        std::vector<int64_t>& without = d == whole.front() ? second : first;
        without[d] = without[d + y.rank] = 0;
    }
    BoundAttrs one = node.attrs, other = node.attrs;
    set_ints(one, "pads", first);
    set_ints(other, "pads", second);
    const ValueId between = rewriter.add("pad", {node.inputs[0]}, one, like(graph, node, node.inputs[0]));
    rewriter.replace_node(id, "pad", {between}, other);
    return true;
}

void fit_tiles(Graph& graph, const Options& options) {
    if (options.l1_bytes == 0) return;
    constexpr FitRule rules[] = {
        fit_reduction, fit_search,      fit_top_k,  fit_gathered, fit_global_pool, fit_pooled_line,
        fit_resize,    fit_long_resize, fit_mirror, fit_border,   fit_backwards,   fit_running_sum,
        fit_softmax,   fit_norm,        fit_groups, fit_lookup,   fit_gather,      fit_transposed};
    const TileRoom room(options.l1_bytes, options.supports);
    Rewriter rewriter(graph);
    const auto changed = [&](NodeId id) {
        return std::any_of(std::begin(rules), std::end(rules),
                           [&](FitRule rule) { return rewriter.alive(id) && rule(rewriter, id, room); });
    };
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {  // those that are added too
        while (changed(id)) {
        }
    }
    for (NodeId id = 0, given = graph.nodes.size(); id < given; ++id) {
        if (rewriter.alive(id)) compute_parts(rewriter, id);
    }
    rewriter.finish();
}

}  // namespace kpu::passes
