// Softmax and norms of rows that are longer than a tile.
#include <algorithm>
#include <cmath>

#include "compiler/graph/data.hpp"
#include "compiler/passes/fit/fit_tiles.hpp"

namespace kpu::passes {
namespace {

/// Adds nodes of one type in the place of a node.
class Parts {
  public:
    Parts(Rewriter& rewriter, const Node& node)
        : rewriter_(rewriter), node_(node), elem_(rewriter.graph.value(node.outputs[0]).elem) {}

    ValueId add(std::string_view opcode, std::vector<ValueId> operands, BoundAttrs attrs = {}) {
        return rewriter_.add(opcode, std::move(operands), std::move(attrs), {node_.source, {}, elem_, {}});
    }
    ValueId constant(double number, const Dims& shape = graph::dims({1})) {
        const std::vector<double> numbers(static_cast<size_t>(shape.product()), number);
        return rewriter_.add_constant(node_.source.name + "/constant", elem_, shape,
                                      graph::make_numbers(elem_, numbers));
    }
    ValueId times(ValueId x, double number) { return add("mul", {x, constant(number)}); }
    ValueId reduce(std::string_view opcode, ValueId x, const std::vector<int64_t>& axes) {
        return add(opcode, {x},
                   graph::attributes({graph::ints("axes", axes), graph::integer("keepdims", 1)}));
    }
    ValueId reshape(ValueId x, const std::vector<int64_t>& shape) {
        return add("reshape", {x}, graph::attributes({graph::ints("target_shape", shape)}));
    }

    /// Computes (x - mean) / sqrt(mean((x - mean)^2) + epsilon) over these dimensions. Squares stay inside of
    /// reduce_l2, which sums them up wider than f16; what it adds up is scaled so that the root of the sum is
    /// no f16's end.
    /// Not centred: the mean counts as 0.
    ValueId normalised(ValueId x, const std::vector<int64_t>& axes, double epsilon, bool centre = true) {
        const Dims shape = rewriter_.graph.value(x).shape;
        double count = 1;
        for (const int64_t axis : axes) count *= static_cast<double>(shape[static_cast<size_t>(axis)]);
        const double scale = std::exp2(-std::floor(std::log2(count) / 4));
        const ValueId centred = centre ? add("sub", {x, reduce("reduce_mean", x, axes)}) : x;
        ValueId root = reduce("reduce_l2", times(centred, scale), axes);
        if (epsilon > 0) {
            const Dims single = rewriter_.graph.value(root).shape;
            const ValueId least = constant(std::sqrt(count * epsilon) * scale, single);
            root =
                reduce("reduce_l2",
                       add("concat", {root, least}, graph::attributes({graph::integer("axis", axes.back())})),
                       {axes.back()});
        }
        return add("div", {centred, times(root, 1 / (std::sqrt(count) * scale))});
    }

    /// Makes the last node, with scale and bias of the node's where it has them.
    void finish(NodeId id, ValueId result) {
        std::vector<ValueId> more(node_.inputs.begin() + 1, node_.inputs.end());
        for (size_t i = 0; i < more.size(); ++i) result = add(i == 0 ? "mul" : "add", {result, more[i]});
        rewriter_.replace(node_.outputs[0], result);
        rewriter_.remove(id);
    }

  private:
    Rewriter& rewriter_;
    const Node node_;
    const ElemType elem_;
};

bool is_plain(const Graph& graph, const Node& node) {
    return is_plain_float(graph.value(node.inputs[0])) && is_plain_float(graph.value(node.outputs[0]));
}

/// Sums of parts, and what stands before each of them.
ValueId running_sum(Parts& parts, ValueId x, const Node& node, std::vector<int64_t> shape, size_t axis) {
    const int64_t length = shape[axis];
    const auto part = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(length))));
    const int64_t count = (length + part - 1) / part, d = static_cast<int64_t>(axis);
    std::vector<int64_t> pads(2 * shape.size(), 0), cut = shape;
    pads[shape.size() + axis] = count * part - length;
    shape[axis] = count * part;
    if (shape[axis] > length)
        x = parts.add("pad", {x},
                      graph::attributes({graph::ints("pads", pads), graph::word("mode", "constant"),
                                         graph::real("constant_value", 0)}));
    cut[axis] = count;
    cut.insert(cut.begin() + d + 1, part);
    x = parts.reshape(x, cut);
    const auto sums = [&](ValueId of, int64_t along, int64_t exclusive) {
        BoundAttrs attrs = node.attrs;
        set_integer(attrs, "axis", along);
        set_integer(attrs, "exclusive", exclusive);
        return parts.add("cumsum", {of}, attrs);
    };
    const ValueId inside = sums(x, d + 1, node.attrs.integer("exclusive", 0));
    const ValueId before = sums(parts.reduce("reduce_sum", x, {d + 1}), d, 1);
    const ValueId whole = parts.reshape(parts.add("add", {inside, before}), shape);
    return shape[axis] == length ? whole : parts.add("slice", {whole}, slice_of(d, 0, length));
}

}  // namespace

