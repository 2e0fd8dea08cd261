// One long dimension that an opcode takes as a whole: backwards slices, borders, resizes, pools over a line.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "compiler/graph/data.hpp"
#include "compiler/graph/resizing.hpp"
#include "compiler/passes/fit/fit_tiles.hpp"
#include "isa/shapes.hpp"

namespace kpu::passes {
namespace {

BoundAttrs steps_of(int64_t axis, int64_t start, int64_t end, int64_t step) {
    return graph::attributes({graph::ints("starts", {start}), graph::ints("ends", {end}),
                              graph::ints("axes", {axis}), graph::ints("steps", {step})});
}

/// Adds nodes in the place of one that moves elements, or makes some between them.
class Line {
  public:
    Line(Rewriter& rewriter, const Node& node) : rewriter_(rewriter), node_(node) {}

    /// Adds a node whose result has the type and the steps of the value `like`.
    ValueId add(std::string_view opcode, std::vector<ValueId> operands, BoundAttrs attrs, ValueId like) {
        const graph::Value& of = rewriter_.graph.value(like);
        graph::NodeOptions options{node_.source, of.name + ".part", of.elem, of.quant};
        return rewriter_.add(opcode, std::move(operands), std::move(attrs), options);
    }
    ValueId reshape(ValueId x, const std::vector<int64_t>& shape) {
        if (shape_list(rewriter_.graph.value(x).shape) == shape) return x;
        return add("reshape", {x}, graph::attributes({graph::ints("target_shape", shape)}), x);
    }
    ValueId slice(ValueId x, int64_t axis, int64_t first, int64_t end) {
        if (first == 0 && end == rewriter_.graph.value(x).shape[static_cast<size_t>(axis)]) return x;
        return add("slice", {x}, slice_of(axis, first, end), x);
    }
    /// Elements first, first - 1, ... so many.
    ValueId backwards(ValueId x, int64_t axis, int64_t first, int64_t count) {
        const int64_t length = rewriter_.graph.value(x).shape[static_cast<size_t>(axis)];
        const int64_t end = first - count;
        return add("slice", {x}, steps_of(axis, first, end < 0 ? -length - 1 : end, -1), x);
    }
    ValueId concat(const std::vector<ValueId>& parts, int64_t axis) {
        if (parts.size() == 1) return parts[0];
        return add("concat", parts, graph::attributes({graph::integer("axis", axis)}), parts[0]);
    }
    /// One element along the axis, so many times: twice as many with each node.
    ValueId repeated(ValueId element, int64_t axis, int64_t count) {
        ValueId result = element;
        int64_t length = 1;
        for (; length < count; length *= 2) result = concat({result, result}, axis);
        return slice(result, axis, 0, count);
    }
    void finish(NodeId id, ValueId result) {
        rewriter_.replace(node_.outputs[0], result);
        rewriter_.remove(id);
    }

  private:
    Rewriter& rewriter_;
    const Node node_;
};

/// The parts of a shape around one dimension.
struct Around {
    int64_t outer = 1, length, inner = 1;
    Around(const Dims& shape, size_t d) : length(shape[d]) {
        for (size_t i = 0; i < shape.rank; ++i) (i < d ? outer : inner) *= i == d ? 1 : shape[i];
    }
};

std::vector<size_t> changed_dimensions(const Dims& x, const Dims& y) {
    std::vector<size_t> changed;
    for (size_t d = 0; d < y.rank; ++d)
        if (x[d] != y[d]) changed.push_back(d);
    return changed;
}

/// A whole dimension backwards: rows backwards, and each row backwards; in front of them what is no whole row.
ValueId reversed(Line& line, ValueId x, const Dims& shape, size_t d) {
    const auto axis = static_cast<int64_t>(d);
    const Around of(shape, d);
    const auto part = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(of.length))));
    const int64_t count = of.length / part, rest = of.length - count * part;
    ValueId rows = line.reshape(line.slice(x, axis, rest, of.length), {of.outer, count, part, of.inner});
    rows = line.backwards(line.backwards(rows, 1, count - 1, count), 2, part - 1, part);
    std::vector<int64_t> whole = shape_list(shape);
    whole[d] = count * part;
    rows = line.reshape(rows, whole);
    if (rest == 0) return rows;
    return line.concat({rows, line.backwards(x, axis, rest - 1, rest)}, axis);
}

}  // namespace

