// Products in an exported model: matrix products and convolutions.
#include <algorithm>

#include "compiler/graph/data.hpp"
#include "compiler/quantize/export/export_node.hpp"

namespace kpu::quantize {
namespace {

using graph::Value;
using ::onnx::TensorProto;

/// Returns the weights of a product in another order of dimensions. Scales of a constant move with their
/// dimension.
std::string weights(ExportedNode& n, const Sizes& perm) {
    const Value& v = n.in(1);
    if (!v.constant()) return n.transposed(n.x(1), perm);
    const std::vector<int> order(perm.begin(), perm.end());
    Value moved = v;
    if (moved.quant.kind == proto::Quant::PER_CHANNEL)
        moved.quant.axis =
            static_cast<int>(std::find(order.begin(), order.end(), v.quant.axis) - order.begin());
    moved.data = graph::permuted(v.data, graph::element_bytes(v.elem), v.shape, order);
    moved.shape = graph::permuted(v.shape, order);
    return n.values.constant(moved);
}

/// Returns the weights of a product with scales of groups: blocks along the input channels, the same for each
/// tap of a window.
std::string group_weights(ExportedNode& n, const Sizes& perm) {
    const Value &w = n.in(1), &s = n.in(2);
    const std::vector<int> order(perm.begin(), perm.end());
    const size_t rank = w.shape.rank, groups_at = s.shape.rank - 2U;
    const std::vector<double> given = graph::numbers(s);
    const auto count = static_cast<size_t>(s.shape[groups_at] * s.shape[groups_at + 1]);
    Dims blocks = w.shape;
    blocks[rank - 2] = s.shape[groups_at];
    const auto constant = [&](const std::string& name, ElemType elem, const Dims& shape,
                              const graph::Data& data) {
        return n.writer.constant(name, onnx_type(elem), sizes_of(graph::permuted(shape, order)),
                                 bytes_of(graph::permuted(data, graph::element_bytes(elem), shape, order)));
    };
    const auto of_blocks = [&](const char* what, ElemType elem, size_t first) {
        std::vector<double> all(static_cast<size_t>(blocks.product()));
        for (size_t i = 0; i < all.size(); ++i) all[i] = given[first + i % count];
        return constant(w.name + what, elem, blocks, graph::make_numbers(elem, all));
    };
    Names operands = {constant(w.name, w.elem, w.shape, w.data), of_blocks(":scale", ElemType::f32, 0)};
    if (s.shape.rank == 3) operands.push_back(of_blocks(":zero", w.elem, count));
    const int64_t axis = std::find(order.begin(), order.end(), static_cast<int>(rank) - 2) - order.begin();
    return n.writer.node(
        "DequantizeLinear", operands,
        {OnnxWriter::integer("axis", axis), OnnxWriter::integer("block_size", n.integer("group_size", 1))},
        w.name);
}

/// Returns the third operand. Integers without scales are in steps of the accumulators.
std::string addend(ExportedNode& n) {
    const size_t i = n.spec.addend;
    const BoundQuant &x = n.in(0).quant, &w = n.in(1).quant;
    const Value& given = n.in(i);
    if (given.elem != ElemType::i32 || given.quant || !x) return n.x(i);
    Value steps = given;
    steps.quant = w ? w : x;
    for (double& scale : steps.quant.scales) scale *= w ? x.scales[0] : 1;
    for (int64_t& zero : steps.quant.zero_points) zero = 0;
    steps.quant.axis = std::max(0, steps.shape.rank - 1);
    if (given.constant()) return n.values.constant(steps);
    const Sizes shape = steps.quant.kind == proto::Quant::PER_CHANNEL
                            ? Sizes{static_cast<int64_t>(steps.quant.scales.size())}
                            : Sizes{};
    return n.op("Mul", {n.cast(n.x(i), TensorProto::FLOAT), n.floats(shape, steps.quant.scales)});
}

bool has_addend(const ExportedNode& n) { return n.inputs() > n.spec.addend; }

/// Sums that are integers without scales are those of steps: the floats of ONNX's products are the same where nothing
/// scales the operands.
void sums(ExportedNode& n, const std::string& name) {
    const auto is_scaled = [](double scale) { return scale != 1; };
    for (size_t i = 0; i < 2 && !n.out().quant && is_integer(n.out().elem); ++i) {
        const std::vector<double>& scales = n.in(i).quant.scales;
        if (std::any_of(scales.begin(), scales.end(), is_scaled))
            n.refuse("its sums are integers whose scale the graph does not say",
                     "let the model dequantize them, or leave --export-qdq out");
    }
    n.result_of_type(name, TensorProto::FLOAT);
}

void product(ExportedNode& n) {
    const std::string w = n.spec.group_scales ? group_weights(n, {0, 1}) : n.x(1);
    const std::string y = n.op("MatMul", {n.x(), w});
    sums(n, has_addend(n) ? n.op("Add", {y, addend(n)}) : y);
}

/// Joins the weights of the groups one after the other along the input channels: W [window, Cin / groups,
/// Cout].
std::string weights_of_groups(ExportedNode& n, int64_t groups) {
    Sizes shape = sizes_of(n.in(1).shape);
    const int64_t cin = shape[shape.size() - 2] * groups, cout = shape.back() / groups;
    const auto window = static_cast<int64_t>(shape.size()) - 2;
    shape.back() = groups;
    shape.push_back(cout);
    Sizes perm = {window + 1, window, window + 2}, merged = {cin, cout};
    for (int64_t d = 0; d < window; ++d) {
        perm.push_back(d);
        merged.push_back(shape[static_cast<size_t>(d)]);
    }
    return n.reshaped(n.transposed(n.reshaped(n.x(1), shape), perm), merged);
}

void convolution(ExportedNode& n) {
    const size_t rank = n.rank();
    const int64_t groups = n.spec.depthwise ? n.shape()[rank - 1] : n.integer("groups", 1);
    Sizes perm = {static_cast<int64_t>(rank) - 1, static_cast<int64_t>(rank) - 2};  // O, I, window
    for (size_t d = 0; d + 2 < rank; ++d) perm.push_back(static_cast<int64_t>(d));
    if (n.spec.transposed) std::swap(perm[0], perm[1]);
    Names operands = {n.transposed(n.x(), channels_first(rank)), n.spec.group_scales ? group_weights(n, perm)
                                                                 : n.spec.transposed && groups > 1
                                                                     ? weights_of_groups(n, groups)
                                                                     : weights(n, perm)};
    const bool per_channel = has_addend(n) && n.in(n.spec.addend).shape.rank == 1;
    if (per_channel) operands.push_back(addend(n));
    std::vector<OnnxWriter::Attribute> attributes =
        n.attributes({"pads", "strides", "dilations", "output_padding"});
    attributes.push_back(OnnxWriter::integer("group", groups));
    std::string y = n.op(n.spec.transposed ? "ConvTranspose" : "Conv", operands, attributes);
    y = n.transposed(y, channels_last(rank));
    sums(n, has_addend(n) && !per_channel ? n.op("Add", {y, addend(n)}) : y);
}

}  // namespace

void export_products(Exports& t) {
    for (const OpcodeSpec& row : opcode_table()) {
        if (row.traits.needs == Needs::matrix) t[row.name] = product;
        if (row.traits.needs == Needs::window) t[row.name] = convolution;
    }
}

}  // namespace kpu::quantize