bool fit_running_sum(Rewriter& rewriter, NodeId id, const TileRoom& room) {
    const Graph& graph = rewriter.graph;
    const Node node = graph.nodes[id];
    if (!is(node, "cumsum") || has_quant(graph.value(node.inputs[0]))) return false;
    const graph::Value& x = graph.value(node.inputs[0]);
    const std::vector<int64_t> shape = shape_list(x.shape);
    const size_t axis = from_front(node.attrs.integer("axis", 0), shape.size());
    if (room.fits(x.elem, 2 * shape[axis]) || shape.size() >= static_cast<size_t>(max_rank)) return false;
    Parts parts(rewriter, node);
    parts.finish(id, running_sum(parts, node.inputs[0], node, shape, axis));
    return true;
}

bool fit_softmax(Rewriter& rewriter, NodeId id, const TileRoom& room) {
    const Graph& graph = rewriter.graph;
    const Node node = graph.nodes[id];
    if (!is_any(node, {"softmax", "log_softmax"}) || !is_plain(graph, node)) return false;
    const graph::Value& x = graph.value(node.inputs[0]);
    const auto axis = static_cast<int64_t>(from_front(node.attrs.integer("axis", 0), x.shape.rank));
    const int64_t length = x.shape[static_cast<size_t>(axis)];
    if (room.fits(x.elem, 2 * length)) return false;
    Parts parts(rewriter, node);
    // so many ones are no f16
    const double share = std::exp2(-std::max(0.0, std::ceil(std::log2(static_cast<double>(length)) - 15)));
    const ValueId below =
        parts.add("sub", {node.inputs[0], parts.reduce("reduce_max", node.inputs[0], {axis})});
    ValueId powers = parts.add("exp", {below});
    if (share < 1) powers = parts.times(powers, share);
    const ValueId sum = parts.reduce("reduce_sum", powers, {axis});
    if (is(node, "softmax")) {
        parts.finish(id, parts.add("div", {powers, sum}));
    } else {
        const ValueId log = parts.add("log", {sum});
        const ValueId whole = share < 1 ? parts.add("sub", {log, parts.constant(std::log(share))}) : log;
        parts.finish(id, parts.add("sub", {below, whole}));
    }
    return true;
}

bool fit_norm(Rewriter& rewriter, NodeId id, const TileRoom& room) {
    const Graph& graph = rewriter.graph;
    const Node node = graph.nodes[id];
    if (!is_any(node, {"layernorm", "rmsnorm", "group_norm"}) || !is_plain(graph, node)) return false;
    const graph::Value& x = graph.value(node.inputs[0]);
    const std::vector<int64_t> shape = shape_list(x.shape);
    const double epsilon = node.attrs.find("epsilon")->real;
    Parts parts(rewriter, node);
    if (!is(node, "group_norm")) {
        const size_t axis = from_front(node.attrs.integer("axis", 0), shape.size());
        if (room.fits(x.elem, 2 * shape[axis] * run_behind(x, axis)) ||
            (axis + 1 < shape.size() && node.inputs.size() > 1))
            return false;
        parts.finish(id, parts.normalised(node.inputs[0], {static_cast<int64_t>(axis)}, epsilon,
                                          is(node, "layernorm")));
        return true;
    }
    const int64_t image = static_cast<int64_t>(x.elements()) / shape[0],
                  groups = node.attrs.integer("groups", 1);
    if (room.fits(x.elem, 2 * image) || shape.size() >= static_cast<size_t>(max_rank)) return false;
    std::vector<int64_t> grouped = shape, axes;
    grouped.back() = groups;
    grouped.push_back(shape.back() / groups);
    for (size_t d = 1; d + 1 < shape.size(); ++d) axes.push_back(static_cast<int64_t>(d));
    axes.push_back(static_cast<int64_t>(shape.size()));
    const ValueId normalised = parts.normalised(parts.reshape(node.inputs[0], grouped), axes, epsilon);
    parts.finish(id, parts.reshape(normalised, shape));
    return true;
}

}  // namespace kpu::passes
