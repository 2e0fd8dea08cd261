#include "compiler/quantize/export_qdq.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "compiler/graph/data.hpp"
#include "compiler/graph/execute.hpp"
#include "compiler/quantize/onnx_writer.hpp"
#include "values/scalar.hpp"

namespace kpu::quantize {
namespace {

using graph::Graph;
using graph::HostType;
using graph::Node;
using graph::Port;
using graph::Value;
using graph::ValueId;
using Writer = OnnxWriter;

/// Operators with the same operands, and attributes of the same names.
struct Equal {
    std::string_view opcode;
    const char* op_type;
    std::vector<std::string_view> reals = {};
};

const std::vector<Equal>& equals() {
    static const std::vector<Equal> table = {
        {"relu", "Relu"},
        {"sigmoid", "Sigmoid"},
        {"tanh", "Tanh"},
        {"exp", "Exp"},
        {"log", "Log"},
        {"sqrt", "Sqrt"},
        {"abs", "Abs"},
        {"neg", "Neg"},
        {"gelu", "Gelu"},
        {"add", "Add"},
        {"sub", "Sub"},
        {"mul", "Mul"},
        {"div", "Div"},
        {"pow", "Pow"},
        {"min", "Min"},
        {"max", "Max"},
        {"erf", "Erf"},
        {"floor", "Floor"},
        {"ceil", "Ceil"},
        {"round", "Round"},
        {"sign", "Sign"},
        {"reciprocal", "Reciprocal"},
        {"sin", "Sin"},
        {"cos", "Cos"},
        {"atan", "Atan"},
        {"softplus", "Softplus"},
        {"mish", "Mish"},
        {"hard_swish", "HardSwish"},
        {"prelu", "PRelu"},
        {"leaky_relu", "LeakyRelu", {"alpha"}},
        {"elu", "Elu", {"alpha"}},
        {"celu", "Celu", {"alpha"}},
        {"hard_sigmoid", "HardSigmoid", {"alpha", "beta"}},
        {"selu", "Selu", {"alpha", "gamma"}},
    };
    return table;
}

Sizes sizes_of(const Dims& shape) { return {shape.begin(), shape.end()}; }

/// Dimensions of images in ONNX: channels before the window's.
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

class Exporter {
  public:
    explicit Exporter(const Graph& graph)
        : graph_(graph), writer_(graph.name), steps_(graph.values.size()), floats_(graph.values.size()) {}

    std::string run() {
        for (const Port& port : graph_.inputs) add_input(port);
        for (const Node& node : graph_.nodes) add(node);
        for (const Port& port : graph_.outputs) add_output(port);
        return writer_.bytes();
    }

  private:
    const Value& value(ValueId id) const { return graph_.value(id); }
    bool in_steps(ValueId id) const { return value(id).quant && value(id).elem != ElemType::i32; }

    // ---- the two forms of a value

    /// Scale and zero point, and the axis of a list of them.
    std::pair<Names, std::vector<Writer::Attribute>> quant(const Value& v) {
        const BoundQuant& q = v.quant;
        if (q.kind == proto::Quant::PER_GROUP)
            throw UserError(
                fmt::format("`{}` has a scale for each group of channels, which ONNX's QDQ form does "
                            "not have. Fix: quantize per channel.",
                            v.name));
        const bool list = q.kind == proto::Quant::PER_CHANNEL;
        const Sizes shape = list ? Sizes{static_cast<int64_t>(q.scales.size())} : Sizes{};
        std::string zeros(graph::data_bytes(v.elem, q.zero_points.size()), '\0');
        for (size_t i = 0; i < q.zero_points.size(); ++i)
            values::store_saturated(v.elem, reinterpret_cast<uint8_t*>(zeros.data()), static_cast<int64_t>(i),
                                    q.zero_points[i]);
        return {{writer_.reals(v.name + ":scale", shape, q.scales),
                 writer_.constant(v.name + ":zero", onnx_type(v.elem), shape, std::move(zeros))},
                {Writer::integer("axis", list ? q.axis : 0)}};
    }

    std::string dequantized(const Value& v, const std::string& steps) {
        auto [operands, attributes] = quant(v);
        operands.insert(operands.begin(), steps);
        return writer_.node("DequantizeLinear", operands, attributes, v.name);
    }