bool fit_backwards(Rewriter& rewriter, NodeId id, const TileRoom& room) {
    const Node node = rewriter.graph.nodes[id];
    if (!is(node, "slice")) return false;
    const graph::Value x = rewriter.graph.value(node.inputs[0]), y = rewriter.graph.value(node.outputs[0]);
    const std::vector<SliceRange> ranges = slice_ranges(x.shape, node.attrs);
    int64_t whole_x = 1, whole_y = 1;
    std::vector<size_t> back;
    bool plain = true;  // nothing but whole dimensions backwards
    for (size_t d = 0; d < x.shape.rank; ++d) {
        if (ranges[d].step < 0) back.push_back(d);
        if (ranges[d].step == 1 && x.shape[d] == y.shape[d]) continue;
        whole_x *= x.shape[d];
        whole_y *= y.shape[d];
        plain = plain && ranges[d].step == -1 && x.shape[d] == y.shape[d];
    }
    if (back.empty() || room.fits(x.elem, whole_x + whole_y)) return false;
    if (plain && back.size() == 1 && whole_x < 4) return false;  // parts would not be shorter
    Line line(rewriter, node);
    ValueId now = node.inputs[0];
    if (!plain) {  // what is taken, forwards
        std::vector<int64_t> starts, ends, axes, steps;
        for (size_t d = 0; d < x.shape.rank; ++d) {
            const auto& [first, count, step] = ranges[d];
            const int64_t least = step < 0 ? first + (count - 1) * step : first;
            starts.push_back(least);
            ends.push_back(least + (count - 1) * std::abs(step) + 1);
            axes.push_back(static_cast<int64_t>(d));
            steps.push_back(std::abs(step));
        }
        now = line.add("slice", {now},
                       graph::attributes({graph::ints("starts", starts), graph::ints("ends", ends),
                                          graph::ints("axes", axes), graph::ints("steps", steps)}),
                       now);
    }
    for (const size_t d : back)
        now = room.fits(x.elem, 2 * y.shape[d]) || back.size() > 1
                  ? line.backwards(now, static_cast<int64_t>(d), y.shape[d] - 1, y.shape[d])
                  : reversed(line, now, y.shape, d);
    line.finish(id, now);
    return true;
}

bool fit_border(Rewriter& rewriter, NodeId id, const TileRoom& room) {
    const Node node = rewriter.graph.nodes[id];
    const std::string_view mode = node.attrs.word("mode", "constant");
    if (!is(node, "pad") || (mode != "reflect" && mode != "edge")) return false;
    const graph::Value x = rewriter.graph.value(node.inputs[0]);
    const Dims y = rewriter.graph.value(node.outputs[0]).shape;
    const std::vector<size_t> changed = changed_dimensions(x.shape, y);
    if (changed.size() != 1) return false;
    const size_t d = changed[0];
    const auto axis = static_cast<int64_t>(d);
    const std::vector<int64_t> pads = ints_of(node, "pads");
    const int64_t before = pads[d], behind = pads[d + y.rank], length = x.shape[d];
    // copies of the border lie behind each other: tiles hold those of the border alone
    if (room.fits(x.elem, mode == "edge" ? 4 * std::max(before, behind) : length + y[d])) return false;
    Line line(rewriter, node);
    const ValueId whole = node.inputs[0];
    std::vector<ValueId> parts;
    const auto border = [&](int64_t count, bool at_end) {
        if (count == 0) return;
        const int64_t at = at_end ? length - 1 : 0;
        parts.push_back(mode == "edge" ? line.repeated(line.slice(whole, axis, at, at + 1), axis, count)
                                       : line.backwards(whole, axis, at_end ? length - 2 : count, count));
    };
    border(before, false);
    parts.push_back(whole);
    border(behind, true);
    line.finish(id, line.concat(parts, axis));
    return true;
}

namespace {

/// A resize along one dimension by a ratio of small numbers: `from` elements become `to`.
struct Ratio {
    int64_t from, to;
};

/// Nothing where positions are not the same in each part: corners are aligned, or the scale is not that of the sizes.
std::optional<Ratio> ratio_of(const Node& node, const Dims& x, const Dims& y, size_t d) {
    if (node.attrs.word("coordinates", "half_pixel") == "align_corners") return std::nullopt;
    const BoundAttr* scales = node.attrs.find("scales");
    const double exact = static_cast<double>(y[d]) / static_cast<double>(x[d]);
    if (scales != nullptr && !scales->reals.empty() && std::fabs(scales->reals[d] / exact - 1) > 1e-12)
        return std::nullopt;
    const int64_t common = std::gcd(x[d], y[d]);
    return Ratio{x[d] / common, y[d] / common};
}

/// Rows of `part` elements, each with `halo` of its neighbours at both ends; beyond the ends of X its border goes on.
ValueId rows_with_halo(Line& line, ValueId x, const Around& of, int64_t part, int64_t count, int64_t halo) {
    const ValueId flat = line.reshape(x, {of.outer, of.length, of.inner});
    const ValueId first = line.slice(flat, 1, 0, 1), last = line.slice(flat, 1, of.length - 1, of.length);
    const int64_t all = (count + 1) * part;
    const ValueId padded =
        line.concat({line.repeated(first, 1, halo), flat, line.repeated(last, 1, all - halo - of.length)}, 1);
    const auto rows = [&](int64_t from) {
        return line.reshape(line.slice(padded, 1, from, from + count * part),
                            {of.outer, count, part, of.inner});
    };
    return line.concat({rows(0), line.slice(rows(part), 2, 0, 2 * halo)}, 2);
}

}  // namespace

