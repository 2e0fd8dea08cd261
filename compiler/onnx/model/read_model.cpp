// ONNX files into the structs of model.hpp.
#include <fmt/ranges.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/unknown_field_set.h>
#include <google/protobuf/wire_format_lite.h>

#include <climits>

#include "compiler/onnx/model/tensors.hpp"

namespace kpu::onnx {
namespace {

// Fields that are newer than the schema of the distribution.
constexpr int node_overload = 8, function_defaults = 11, function_overload = 13;

constexpr int most_messages_deep = 120;  ///< a graph inside a graph takes three

const std::string* unknown_text(const google::protobuf::UnknownFieldSet& fields, int number, int& from) {
    for (; from < fields.field_count(); ++from) {
        const google::protobuf::UnknownField& field = fields.field(from);
        if (field.number() != number || field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED)
            continue;
        ++from;
        return &field.length_delimited();
    }
    return nullptr;
}

std::string unknown_text(const google::protobuf::UnknownFieldSet& fields, int number) {
    int from = 0;
    const std::string* text = unknown_text(fields, number, from);
    return text == nullptr ? std::string() : *text;
}

/// Checks a name: names go into messages and programs, which hold UTF-8.
const std::string& checked(const Parsed& parsed, const std::string& name) {
    using Format = google::protobuf::internal::WireFormatLite;
    const google::protobuf::LogSilencer silence;
    if (!Format::VerifyUtf8String(name.data(), static_cast<int>(name.size()), Format::PARSE, "name"))
        parsed.refuse("a name in it is not UTF-8. Fix: export the model again.");
    return name;
}

template <class List>
std::vector<std::string> checked_list(const Parsed& parsed, const List& names) {
    std::vector<std::string> result;
    for (const std::string& name : names) result.push_back(checked(parsed, name));
    return result;
}

GraphModel read_graph(Parsed& parsed, const ::onnx::GraphProto& proto);

Attribute read_attribute(Parsed& parsed, const ::onnx::AttributeProto& proto) {
    Attribute attribute;
    attribute.name = proto.name();
    attribute.reference = proto.ref_attr_name();
    attribute.integer = proto.i();
    attribute.real = static_cast<double>(proto.f());
    attribute.text = proto.s();
    attribute.ints.assign(proto.ints().begin(), proto.ints().end());
    attribute.reals.assign(proto.floats().begin(), proto.floats().end());
    attribute.texts.assign(proto.strings().begin(), proto.strings().end());
    if (proto.has_t()) attribute.tensor = read_tensor(parsed, proto.t());
    if (proto.has_g()) attribute.graph = std::make_shared<GraphModel>(read_graph(parsed, proto.g()));
    return attribute;
}

NodeModel read_node(Parsed& parsed, const ::onnx::NodeProto& proto) {
    NodeModel node;
    node.name = checked(parsed, proto.name());
    node.type = checked(parsed, proto.op_type());
    node.domain = domain_of(checked(parsed, proto.domain()));
    node.overload = unknown_text(proto.unknown_fields(), node_overload);
    node.inputs = checked_list(parsed, proto.input());
    node.outputs = checked_list(parsed, proto.output());
    for (const auto& attribute : proto.attribute())
        node.attributes.push_back(read_attribute(parsed, attribute));
    return node;
}

ValueInfo read_info(const Parsed& parsed, const ::onnx::ValueInfoProto& proto) {
    ValueInfo info;
    info.name = checked(parsed, proto.name());
    info.tensor = proto.type().has_tensor_type();
    if (!info.tensor) return info;
    const auto& type = proto.type().tensor_type();
    info.type = type.elem_type() > 0 && type.elem_type() < 255 ? static_cast<Type>(type.elem_type())
                                                               : Type::undefined;
    info.shaped = type.has_shape();
    for (const auto& size : type.shape().dim()) {
        Dimension dimension;
        if (size.has_dim_value() && size.dim_value() >= 0) dimension.size = size.dim_value();
        dimension.name = checked(parsed, size.dim_param());
        info.shape.push_back(std::move(dimension));
    }
    return info;
}

GraphModel read_graph(Parsed& parsed, const ::onnx::GraphProto& proto) {
    if (proto.sparse_initializer_size() > 0)
        parsed.refuse("graph `{}` has sparse initializers. Fix: export it with dense ones.", proto.name());
    GraphModel graph;
    graph.name = checked(parsed, proto.name());
    for (const auto& node : proto.node()) graph.nodes.push_back(read_node(parsed, node));
    for (const auto& tensor : proto.initializer()) {
        checked(parsed, tensor.name());
        graph.tensors.push_back(read_tensor(parsed, tensor));
    }
    for (const auto& info : proto.input()) graph.inputs.push_back(read_info(parsed, info));
    for (const auto& info : proto.output()) graph.outputs.push_back(read_info(parsed, info));
    for (const auto& info : proto.value_info()) graph.values.push_back(read_info(parsed, info));
    return graph;
}

template <class List>
Opsets read_opsets(const List& list) {
    Opsets opsets;
    for (const auto& opset : list) opsets[domain_of(opset.domain())] = opset.version();
    return opsets;
}

Function read_function(Parsed& parsed, const ::onnx::FunctionProto& proto) {
    Function function;
    function.name = checked(parsed, proto.name());
    function.domain = domain_of(checked(parsed, proto.domain()));
    function.overload = unknown_text(proto.unknown_fields(), function_overload);
    function.inputs = checked_list(parsed, proto.input());
    function.outputs = checked_list(parsed, proto.output());
    int from = 0;
    while (const std::string* bytes = unknown_text(proto.unknown_fields(), function_defaults, from)) {
        // its tensors point into the message: it has to stay
        ::onnx::AttributeProto attribute;
        if (!attribute.ParseFromString(*bytes))
            parsed.refuse("function `{}` has a damaged attribute. Fix: export the model again.",
                          function.name);
        if (attribute.has_t() || attribute.has_g()) {
            parsed.refuse(
                "function `{}`: attribute `{}` has a tensor or graph as default. Fix: give it in each call.",
                function.name, attribute.name());
        }
        function.defaults.push_back(read_attribute(parsed, attribute));
    }
    for (const auto& node : proto.node()) function.nodes.push_back(read_node(parsed, node));
    function.opsets = read_opsets(proto.opset_import());
    return function;
}

/// Refuses files that are often given instead of a model.
void check_kind(const Parsed& parsed, std::string_view bytes) {
    const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
    if (bytes.empty()) parsed.refuse("the file is empty. Fix: export the model again.");
    const bool pickle = bytes.size() >= 2 && byte(0) == 0x80 && byte(1) >= 2 && byte(1) <= 5;
    if (pickle || bytes.substr(0, 4) == "PK\3\4") {
        parsed.refuse(
            "this is a {}, which kpusim never unpickles. Fix: export the model as ONNX (torch.onnx.export).",
            pickle ? "Python pickle" : "zip archive, as PyTorch and NumPy write them,");
    }
    if (bytes.size() > INT_MAX) {
        parsed.refuse(
            "the file has {} bytes, Protobuf messages end at 2 GiB. Fix: save it with external data.",
            bytes.size());
    }
}

std::shared_ptr<::onnx::ModelProto> parse(const Parsed& parsed, std::string_view bytes) {
    const google::protobuf::LogSilencer silence;  // its complaints would go to stderr
    auto message = std::make_shared<::onnx::ModelProto>();
    google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(bytes.data()),
                                                  static_cast<int>(bytes.size()));
    stream.SetRecursionLimit(most_messages_deep);
    if (!message->ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
        parsed.refuse(
            "this is not an ONNX model, or it is truncated or damaged, or its graphs are nested more than {} "
            "deep. "
            "Fix: export the model again.",
            most_messages_deep / 3);
    }
    return message;
}

}  // namespace

Model read_model(std::string_view bytes, const std::string& origin, const std::string& folder,
                 const std::map<std::string, graph::Data>& files) {
    Parsed parsed{nullptr, origin, folder, files, {}, 0};
    check_kind(parsed, bytes);
    const std::shared_ptr<::onnx::ModelProto> message = parse(parsed, bytes);
    parsed.message = message;
    if (!message->has_graph() || (message->opset_import_size() == 0 && message->graph().node_size() > 0)) {
        parsed.refuse(
            "this is not an ONNX model: it has no {}. Fix: give a file that an ONNX exporter wrote.",
            message->has_graph() ? "opset_import" : "graph");
    }
    Model model;
    model.origin = origin;
    model.opsets = read_opsets(message->opset_import());
    model.opsets.emplace("",
                         last_opset);  // a model of com.microsoft alone names none, as ONNX Runtime has it
    model.graph = read_graph(parsed, message->graph());
    for (const auto& function : message->functions()) {
        model.functions.push_back(read_function(parsed, function));
        model.functions.back().opsets.emplace("", model.opsets.at(""));
    }
    return model;
}

}  // namespace kpu::onnx