    /// The numbers that a value stands for, as floats; of integers without quantisation the integers.
    std::string floats(ValueId id) {
        std::string& name = floats_[id];
        if (!name.empty()) return name;
        const Value& v = value(id);
        if (v.constant() && !v.quant) return name = plain_constant(v);
        if (v.constant() && steps_[id].empty())
            steps_[id] = writer_.constant(v.name, onnx_type(v.elem), sizes_of(v.shape), bytes_of(v.data));
        if (steps_[id].empty()) throw InternalError(fmt::format("export: {} is not there", v.name));
        return name = dequantized(v, steps_[id]);
    }

    static std::string bytes_of(const graph::Data& data) {
        return {reinterpret_cast<const char*>(data.bytes), data.size};
    }

    std::string plain_constant(const Value& v) {
        if (is_float(v.elem)) return writer_.reals(v.name, sizes_of(v.shape), graph::numbers(v));
        return writer_.constant(v.name, onnx_type(v.elem), sizes_of(v.shape), bytes_of(v.data));
    }

    /// What a node made, as floats, becomes the value: steps where it has some.
    void made(ValueId id, const std::string& name) {
        if (!in_steps(id)) {
            floats_[id] = name;
            return;
        }
        auto [operands, attributes] = quant(value(id));
        operands.insert(operands.begin(), name);
        steps_[id] = writer_.node("QuantizeLinear", operands, attributes, value(id).name);
    }

    // ---- inputs and outputs

    ElemType host_elem(const Port& port) const {
        return port.elem == ElemType::none ? value(port.value).elem : port.elem;
    }
    int host_type(const Port& port) const {
        if (port.host == HostType::int64) return ::onnx::TensorProto::INT64;
        return port.host == HostType::boolean ? ::onnx::TensorProto::BOOL : onnx_type(host_elem(port));
    }
    static Sizes order(const std::vector<int>& perm) { return {perm.begin(), perm.end()}; }

    void add_input(const Port& port) {
        writer_.input(port.name, host_type(port), graph::host_shape(graph_, port));
        std::string name = port.name;
        const Value& v = value(port.value);
        if (port.host != HostType::same)
            name = writer_.node("Cast", {name}, {Writer::integer("to", onnx_type(v.elem))}, v.name);
        if (!port.perm.empty())
            name = writer_.node("Transpose", {name}, {Writer::list("perm", order(graph::inverse(port.perm)))},
                                v.name);
        if (in_steps(port.value) && !is_float(host_elem(port))) {
            steps_[port.value] = name;
        } else {
            made(port.value, name);
        }
    }

    void add_output(const Port& port) {
        const Value& v = value(port.value);
        const bool raw = in_steps(port.value) && !is_float(host_elem(port));
        std::string name = raw ? steps_[port.value] : floats(port.value);
        if (!port.perm.empty())
            name = writer_.node("Transpose", {name}, {Writer::list("perm", order(port.perm))}, v.name);
        if (port.host != HostType::same)
            name = writer_.node("Cast", {name}, {Writer::integer("to", host_type(port))}, v.name);
        writer_.alias(name, port.name);
        writer_.output(port.name, host_type(port), graph::host_shape(graph_, port));
    }

    // ---- nodes

    void add(const Node& node) {
        const OpcodeSpec& spec = node.spec();
        const std::string& like = value(node.outputs[0]).name;
        const bool float_cast =  // the exported model has one float type
            spec.name == "cast" && is_float(value(node.inputs[0]).elem) &&
            is_float(value(node.outputs[0]).elem);
        if (spec.name == "quantize" || spec.name == "dequantize" || float_cast) {
            made(node.outputs[0], floats(node.inputs[0]));
        } else if (spec.op_class == OpcodeClass::conv) {
            made(node.outputs[0], convolution(node, like));
        } else if (spec.op_class == OpcodeClass::gemm) {
            made(node.outputs[0], product(node, like));
        } else if (spec.name == "maxpool" || spec.name == "avgpool") {
            made(node.outputs[0], pool(node, like));
        } else if (spec.name == "split") {
            split(node, like);
        } else if (const auto name = elementwise(node, like)) {
            made(node.outputs[0], *name);
        } else if (const auto other = view_or_row_function(node, like)) {
            made(node.outputs[0], *other);
        } else {
            throw UserError(
                fmt::format("operator `{}`: {} has no equal in the exported model. Fix: leave "
                            "--export-qdq out.",
                            node.source.name, spec.name));
        }
    }

