#include "compiler/quantize/export/export_values.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/diagnostics.hpp"
#include "compiler/graph/data.hpp"
#include "compiler/graph/execute.hpp"
#include "values/scalar.hpp"

namespace kpu::quantize {
namespace {

using graph::HostType;
using graph::Port;
using graph::Value;
using graph::ValueId;
using ::onnx::TensorProto;

int port_type(const Port& port, ElemType elem) {
    if (port.host == HostType::int64) return TensorProto::INT64;
    if (port.host == HostType::uint64) return TensorProto::UINT64;
    if (port.host == HostType::float64) return TensorProto::DOUBLE;
    return port.host == HostType::boolean ? TensorProto::BOOL : host_type_of(elem);
}

}  // namespace

Sizes sizes_of(const Dims& shape) { return {shape.begin(), shape.end()}; }

std::string bytes_of(const graph::Data& data) {
    return {reinterpret_cast<const char*>(data.bytes), data.size};
}

ExportedValues::ExportedValues(const graph::Graph& graph, OnnxWriter& writer)
    : graph_(graph), writer_(writer), forms_(graph.values.size()) {
    for (const auto* ports : {&graph.inputs, &graph.outputs}) {
        for (const Port& port : *ports) writer.reserve(port.name);
    }
}

int ExportedValues::type_of(const Value& value) {
    return value.quant ? TensorProto::FLOAT : onnx_type(value.elem);
}

std::string ExportedValues::cast(const std::string& name, int type, const std::string& like) {
    return writer_.node("Cast", {name}, {OnnxWriter::integer("to", type)}, like);
}

std::string ExportedValues::transposed(const std::string& name, const std::vector<int>& perm,
                                       const std::string& like) {
    if (perm.empty()) return name;
    return writer_.node("Transpose", {name}, {OnnxWriter::list("perm", {perm.begin(), perm.end()})}, like);
}

// ---- forms

/// Returns scale and zero point, and the axis of a list of them.
std::pair<Names, std::vector<OnnxWriter::Attribute>> ExportedValues::quantisation(const Value& v) {
    const BoundQuant& q = v.quant;
    if (q.kind == proto::Quant::PER_GROUP)
        throw UserError(
            fmt::format("`{}` has a scale for each group of channels, which ONNX's QDQ form does "
                        "not have. Fix: quantize per channel.",
                        v.name));
    if (v.elem == ElemType::i16 || v.elem == ElemType::u16) writer_.hold_newer_steps();
    const bool list = q.kind == proto::Quant::PER_CHANNEL;
    const Sizes shape = list ? Sizes{static_cast<int64_t>(q.scales.size())} : Sizes{};
    std::string zeros(graph::data_bytes(v.elem, q.zero_points.size()), '\0');
    for (size_t i = 0; i < q.zero_points.size(); ++i)
        values::store_saturated(v.elem, reinterpret_cast<uint8_t*>(zeros.data()), static_cast<int64_t>(i),
                                q.zero_points[i]);
    return {{writer_.reals(v.name + ":scale", shape, q.scales),
             writer_.constant(v.name + ":zero", onnx_type(v.elem), shape, std::move(zeros))},
            {OnnxWriter::integer("axis", list ? q.axis : 0)}};
}

std::string ExportedValues::quantized(const std::string& op_type, const std::string& name, const Value& v) {
    auto [operands, attributes] = quantisation(v);
    operands.insert(operands.begin(), name);
    return writer_.node(op_type, operands, attributes, v.name);
}

std::string ExportedValues::raw_constant(const Value& v) {
    return writer_.constant(v.name, onnx_type(v.elem), sizes_of(v.shape), bytes_of(v.data));
}

std::string ExportedValues::constant(const Value& v) {
    if (v.quant) return quantized("DequantizeLinear", raw_constant(v), v);
    return is_float(v.elem) ? writer_.reals(v.name, sizes_of(v.shape), graph::numbers(v)) : raw_constant(v);
}

std::string ExportedValues::numbers(ValueId id) {
    Forms& forms = forms_[id];
    const Value& v = value(id);
    if (!forms.numbers.empty()) return forms.numbers;
    if (!forms.steps.empty()) return forms.numbers = quantized("DequantizeLinear", forms.steps, v);
    if (!forms.truth.empty()) return forms.numbers = cast(forms.truth, onnx_type(v.elem), v.name);
    if (v.constant()) return forms.numbers = constant(v);
    throw InternalError(fmt::format("export: {} is not there", v.name));
}

std::string ExportedValues::steps(ValueId id) {
    const Value& v = value(id);
    if (!in_steps(v))
        throw UserError(
            fmt::format("--export-qdq: the sums `{}` are read as integers, and the exported model has "
                        "them as floats. Fix: leave --export-qdq out.",
                        v.name));
    return v.constant() ? raw_constant(v) : forms_[id].steps;
}

std::string ExportedValues::truth(ValueId id) {
    Forms& forms = forms_[id];
    if (forms.truth.empty()) forms.truth = cast(numbers(id), TensorProto::BOOL, value(id).name);
    return forms.truth;
}

void ExportedValues::made(ValueId id, const std::string& name, int type) {
    const Value& v = value(id);
    const std::string numbers = type == type_of(v) ? name : cast(name, type_of(v), v.name);
    if (in_steps(v)) {
        forms_[id].steps = quantized("QuantizeLinear", numbers, v);
    } else {
        forms_[id].numbers = numbers;
    }
}

// ---- inputs and outputs

void ExportedValues::add_input(const Port& port) {
    const Value& v = value(port.value);
    const ElemType elem = port.elem == ElemType::none ? v.elem : port.elem;
    const int type = port_type(port, elem);
    writer_.input(port.name, type, graph::host_shape(graph_, port));
    const std::string name =
        transposed(port.name, port.perm.empty() ? port.perm : graph::inverse(port.perm), v.name);
    if (port.host == HostType::boolean && !v.quant) {
        made_truth(port.value, name);
    } else if (in_steps(v) && port.host == HostType::same && elem == v.elem) {
        forms_[port.value].steps = name;
    } else {
        made(port.value, name, type);
    }
}

void ExportedValues::add_output(const Port& port) {
    const Value& v = value(port.value);
    const ElemType elem = port.elem == ElemType::none ? v.elem : port.elem;
    const int type = port_type(port, elem);
    writer_.output(port.name, type, graph::host_shape(graph_, port));
    const auto is_the_same = [&port](const Port& input) { return input.name == port.name; };
    if (std::any_of(graph_.inputs.begin(), graph_.inputs.end(), is_the_same))
        return;  // the input, as it came
    std::string name;
    if (port.host == HostType::boolean && !v.quant) {
        name = truth(port.value);
    } else if (in_steps(v) && port.host == HostType::same && elem == v.elem) {
        name = steps(port.value);
    } else {
        name = numbers(port.value);
        if (type != type_of(v)) name = cast(name, type, v.name);
    }
    writer_.alias(transposed(name, port.perm, v.name), port.name);
}

}  // namespace kpu::quantize