bool fit_long_resize(Rewriter& rewriter, NodeId id, const TileRoom& room) {
    const Node node = rewriter.graph.nodes[id];
    if (!is(node, "resize")) return false;
    const graph::Value x = rewriter.graph.value(node.inputs[0]);
    const Dims y = rewriter.graph.value(node.outputs[0]).shape;
    const std::vector<size_t> changed = changed_dimensions(x.shape, y);
    if (changed.size() != 1 || room.fits(x.elem, x.shape[changed[0]] + y[changed[0]])) return false;
    const size_t d = changed[0];
    if (graph::repeats_elements(node.attrs) && y[d] % x.shape[d] == 0) return false;  // cut anywhere
    const std::optional<Ratio> ratio = ratio_of(node, x.shape, y, d);
    if (!ratio) return false;
    const Around of(x.shape, d);
    const int64_t halo = ratio->from, root = static_cast<int64_t>(std::sqrt(static_cast<double>(of.length)));
    const int64_t part = ratio->from * std::max<int64_t>(2, root / ratio->from),
                  count = (of.length + part - 1) / part;
    const auto made = [&](int64_t elements) { return elements / ratio->from * ratio->to; };
    if (count < 2 || !room.fits(x.elem, part + 2 * halo + made(part + 2 * halo))) return false;
    Line line(rewriter, node);
    ValueId rows = rows_with_halo(line, node.inputs[0], of, part, count, halo);
    BoundAttrs attrs;
    for (const BoundAttr& attr : node.attrs.list)
        if (attr.name != "scales" && attr.name != "sizes" && attr.name != "coordinates")
            attrs.list.push_back(attr);
    set_ints(attrs, "sizes", {of.outer, count, made(part + 2 * halo), of.inner});
    const bool edges = node.attrs.word("coordinates", "half_pixel") == "asymmetric";
    attrs.list.push_back(graph::word("coordinates", edges ? "asymmetric" : "half_pixel"));
    rows = line.add("resize", {rows}, attrs, node.outputs[0]);
    rows = line.slice(rows, 2, made(halo), made(halo + part));
    rows = line.reshape(rows, {of.outer, made(count * part), of.inner});
    line.finish(id, line.reshape(line.slice(rows, 1, 0, y[d]), shape_list(y)));
    return true;
}

bool fit_pooled_line(Rewriter& rewriter, NodeId id, const TileRoom& room) {
    const Node node = rewriter.graph.nodes[id];
    if (!is_any(node, {"avgpool", "maxpool"})) return false;
    const graph::Value &x = rewriter.graph.value(node.inputs[0]), &y = rewriter.graph.value(node.outputs[0]);
    const std::vector<int64_t> window = ints_of(node, "kernel_shape"), pads = ints_of(node, "pads");
    const std::vector<int64_t> shape = shape_list(x.shape);
    const bool whole = window == std::vector<int64_t>(shape.begin() + 1, shape.end() - 1) &&
                       std::count(pads.begin(), pads.end(), 0) == static_cast<std::ptrdiff_t>(pads.size());
    const int64_t length = *std::max_element(window.begin(), window.end());
    if (!whole || has_quant(x) || length * x.shape[0] * shape.back() != x.shape.product() ||
        room.fits(x.elem, length))
        return false;
    std::vector<int64_t> axes(window.size());
    std::iota(axes.begin(), axes.end(), 1);
    const char* opcode = is(node, "maxpool") ? "reduce_max" : "reduce_mean";
    if (!graph::is_supported(room.supports, opcode, {x.elem}, {y.elem})) return false;
    rewriter.replace_node(id, opcode, {node.inputs[0]},
                          graph::attributes({graph::ints("axes", axes), graph::integer("keepdims", 1)}));
    return true;
}

}  // namespace kpu::passes