    std::string transposed(const std::string& name, const Sizes& perm, const std::string& like) {
        return writer_.node("Transpose", {name}, {Writer::list("perm", perm)}, like);
    }

    static const Sizes& ints(const Node& node, std::string_view name) { return node.attrs.find(name)->ints; }

    /// The weights of a product, channels of the output first, in another order of dimensions.
    std::string weights(ValueId id, const Sizes& perm) {
        const Value& v = value(id);
        if (!v.constant()) return transposed(floats(id), perm, v.name);
        // its scales move with their dimension
        const std::vector<int> order(perm.begin(), perm.end());
        BoundQuant quantisation = v.quant;
        if (quantisation.kind == proto::Quant::PER_CHANNEL)
            quantisation.axis =
                static_cast<int>(std::find(order.begin(), order.end(), quantisation.axis) - order.begin());
        Value moved = v;
        moved.data = graph::permuted(v.data, graph::element_bytes(v.elem), v.shape, order);
        moved.shape = graph::permuted(v.shape, order);
        moved.quant = std::move(quantisation);
        if (!moved.quant) return plain_constant(moved);
        return dequantized(moved, writer_.constant(moved.name, onnx_type(moved.elem), sizes_of(moved.shape),
                                                   bytes_of(moved.data)));
    }

    /// The weights of a product with scales of groups: blocks along the input channels, the same for each tap of a window.
    std::string group_weights(const Node& node, const Sizes& perm) {
        const Value &w = value(node.inputs[1]), &s = value(node.inputs[2]);
        const std::vector<int> order(perm.begin(), perm.end());
        const size_t rank = w.shape.rank, groups_at = s.shape.rank - 2U;
        const std::vector<double> given = graph::numbers(s);
        const auto count = static_cast<size_t>(s.shape[groups_at] * s.shape[groups_at + 1]);
        Dims blocks = w.shape;
        blocks[rank - 2] = s.shape[groups_at];
        const auto constant = [&](const std::string& name, ElemType elem, const Dims& shape,
                                  const graph::Data& data) {
            return writer_.constant(
                name, onnx_type(elem), sizes_of(graph::permuted(shape, order)),
                bytes_of(graph::permuted(data, graph::element_bytes(elem), shape, order)));
        };
        const auto of_blocks = [&](const char* what, ElemType elem, size_t first) {
            std::vector<double> all(static_cast<size_t>(blocks.product()));
            for (size_t i = 0; i < all.size(); ++i) all[i] = given[first + i % count];
            return constant(w.name + what, elem, blocks, graph::make_numbers(elem, all));
        };
        Names operands = {constant(w.name, w.elem, w.shape, w.data), of_blocks(":scale", ElemType::f32, 0)};
        if (s.shape.rank == 3) operands.push_back(of_blocks(":zero", w.elem, count));
        const int64_t axis =
            std::find(order.begin(), order.end(), static_cast<int>(rank) - 2) - order.begin();
        return writer_.node("DequantizeLinear", operands,
                            {Writer::integer("axis", axis),
                             Writer::integer("block_size", node.attrs.integer("group_size", 1))},
                            w.name);
    }

    std::string convolution(const Node& node, const std::string& like) {
        const Dims& x = value(node.inputs[0]).shape;
        const size_t rank = x.rank;
        const bool turned = node.spec().name == "conv_transpose2d";
        const int64_t groups = node.spec().depthwise ? x[rank - 1] : node.attrs.integer("groups", 1);
        Sizes perm = {static_cast<int64_t>(rank) - 1, static_cast<int64_t>(rank) - 2};  // O, I, window
        for (size_t d = 0; d + 2 < rank; ++d) perm.push_back(static_cast<int64_t>(d));
        if (turned && groups > 1)
            throw UserError(
                fmt::format("operator `{}`: a transposed convolution of groups has no equal in the "
                            "exported model. Fix: leave --export-qdq out.",
                            node.source.name));
        if (turned) std::swap(perm[0], perm[1]);
        Names operands = {
            transposed(floats(node.inputs[0]), channels_first(rank), like),
            node.spec().group_scales ? group_weights(node, perm) : weights(node.inputs[1], perm)};
        const bool bias = node.inputs.size() > node.spec().addend;
        const bool per_channel = bias && value(node.inputs[node.spec().addend]).shape.rank == 1;
        if (per_channel) operands.push_back(addend(node));
        std::vector<Writer::Attribute> attributes = {
            Writer::list("pads", ints(node, "pads")), Writer::list("strides", ints(node, "strides")),
            Writer::list("dilations", ints(node, "dilations")), Writer::integer("group", groups)};
        if (turned && node.attrs.find("output_padding") != nullptr)
            attributes.push_back(Writer::list("output_padding", ints(node, "output_padding")));
        std::string y = writer_.node(turned ? "ConvTranspose" : "Conv", operands, attributes, like);
        y = transposed(y, channels_last(rank), like);
        return bias && !per_channel ? writer_.node("Add", {y, addend(node)}, {}, like) : y;
    }

