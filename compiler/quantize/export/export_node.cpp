#include "compiler/quantize/export/export_node.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/diagnostics.hpp"
#include "compiler/graph/data.hpp"
#include "values/scalar.hpp"

namespace kpu::quantize {

using Attribute = OnnxWriter::Attribute;
using ::onnx::TensorProto;

std::string ExportedNode::x(size_t i) {
    const bool condition = operand_spec(spec.inputs, i).role == OperandRole::condition;
    return condition ? values.truth(node.inputs[i]) : values.numbers(node.inputs[i]);
}

Names ExportedNode::operands() {
    Names names;
    for (size_t i = 0; i < inputs(); ++i) names.push_back(x(i));
    return names;
}

int ExportedNode::wide_type(const graph::Value& value) {
    const int type = ExportedValues::type_of(value);
    if (type == TensorProto::FLOAT) return type;
    return value.elem == ElemType::u32 ? TensorProto::INT64 : TensorProto::INT32;
}

std::string ExportedNode::wide(size_t i) {
    const std::string name = x(i);
    if (operand_spec(spec.inputs, i).role == OperandRole::condition) return name;
    return wide_type(in(i)) == ExportedValues::type_of(in(i)) ? name : cast(name, wide_type(in(i)));
}

const Sizes& ExportedNode::ints(std::string_view name) const {
    const BoundAttr* given = node.attrs.find(name);
    if (given == nullptr) throw InternalError(fmt::format("export: {} has no {}", spec.name, name));
    return given->ints;
}

int64_t ExportedNode::axis() const {
    const int64_t given = integer("axis");
    return given < 0 ? given + in(0).shape.rank : given;
}

std::vector<Attribute> ExportedNode::attributes(const std::vector<std::string_view>& names) const {
    std::vector<Attribute> result;
    for (const AttrSpec& row : spec.attributes) {
        const BoundAttr* given = node.attrs.find(row.name);
        if (given == nullptr || std::find(names.begin(), names.end(), row.name) == names.end()) continue;
        const std::string name(row.name);
        if (row.kind == AttrKind::ints) {
            result.push_back(OnnxWriter::list(name, given->ints));
        } else if (row.kind == AttrKind::real) {
            result.push_back(OnnxWriter::real(name, given->real));
        } else if (row.kind == AttrKind::word) {
            result.push_back(OnnxWriter::text(name, given->text));
        } else {
            result.push_back(OnnxWriter::integer(name, given->integer));
        }
    }
    return result;
}

std::string ExportedNode::op(const std::string& op_type, const Names& operands,
                             const std::vector<Attribute>& attributes) {
    return writer.node(op_type, operands, attributes, like());
}

std::string ExportedNode::cast(const std::string& name, int type) {
    return op("Cast", {name}, {OnnxWriter::integer("to", type)});
}

std::string ExportedNode::transposed(const std::string& name, const Sizes& perm) {
    if (std::is_sorted(perm.begin(), perm.end())) return name;
    return op("Transpose", {name}, {OnnxWriter::list("perm", perm)});
}

std::string ExportedNode::reshaped(const std::string& name, const Sizes& shape) {
    return op("Reshape", {name, integers(shape)});
}

std::string ExportedNode::number(double value, size_t like_operand) {
    const int type = wide_type(in(like_operand));
    if (type == TensorProto::FLOAT) return floats({}, {value});
    const values::IntegerRange range = values::range_of(in(like_operand).elem);
    const double within =
        std::clamp(std::trunc(value), static_cast<double>(range.low), static_cast<double>(range.high));
    if (type == TensorProto::INT64) return integers({}, {static_cast<int64_t>(within)});
    return writer.constant(like(), type, {}, bytes_of(graph::make_numbers(ElemType::i32, {within})));
}

std::string ExportedNode::floats(const Sizes& shape, const std::vector<double>& numbers) {
    return writer.reals(like(), shape, numbers);
}

std::string ExportedNode::integers(const Sizes& numbers) { return writer.integers(like(), numbers); }

std::string ExportedNode::integers(const Sizes& shape, const Sizes& numbers) {
    return writer.integers(like(), shape, numbers);
}

void ExportedNode::result_of_type(const std::string& name, int type, size_t output) {
    const bool condition = operand_spec(spec.outputs, output).role == OperandRole::condition;
    if (condition && type == TensorProto::BOOL) return values.made_truth(node.outputs[output], name);
    values.made(node.outputs[output], name, type);
}

void ExportedNode::refuse(const std::string& reason, const std::string& fix) const {
    throw UserError(fmt::format("--export-qdq: operator `{}`: {}. Fix: {}.", node.source.name, reason, fix));
}

Sizes channels_first(size_t rank) {
    Sizes perm = {0, static_cast<int64_t>(rank) - 1};
    for (size_t d = 1; d + 1 < rank; ++d) perm.push_back(static_cast<int64_t>(d));
    return perm;
}

Sizes channels_last(size_t rank) {
    Sizes perm = {0};
    for (size_t d = 2; d < rank; ++d) perm.push_back(static_cast<int64_t>(d));
    perm.push_back(1);
    return perm;
}

}  // namespace kpu::quantize
