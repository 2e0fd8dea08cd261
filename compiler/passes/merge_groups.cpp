// Convolutions of small groups, such as depthwise ones, fill a few rows of an array's weights, or one column. Groups side by side, their
// weights blocks on the diagonal of one, take less time, though most of what is multiplied is zero.
#include <algorithm>

#include "compiler/graph/data.hpp"
#include "compiler/passes/channels.hpp"
#include "compiler/passes/passes.hpp"
#include "isa/shapes.hpp"

namespace kpu::passes {
namespace {

struct GroupedConvolution {
    int64_t groups, in, out;  ///< channels of a group
    int64_t window;           ///< elements of W for a channel of each
    uint64_t positions;       ///< elements of Y for a channel
    ElemType x, w, y;
};

/// Returns the cycles of the array, and until DRAM has brought W, for some of the groups with so many in one.
double cycles(const Options& options, const GroupedConvolution& of, int64_t groups, int64_t merged) {
    const auto n = static_cast<uint64_t>(of.out * merged),
               k = static_cast<uint64_t>(of.window * of.in * merged),
               count = static_cast<uint64_t>(groups / merged);
    const double bytes = double(packed_bytes(of.w, n * k * count));
    return options.product_cycles({of.x, of.w, of.y, of.positions, n, k, count}) +
           bytes / options.ddr_bytes_per_cycle;
}

/// Returns the same for all of them; those that are left, fewer than `merged`, are another convolution.
double all_cycles(const Options& options, const GroupedConvolution& of, int64_t merged) {
    const int64_t rest = of.groups % merged;
    const double whole = cycles(options, of, of.groups - rest, merged);
    return rest == 0 ? whole : whole + cycles(options, of, rest, rest);
}

/// Returns the fewest groups in one that are about as fast as any: zeros take memory. None are left over,
/// unless that is much faster, as with 97 channels.
/// 97 channels.
int64_t best_merge(const Options& options, const GroupedConvolution& of) {
    constexpr double about = 1.03, worth = 0.9;
    const double alone = all_cycles(options, of, 1);
    double even = alone, any = alone;
    for (int64_t merged = 2; merged <= of.groups; ++merged) {
        const double found = all_cycles(options, of, merged);
        any = std::min(any, found);
        if (of.groups % merged == 0) even = std::min(even, found);
    }
    const bool odd = any < worth * even;
    const double least = odd ? any : even;
    if (least > worth * alone) return 1;
    int64_t merged = 2;
    while ((!odd && of.groups % merged != 0) || all_cycles(options, of, merged) > about * least) ++merged;
    return merged;
}

/// Places each block of W, with so many groups, where it is among those that are merged; beside them what
/// stands for zero.
graph::Data on_diagonal(const graph::Value& w, const GroupedConvolution& of, int64_t groups, int64_t merged) {
    const auto each = static_cast<size_t>(graph::element_bytes(w.elem));
    const int64_t columns = groups * of.out, rows = of.in * merged;
    graph::NewData made =
        graph::new_data(graph::data_bytes(w.elem, static_cast<uint64_t>(of.window * rows * columns)));
    std::fill_n(made.bytes, made.data.size, uint8_t{0});
    for (int64_t tap = 0; tap < of.window; ++tap) {
        for (int64_t c = 0; c < of.in; ++c) {
            for (int64_t group = 0; group < groups; ++group) {
                const int64_t row = tap * rows + group % merged * of.in + c;
                const int64_t from = (tap * of.in + c) * columns + group * of.out;
                std::copy_n(w.data.bytes + static_cast<size_t>(from) * each,
                            static_cast<size_t>(of.out) * each,
                            made.bytes + static_cast<size_t>(row * columns + group * of.out) * each);
            }
        }
    }
    return std::move(made.data);
}

/// Zeros are all bits zero, and scales belong to output channels, which stay where they are.
bool has_plain_zeros(const graph::Value& w) {
    const bool of_channels =
        w.quant.kind == proto::Quant::PER_TENSOR || static_cast<size_t>(w.quant.axis) + 1 == w.shape.rank;
    const bool symmetric = std::all_of(w.quant.zero_points.begin(), w.quant.zero_points.end(),
                                       [](int64_t zero) { return zero == 0; });
    return bit_width(w.elem) >= 8 && (!w.quant || (of_channels && symmetric));
}

/// Groups of a convolution, by number, and how many of them are one.
struct Part {
    int64_t first, count, merged;
};

/// Returns the operands and attributes of the convolution of a part.
std::pair<std::vector<ValueId>, BoundAttrs> convolution_of(Rewriter& rewriter, const Node& node,
                                                           const GroupedConvolution& of, const Part& part) {
    std::vector<ValueId> operands = node.inputs;
    for (size_t i = 0; i < operands.size() && part.count < of.groups; ++i) {
        const int64_t each = i == 0 ? of.in : of.out;
        operands[i] = channels_of(rewriter, node, operands[i], part.first * each, part.count * each);
    }
    const graph::Value w = rewriter.graph.value(operands[1]);
    Dims shape = w.shape;
    shape[shape.rank - 2U] = of.in * part.merged;
    operands[1] =
        rewriter.add_constant(w.name, w.elem, shape, on_diagonal(w, of, part.count, part.merged), w.quant);
    BoundAttrs attrs = node.attrs;
    set_integer(attrs, "groups", part.count / part.merged);
    set_integer(attrs, "blocks", part.merged);
    return {std::move(operands), std::move(attrs)};
}

/// Returns the grouped convolution; nothing: they stay as they are.
std::optional<GroupedConvolution> groups_of(const Graph& graph, const Node& node) {
    if (!is_convolution(node)) return std::nullopt;
    const graph::Value &x = graph.value(node.inputs[0]), &w = graph.value(node.inputs[1]),
                       &y = graph.value(node.outputs[0]);
    const int64_t channels = x.shape[x.shape.rank - 1U],
                  groups = conv_groups(node.spec(), node.attrs, channels);
    if (groups < 2 || !w.constant() || !has_plain_zeros(w) || node.attrs.integer("blocks", 1) != 1)
        return std::nullopt;
    const int64_t out = y.shape[y.shape.rank - 1U] / groups, in = channels / groups;
    const auto elements = static_cast<int64_t>(w.elements());
    return GroupedConvolution{groups,
                              in,
                              out,
                              elements / (in * out * groups),
                              y.elements() / static_cast<uint64_t>(out * groups),
                              x.elem,
                              w.elem,
                              y.elem};
}

void merge(Rewriter& rewriter, NodeId id, const Options& options) {
    const Graph& graph = rewriter.graph;
    const Node node = graph.nodes[id];
    const std::optional<GroupedConvolution> of = groups_of(graph, node);
    if (!of) return;
    const std::string_view opcode = node.spec().depthwise ? "conv2d" : node.spec().name;
    std::vector<ElemType> types;
    for (const ValueId input : node.inputs) types.push_back(graph.value(input).elem);
    if (!options.supports(opcode, types, {of->y})) return;
    const int64_t merged = best_merge(options, *of), rest = of->groups % merged;
    if (merged == 1) return;
    if (rest == 0) {
        auto [operands, attrs] = convolution_of(rewriter, node, *of, {0, of->groups, merged});
        return rewriter.replace_node(id, opcode, std::move(operands), std::move(attrs));
    }
    const graph::Value y = graph.value(node.outputs[0]);
    if (is_per_channel(y) || is_per_channel(graph.value(node.inputs[0]))) return;
    std::vector<ValueId> parts;
    for (const Part& part : {Part{0, of->groups - rest, merged}, Part{of->groups - rest, rest, rest}}) {
        auto [operands, attrs] = convolution_of(rewriter, node, *of, part);
        parts.push_back(rewriter.add(opcode, std::move(operands), std::move(attrs),
                                     {node.source, y.name + ".group", y.elem, y.quant}));
    }
    rewriter.replace_node(id, "concat", parts, graph::attributes({graph::integer("axis", y.shape.rank - 1)}));
}

}  // namespace

void merge_groups(Graph& graph, const Options& options) {
    if (!options.product_cycles || !options.supports) return;
    Rewriter rewriter(graph);
    for (NodeId id = 0, given = graph.nodes.size(); id < given; ++id) {
        if (rewriter.alive(id)) merge(rewriter, id, options);
    }
    rewriter.finish();
}

}  // namespace kpu::passes