    /// The third operand of a product. Integers without scales are in steps of the accumulators.
    std::string addend(const Node& node) {
        const ValueId id = node.inputs[node.spec().addend];
        const BoundQuant &x = value(node.inputs[0]).quant, &w = value(node.inputs[1]).quant;
        if (value(id).elem != ElemType::i32 || value(id).quant || !x) return floats(id);
        if (!value(id).constant())
            throw UserError(
                fmt::format("operator `{}`: its addend is computed in integers, which the exported "
                            "model has no form of. Fix: leave --export-qdq out.",
                            node.source.name));
        Value bias = value(id);
        bias.quant = w ? w : x;
        for (double& scale : bias.quant.scales) scale *= w ? x.scales[0] : 1;
        for (int64_t& zero : bias.quant.zero_points) zero = 0;
        bias.quant.axis = std::max(0, bias.shape.rank - 1);
        return dequantized(bias, writer_.constant(bias.name, onnx_type(bias.elem), sizes_of(bias.shape),
                                                  bytes_of(bias.data)));
    }

    std::string product(const Node& node, const std::string& like) {
        const std::string w = node.spec().group_scales ? group_weights(node, {0, 1}) : floats(node.inputs[1]);
        const std::string y = writer_.node("MatMul", {floats(node.inputs[0]), w}, {}, like);
        return node.inputs.size() <= node.spec().addend ? y
                                                        : writer_.node("Add", {y, addend(node)}, {}, like);
    }

    std::string pool(const Node& node, const std::string& like) {
        const size_t rank = value(node.inputs[0]).shape.rank;
        std::vector<Writer::Attribute> attributes = {Writer::list("kernel_shape", ints(node, "kernel_shape")),
                                                     Writer::list("pads", ints(node, "pads")),
                                                     Writer::list("strides", ints(node, "strides"))};
        if (node.attrs.find("dilations") != nullptr)
            attributes.push_back(Writer::list("dilations", ints(node, "dilations")));
        const bool mean = node.spec().name == "avgpool";
        if (node.attrs.integer("ceil_mode", 0) != 0) attributes.push_back(Writer::integer("ceil_mode", 1));
        if (mean)
            attributes.push_back(
                Writer::integer("count_include_pad", node.attrs.integer("count_include_pad", 0)));
        const std::string x = transposed(floats(node.inputs[0]), channels_first(rank), like);
        return transposed(writer_.node(mean ? "AveragePool" : "MaxPool", {x}, attributes, like),
                          channels_last(rank), like);
    }

    std::optional<std::string> elementwise(const Node& node, const std::string& like) {
        const std::string_view name = node.spec().name;
        if (node.spec().op_class != OpcodeClass::elementwise) return std::nullopt;
        Names x;
        for (const ValueId id : node.inputs) x.push_back(floats(id));
        for (const Equal& row : equals()) {
            if (row.opcode != name) continue;
            std::vector<Writer::Attribute> attributes;
            for (const std::string_view attribute : row.reals) {
                if (const BoundAttr* given = node.attrs.find(attribute))
                    attributes.push_back(Writer::real(std::string(attribute), given->real));
            }
            return writer_.node(row.op_type, x, attributes, like);
        }
        if (name == "clamp")
            return writer_.node("Clip",
                                {x[0], writer_.reals(like, {}, {node.attrs.real("min_val", 0)}),
                                 writer_.reals(like, {}, {node.attrs.real("max_val", 0)})},
                                {}, like);
        if (name == "silu")
            return writer_.node("Mul", {x[0], writer_.node("Sigmoid", x, {}, like)}, {}, like);
        if (name == "square") return writer_.node("Mul", {x[0], x[0]}, {}, like);
        if (name == "rsqrt") return writer_.node("Reciprocal", {writer_.node("Sqrt", x, {}, like)}, {}, like);
        if (name == "gelu_tanh") return writer_.node("Gelu", x, {Writer::text("approximate", "tanh")}, like);
        if (name == "where") {
            const auto condition =
                writer_.node("Cast", {x[0]}, {Writer::integer("to", ::onnx::TensorProto::BOOL)}, like);
            return writer_.node("Where", {condition, x[1], x[2]}, {}, like);
        }
        return std::nullopt;
    }

