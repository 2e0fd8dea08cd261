// Operations that choose and write elements by index, in an exported model.
#include <array>
#include <utility>

#include "compiler/graph/data.hpp"
#include "compiler/quantize/export/export_node.hpp"

namespace kpu::quantize {
namespace {

using ::onnx::TensorProto;

Sizes whole_numbers_of(const graph::Value& value) {
    Sizes result;
    for (const double number : graph::numbers(value)) result.push_back(static_cast<int64_t>(number));
    return result;
}

/// Returns {before..., dims..., behind...}.
Sizes with_dims(Sizes before, const Sizes& dims, const Sizes& behind) {
    before.insert(before.end(), dims.begin(), dims.end());
    before.insert(before.end(), behind.begin(), behind.end());
    return before;
}

Sizes dims_of(ExportedNode& n, size_t operand) {
    if (!n.in(operand).constant())
        n.refuse("the sizes that its indices are of are computed", "leave --export-qdq out");
    return whole_numbers_of(n.in(operand));
}

void top_k(ExportedNode& n) {
    const Names best = n.writer.node("TopK", {n.wide(), n.integers({n.integer("k")})},
                                     n.attributes({"largest"}), n.out().name, 2);
    n.result_of_type(best[0], ExportedNode::wide_type(n.in(0)));
    n.result_of_type(best[1], TensorProto::INT64, 1);
}

/// Exports X [rows, n, width], index [rows, count, depth]: tuples of positions in dims, of which n are.
void gather_nd(ExportedNode& n) {
    const std::string x = n.reshaped(n.x(), with_dims({n.shape()[0]}, dims_of(n, 2), {n.shape()[2]}));
    n.result(
        n.op("GatherND", {x, n.cast(n.x(1), TensorProto::INT64)}, {OnnxWriter::integer("batch_dims", 1)}));
}

/// Returns the positions of X along a dimension, for each index.
std::string own_positions(ExportedNode& n, const Sizes& shape, size_t along) {
    Sizes places(shape.size(), 1), positions;
    places[along] = shape[along];
    for (int64_t i = 0; i < shape[along]; ++i) positions.push_back(i);
    return n.op("Expand", {n.integers(places, positions), n.integers(shape)});
}

/// Exports X [rows, n, width], index [rows, count, 1 or width, depth], updates [rows, count, width]. ONNX's
/// indices name the row, and the place in the width where each has its own.
void scatter(ExportedNode& n, const std::string& reduction) {
    const Sizes dims = dims_of(n, 2), index = sizes_of(n.shape(1));
    const int64_t rows = n.shape()[0], width = n.shape()[2];
    const Sizes single = {index[0], index[1], index[2], 1};
    const bool own_width = index[2] != 1;
    Names names = {own_positions(n, single, 0), n.cast(n.x(1), TensorProto::INT64)};
    if (own_width) names.push_back(own_positions(n, single, 2));
    std::string tuples = n.op("Concat", names, {OnnxWriter::integer("axis", 3)});
    if (!own_width) tuples = n.reshaped(tuples, {index[0], index[1], index[3] + 1});
    std::vector<OnnxWriter::Attribute> attributes;
    if (!reduction.empty()) attributes.push_back(OnnxWriter::text("reduction", reduction));
    const std::string x = n.reshaped(n.x(), with_dims({rows}, dims, {width}));
    const std::string y = n.op("ScatterND", {x, tuples, n.x(3)}, attributes);
    n.result(n.reshaped(y, sizes_of(n.out().shape)));
}

void scatter_reduce(ExportedNode& n) {
    constexpr std::array<const char*, 5> names = {"", "add", "mul", "max", "min"};
    scatter(n, names.at(static_cast<size_t>(n.integer("how"))));
}

// ---- results whose length depends on data: what follows them is -1

std::string none(ExportedNode& n, const Sizes& shape, int64_t value = -1) {
    return n.op("Expand", {n.integers({}, {value}), n.integers(shape)});
}

/// Returns the first `shape[0]` rows of `found`, and -1 after them.
std::string filled_up(ExportedNode& n, const std::string& found, const Sizes& shape) {
    const std::string longer = n.op("Concat", {found, none(n, shape)}, {OnnxWriter::integer("axis", 0)});
    return n.op("Slice", {longer, n.integers({0}), n.integers({shape[0]}), n.integers({0})});
}

void compact(ExportedNode& n) {
    const Sizes dims = dims_of(n, 1);
    const int64_t count = n.shape()[0];
    const auto set = [&](const std::string& mask) {
        return n.op("Transpose", {n.op("NonZero", {mask})}, {OnnxWriter::list("perm", {1, 0})});
    };
    const std::string mask = n.x(), places = set(mask);
    const std::string positions = n.reshaped(filled_up(n, places, {count, 1}), {count});
    const std::string coordinates = filled_up(n, dims.size() == 1 ? places : set(n.reshaped(mask, dims)),
                                              {count, static_cast<int64_t>(dims.size())});
    n.result_of_type(positions, TensorProto::INT64);
    n.result_of_type(coordinates, TensorProto::INT64, 1);
    n.result_of_type(
        n.op("Slice", {n.op("Shape", {places}), n.integers({0}), n.integers({1}), n.integers({0})}),
        TensorProto::INT64, 2);
}

/// Exports a suppression: ONNX lists what it selects; the opcode has a row for each image and class. The
/// place in a row is the distance from where the row begins in the list.
void non_max_suppression(ExportedNode& n) {
    const Dims& shape = n.out().shape;  // images, classes, limit
    const int64_t rows = shape[0] * shape[1], limit = shape[2];
    const std::string list = n.op("NonMaxSuppression", {n.x(), n.x(1), n.integers({limit}), n.x(2), n.x(3)},
                                  {OnnxWriter::integer("center_point_box", n.integer("center"))});
    const Names column = n.writer.node("Split", {list, n.integers({1, 1, 1})},
                                       {OnnxWriter::integer("axis", 1)}, n.out().name, 3);
    const std::string of_row = n.op("Mul", {column[0], n.integers({}, {shape[1]})});
    const std::string row = n.op("Squeeze", {n.op("Add", {of_row, column[1]}), n.integers({1})});
    const std::string ones = n.op("Add", {n.op("Mul", {row, n.integers({}, {0})}), n.integers({}, {1})});
    const std::string at = n.op("CumSum", {ones, n.integers({}, {0})}, {OnnxWriter::integer("exclusive", 1)});
    const std::string begins = n.op("ScatterElements", {none(n, {rows}, INT32_MAX), row, at},
                                    {OnnxWriter::text("reduction", "min")});
    const std::string place = n.op("Sub", {at, n.op("Gather", {begins, row})});
    const std::string index = n.op("Add", {n.op("Mul", {row, n.integers({}, {limit})}), place});
    const std::string box = n.op("Squeeze", {column[2], n.integers({1})});
    const std::string flat = n.op("ScatterElements", {none(n, {rows * limit}), index, box});
    n.result_of_type(n.reshaped(flat, sizes_of(shape)), TensorProto::INT64);
}

}  // namespace

void export_kernels(Exports& t) {
    t["top_k"] = top_k;
    t["gather_nd"] = gather_nd;
    t["scatter_nd"] = [](ExportedNode& n) { scatter(n, ""); };
    t["scatter_reduce"] = scatter_reduce;
    t["compact"] = compact;
    t["non_max_suppression"] = non_max_suppression;
}

}  // namespace kpu::quantize
