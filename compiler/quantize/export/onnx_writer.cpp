#include "compiler/quantize/export/onnx_writer.hpp"

#include <fmt/format.h>

#include <cstring>

#include "base/diagnostics.hpp"

namespace kpu::quantize {
namespace {

struct Version {
    int opset, ir;
};
constexpr Version usual = {20, 9};
/// Version for newer steps, only where needed: in this opset ONNX Runtime 1.32 rewrites transposes of steps
/// to what it then refuses.
constexpr Version of_newer_steps = {21, 10};
constexpr int onnx_int4 = 22;  ///< newer than the packaged schema

void describe(::onnx::ValueInfoProto& info, const std::string& name, int type, const Dims& shape) {
    info.set_name(name);
    auto& tensor = *info.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(type);
    tensor.mutable_shape();  // a scalar has one without dimensions
    for (const int64_t size : shape) tensor.mutable_shape()->add_dim()->set_dim_value(size);
}

}  // namespace

OnnxWriter::OnnxWriter(const std::string& name) {
    model_.set_ir_version(usual.ir);
    model_.set_producer_name("kpusim");
    model_.add_opset_import()->set_version(usual.opset);
    model_.mutable_graph()->set_name(name.empty() ? "network" : name);
}

void OnnxWriter::hold_newer_steps() {
    model_.set_ir_version(of_newer_steps.ir);
    model_.mutable_opset_import(0)->set_version(of_newer_steps.opset);
}

void OnnxWriter::reserve(const std::string& name) { reserved_.insert(name); }

void OnnxWriter::input(const std::string& name, int type, const Dims& shape) {
    describe(*model_.mutable_graph()->add_input(), name, type, shape);
}

void OnnxWriter::output(const std::string& name, int type, const Dims& shape) {
    describe(*model_.mutable_graph()->add_output(), name, type, shape);
}

std::string OnnxWriter::unique(const std::string& like) {
    std::string name;
    do {
        name = fmt::format("{}/{}", like, ++count_);
    } while (reserved_.count(name) != 0);
    return name;
}

std::string OnnxWriter::node(const std::string& op_type, const Names& inputs,
                             const std::vector<Attribute>& attributes, const std::string& like) {
    return node(op_type, inputs, attributes, like, 1)[0];
}

Names OnnxWriter::node(const std::string& op_type, const Names& inputs,
                       const std::vector<Attribute>& attributes, const std::string& like, size_t outputs) {
    ::onnx::NodeProto& node = *model_.mutable_graph()->add_node();
    node.set_op_type(op_type);
    node.set_name(unique(like + ":" + op_type));
    for (const std::string& input : inputs) node.add_input(input);
    Names names;
    for (size_t i = 0; i < outputs; ++i) {
        names.push_back(unique(like));
        node.add_output(names.back());
    }
    for (const Attribute& attribute : attributes) {
        if (attribute.name == "block_size") hold_newer_steps();
        ::onnx::AttributeProto& proto = *node.add_attribute();
        proto.set_name(attribute.name);
        if (attribute.is_real) {
            proto.set_type(::onnx::AttributeProto::FLOAT);
            proto.set_f(static_cast<float>(attribute.number));
        } else if (attribute.list) {
            proto.set_type(::onnx::AttributeProto::INTS);
            for (const int64_t value : attribute.ints) proto.add_ints(value);
        } else if (!attribute.ints.empty()) {
            proto.set_type(::onnx::AttributeProto::INT);
            proto.set_i(attribute.ints[0]);
        } else {
            proto.set_type(::onnx::AttributeProto::STRING);
            proto.set_s(attribute.text);
        }
    }
    return names;
}

std::string OnnxWriter::constant(const std::string& like, int type, const Sizes& shape, std::string bytes) {
    ::onnx::TensorProto& tensor = *model_.mutable_graph()->add_initializer();
    const std::string name = unique(like);
    tensor.set_name(name);
    tensor.set_data_type(type);
    for (const int64_t size : shape) tensor.add_dims(size);
    if (type == onnx_int4) {  // two to a byte, the first one low
        hold_newer_steps();
        const std::string single = std::move(bytes);
        bytes.assign((single.size() + 1) / 2, '\0');
        for (size_t i = 0; i < single.size(); ++i)
            bytes[i / 2] = static_cast<char>(bytes[i / 2] | (single[i] & 0xf) << (i % 2 * 4));
    }
    tensor.set_raw_data(std::move(bytes));
    return name;
}

std::string OnnxWriter::reals(const std::string& like, const Sizes& shape,
                              const std::vector<double>& numbers) {
    std::string bytes(numbers.size() * sizeof(float), '\0');
    for (size_t i = 0; i < numbers.size(); ++i) {
        const auto number = static_cast<float>(numbers[i]);
        std::memcpy(&bytes[i * sizeof(float)], &number, sizeof(float));
    }
    return constant(like, ::onnx::TensorProto::FLOAT, shape, std::move(bytes));
}

std::string OnnxWriter::integers(const std::string& like, const Sizes& numbers) {
    return integers(like, {static_cast<int64_t>(numbers.size())}, numbers);
}

std::string OnnxWriter::integers(const std::string& like, const Sizes& shape, const Sizes& numbers) {
    std::string bytes(numbers.size() * sizeof(int64_t), '\0');
    if (!numbers.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
    return constant(like, ::onnx::TensorProto::INT64, shape, std::move(bytes));
}

void OnnxWriter::alias(const std::string& name, const std::string& as) {
    ::onnx::NodeProto& node = *model_.mutable_graph()->add_node();
    node.set_op_type("Identity");
    node.set_name(unique(as + ":Identity"));
    node.add_input(name);
    node.add_output(as);
}

std::string OnnxWriter::bytes() const {
    if (model_.ByteSizeLong() > INT32_MAX)
        throw UserError(
            "the exported model has more than 2 GB, which its format cannot hold in one file. Fix: leave "
            "--export-qdq out.");
    return model_.SerializeAsString();
}

int onnx_type(ElemType elem) {
    switch (elem) {
        case ElemType::i4:
            return onnx_int4;
        case ElemType::i8:
            return ::onnx::TensorProto::INT8;
        case ElemType::u8:
            return ::onnx::TensorProto::UINT8;
        case ElemType::i16:
            return ::onnx::TensorProto::INT16;
        case ElemType::u16:
            return ::onnx::TensorProto::UINT16;
        case ElemType::i32:
            return ::onnx::TensorProto::INT32;
        case ElemType::u32:
            return ::onnx::TensorProto::UINT32;
        default:
            return ::onnx::TensorProto::FLOAT;
    }
}

int host_type_of(ElemType elem) {
    if (elem == ElemType::f16) return ::onnx::TensorProto::FLOAT16;
    return elem == ElemType::bf16 ? ::onnx::TensorProto::BFLOAT16 : onnx_type(elem);
}

}  // namespace kpu::quantize