    std::optional<std::string> view_or_row_function(const Node& node, const std::string& like) {
        const std::string_view name = node.spec().name;
        Names x;
        for (const ValueId id : node.inputs) x.push_back(floats(id));
        const auto axis = [&] { return Writer::integer("axis", node.attrs.integer("axis", 0)); };
        if (name == "transpose") return transposed(x[0], ints(node, "perm"), like);
        if (name == "reshape")
            return writer_.node(
                "Reshape", {x[0], writer_.integers(like, sizes_of(value(node.outputs[0]).shape))}, {}, like);
        if (name == "slice") {
            for (const char* list : {"starts", "ends", "axes", "steps"})
                x.push_back(writer_.integers(like, ints(node, list)));
            return writer_.node("Slice", x, {}, like);
        }
        if (name == "concat") return writer_.node("Concat", x, {axis()}, like);
        if (name == "gather") return writer_.node("Gather", x, {axis()}, like);
        if (name == "pad")
            return writer_.node("Pad",
                                {x[0], writer_.integers(like, ints(node, "pads")),
                                 writer_.reals(like, {}, {node.attrs.real("constant_value", 0)})},
                                {Writer::text("mode", node.attrs.find("mode")->text)}, like);
        if (name == "softmax" || name == "log_softmax")
            return writer_.node(name == "softmax" ? "Softmax" : "LogSoftmax", x, {axis()}, like);
        if (name == "layernorm") return layer_norm(node, x, like);
        return reduction(node, x[0], like);
    }

    std::optional<std::string> layer_norm(const Node& node, Names x, const std::string& like) {
        const Dims& shape = value(node.inputs[0]).shape;
        const int64_t axis = node.attrs.integer("axis", -1);
        if (axis != -1 && axis != shape.rank - 1) return std::nullopt;
        const auto size = static_cast<size_t>(shape[shape.rank - 1U]);
        if (x.size() < 2)
            x.push_back(writer_.reals(like, {static_cast<int64_t>(size)}, std::vector<double>(size, 1)));
        return writer_.node(
            "LayerNormalization", x,
            {Writer::integer("axis", -1), Writer::real("epsilon", node.attrs.real("epsilon", 0))}, like);
    }

    std::optional<std::string> reduction(const Node& node, const std::string& x, const std::string& like) {
        static constexpr std::array<std::pair<std::string_view, const char*>, 6> names = {{
            {"reduce_sum", "ReduceSum"},
            {"reduce_mean", "ReduceMean"},
            {"reduce_max", "ReduceMax"},
            {"reduce_min", "ReduceMin"},
            {"reduce_prod", "ReduceProd"},
            {"reduce_l2", "ReduceL2"},
        }};
        for (const auto& [opcode, op_type] : names) {
            if (node.spec().name == opcode)
                return writer_.node(op_type, {x, writer_.integers(like, ints(node, "axes"))},
                                    {Writer::integer("keepdims", node.attrs.integer("keepdims", 0))}, like);
        }
        return std::nullopt;
    }

    void split(const Node& node, const std::string& like) {
        const Names parts =
            writer_.node("Split", {floats(node.inputs[0]), writer_.integers(like, ints(node, "split_sizes"))},
                         {Writer::integer("axis", node.attrs.integer("axis", 0))}, like, node.outputs.size());
        for (size_t i = 0; i < parts.size(); ++i) made(node.outputs[i], parts[i]);
    }

    const Graph& graph_;
    OnnxWriter writer_;
    std::vector<std::string> steps_, floats_;  ///< names in the model; empty: not there
};

}  // namespace

std::string export_qdq(const Graph& graph) { return Exporter(graph).run(); }

}  // namespace kpu::quantize
