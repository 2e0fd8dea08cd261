// Functions of whole rows in an exported model: norms, softmax, reductions, searches.
#include <utility>

#include "compiler/quantize/export/export_node.hpp"

namespace kpu::quantize {
namespace {

using ::onnx::TensorProto;

struct Reduction {
    std::string_view opcode;
    const char* op_type;
};

constexpr Reduction reductions[] = {
    {"reduce_sum", "ReduceSum"}, {"reduce_mean", "ReduceMean"}, {"reduce_max", "ReduceMax"},
    {"reduce_min", "ReduceMin"}, {"reduce_prod", "ReduceProd"}, {"reduce_l2", "ReduceL2"},
};

void reduce(ExportedNode& n, const char* op_type) {
    std::string y = n.op(op_type, {n.wide(), n.integers(n.ints("axes"))}, n.attributes({"keepdims"}));
    if (n.integer("keepdims") == 0 && n.ints("axes").size() == n.rank())  // ONNX's has no dimension left
        y = n.reshaped(y, sizes_of(n.out().shape));
    n.result_of_type(y, ExportedNode::wide_type(n.out()));
}

void search(ExportedNode& n, const char* op_type) {
    std::string y = n.op(op_type, {n.wide()}, n.attributes({"axis", "keepdims", "select_last_index"}));
    if (n.integer("keepdims") == 0 && n.rank() == 1) y = n.reshaped(y, sizes_of(n.out().shape));
    n.result_of_type(y, TensorProto::INT64);
}

void cumsum(ExportedNode& n) {
    const std::string y =
        n.op("CumSum", {n.wide(), n.integers({}, {n.axis()})}, n.attributes({"exclusive", "reverse"}));
    n.result_of_type(y, ExportedNode::wide_type(n.out()));
}

// ---- norms: ONNX has them along the last dimension

Sizes axis_last(const ExportedNode& n) {
    Sizes perm;
    for (size_t d = 0; d < n.rank(); ++d) perm.push_back(static_cast<int64_t>(d));
    if (!perm.empty()) std::swap(perm.back(), perm[static_cast<size_t>(n.axis())]);
    return perm;
}

std::string filled(ExportedNode& n, int64_t count, double value) {
    return n.floats({count}, std::vector<double>(static_cast<size_t>(count), value));
}

void layer_norm(ExportedNode& n) {
    const Sizes perm = axis_last(n);
    Names operands = n.operands();
    operands[0] = n.transposed(operands[0], perm);
    if (operands.size() < 2) operands.push_back(filled(n, n.shape()[static_cast<size_t>(n.axis())], 1));
    const std::string y = n.op("LayerNormalization", operands, n.attributes({"epsilon"}));
    n.result(n.transposed(y, perm));
}

/// Exports rms_norm, which is younger than the opset.
void rms_norm(ExportedNode& n) {
    const Sizes perm = axis_last(n);
    const std::string x = n.transposed(n.x(), perm);
    const std::string mean =
        n.op("ReduceMean", {n.op("Mul", {x, x}), n.integers({-1})}, {OnnxWriter::integer("keepdims", 1)});
    const std::string root = n.op("Sqrt", {n.op("Add", {mean, n.floats({}, {n.real("epsilon")})})});
    std::string y = n.op("Div", {x, root});
    if (n.inputs() > 1) y = n.op("Mul", {y, n.x(1)});
    n.result(n.transposed(y, perm));
}

/// Exports a norm of images whose channels are the groups; ONNX's own takes a factor per group, not per
/// channel.
void group_norm(ExportedNode& n) {
    const Sizes first = channels_first(n.rank());
    const int64_t groups = n.integer("groups", 1), batch = n.shape()[0], channels = n.shape()[n.rank() - 1];
    Sizes shape, places = {channels};
    for (const int64_t d : first) shape.push_back(n.shape()[static_cast<size_t>(d)]);
    places.resize(n.rank() - 1, 1);
    const std::string rows = n.reshaped(n.transposed(n.x(), first), {batch, groups, -1});
    std::string y = n.op("InstanceNormalization", {rows, filled(n, groups, 1), filled(n, groups, 0)},
                         n.attributes({"epsilon"}));
    y = n.reshaped(y, shape);
    if (n.inputs() > 1) y = n.op("Mul", {y, n.reshaped(n.x(1), places)});
    if (n.inputs() > 2) y = n.op("Add", {y, n.reshaped(n.x(2), places)});
    n.result(n.transposed(y, channels_last(n.rank())));
}

}  // namespace

void export_rows(Exports& t) {
    for (const Reduction& row : reductions)
        t[row.opcode] = [&row](ExportedNode& n) { reduce(n, row.op_type); };
    t["argmax"] = [](ExportedNode& n) { search(n, "ArgMax"); };
    t["argmin"] = [](ExportedNode& n) { search(n, "ArgMin"); };
    t["cumsum"] = cumsum;
    t["softmax"] = [](ExportedNode& n) { n.result(n.op("Softmax", {n.x()}, n.attributes({"axis"}))); };
    t["log_softmax"] = [](ExportedNode& n) { n.result(n.op("LogSoftmax", {n.x()}, n.attributes({"axis"}))); };
    t["layernorm"] = layer_norm;
    t["rmsnorm"] = rms_norm;
    t["group_norm"] = group_norm;
}

}  // namespace kpu::quantize
