// Convolutions of small groups, such as depthwise ones, fill a few rows of an array's weights, or one column. Groups side by side, their
// weights blocks on the diagonal of one, take less time, though most of what is multiplied is zero.
#include <algorithm>

#include "compiler/graph/data.hpp"
#include "compiler/passes/match.hpp"
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

/// Cycles of the array, and until DRAM has brought W, with so many groups in one.
double cycles(const Options& options, const GroupedConvolution& of, int64_t merged) {
    const auto n = static_cast<uint64_t>(of.out * merged),
               k = static_cast<uint64_t>(of.window * of.in * merged),
               groups = static_cast<uint64_t>(of.groups / merged);
    const double bytes = double(packed_bytes(of.w, n * k * groups));
    return options.product_cycles({of.x, of.w, of.y, of.positions, n, k, groups}) +
           bytes / options.ddr_bytes_per_cycle;
}

/// The fewest groups in one that are about as fast as any: zeros take memory.
int64_t best_merge(const Options& options, const GroupedConvolution& of) {
    constexpr double about = 1.03, worth = 0.9;
    double least = cycles(options, of, 1);
    const double alone = least;
    for (int64_t merged = 2; merged <= of.groups; ++merged) {
        if (of.groups % merged == 0) least = std::min(least, cycles(options, of, merged));
    }
    if (least > worth * alone) return 1;
    int64_t merged = 2;
    while (of.groups % merged != 0 || cycles(options, of, merged) > about * least) ++merged;
    return merged;
}

/// Each block of W where it is among those that are merged; beside them what stands for zero.
graph::Data on_diagonal(const graph::Value& w, const GroupedConvolution& of, int64_t merged) {
    const auto each = static_cast<size_t>(graph::element_bytes(w.elem));
    const int64_t columns = of.groups * of.out, rows = of.in * merged;
    graph::NewData made =
        graph::new_data(graph::data_bytes(w.elem, static_cast<uint64_t>(of.window * rows * columns)));
    std::fill_n(made.bytes, made.data.size, uint8_t{0});
    for (int64_t tap = 0; tap < of.window; ++tap) {
        for (int64_t c = 0; c < of.in; ++c) {
            for (int64_t group = 0; group < of.groups; ++group) {
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

void merge(Rewriter& rewriter, NodeId id, const Options& options) {
    const Graph& graph = rewriter.graph;
    const Node node = graph.nodes[id];
    if (!is_any(node, {"conv1d", "conv2d", "conv2d.acc", "conv3d", "depthwise_conv2d"})) return;
    const graph::Value x = graph.value(node.inputs[0]), w = graph.value(node.inputs[1]),
                       y = graph.value(node.outputs[0]);
    const int64_t channels = x.shape[x.shape.rank - 1U],
                  groups = conv_groups(node.spec(), node.attrs, channels);
    if (groups < 2 || !w.constant() || !has_plain_zeros(w) || node.attrs.integer("blocks", 1) != 1) return;
    const std::string_view opcode = node.spec().depthwise ? "conv2d" : node.spec().name;
    std::vector<ElemType> types;
    for (const ValueId input : node.inputs) types.push_back(graph.value(input).elem);
    if (!options.supports(opcode, types, {y.elem})) return;

    const int64_t out = y.shape[y.shape.rank - 1U] / groups, in = channels / groups;
    const auto elements = static_cast<int64_t>(w.elements());
    const GroupedConvolution of{groups,
                                in,
                                out,
                                elements / (in * out * groups),
                                y.elements() / static_cast<uint64_t>(out * groups),
                                x.elem,
                                w.elem,
                                y.elem};
    const int64_t merged = best_merge(options, of);
    if (merged == 1) return;
    Dims shape = w.shape;
    shape[shape.rank - 2U] = in * merged;
    std::vector<ValueId> operands = node.inputs;
    operands[1] = rewriter.add_constant(w.name, w.elem, shape, on_diagonal(w, of, merged), w.quant);
    BoundAttrs attrs = node.attrs;
    set_integer(attrs, "groups", groups / merged);
    set_integer(attrs, "blocks", merged);
    rewriter.replace_node(id, opcode, operands, attrs);
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
