// Operators between quantised tensors: each is the operator of floats that its name says, between a DequantizeLinear
// and a QuantizeLinear, which is also how models are written that keep the two apart.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/onnx/operators.hpp"
#include "compiler/onnx/products/windows.hpp"
#include "compiler/onnx/quantized/quantized.hpp"

namespace kpu::onnx {
namespace {

/// Form of an operator: where the operands of the operator of floats are.
struct Form {
    std::string_view type, plain;
    Sizes quantised;    ///< positions of quantised operands, each followed by scale and zero point
    size_t result;      ///< where scale and zero point of the result stand
    int64_t bias = -1;  ///< integers in steps of the product
    bool many = false;  ///< the last of the quantised operands may be repeated
    std::string_view domain = "com.microsoft";
};

const std::vector<Form>& forms() {
    static const std::vector<Form> table = {
        {"QLinearConv", "Conv", {0, 3}, 6, 8, false, ""},
        {"QLinearConv", "Conv", {0, 3}, 6, 8},
        {"QLinearMatMul", "MatMul", {0, 3}, 6, -1, false, ""},
        {"QGemm", "Gemm", {0, 3}, 7, 6},
        {"QLinearAdd", "Add", {0, 3}, 6},
        {"QLinearMul", "Mul", {0, 3}, 6},
        {"QLinearSigmoid", "Sigmoid", {0}, 3},
        {"QLinearLeakyRelu", "LeakyRelu", {0}, 3},
        {"QLinearSoftmax", "Softmax", {0}, 3},
        {"QLinearReduceMean", "ReduceMean", {0}, 3},
        {"QLinearAveragePool", "AveragePool", {0}, 3},
        {"QLinearGlobalAveragePool", "GlobalAveragePool", {0}, 3},
        {"QLinearConcat", "Concat", {2}, 0, -1, true},
        {"QLinearWhere", "Where", {1, 4}, 7},
    };
    return table;
}

/// Returns the dimension of the output channels: of weights, whose scales may be one for each.
int64_t channels_axis(const Call& call, const Form& form, size_t operand) {
    if (form.plain == "Conv" || (form.plain == "Gemm" && call.integer("transB", 0) != 0)) return 0;
    return call.rank(operand) - 1;
}

/// Integers with the scales of the products that they are added to.
ValueId real_bias(Call& call, const Form& form) {
    const auto at = static_cast<size_t>(form.bias);
    const Known &x = call.known(1, "scales"), &w = call.known(4, "scales");
    BoundQuant quant;
    for (size_t i = 0; i < w.size(); ++i)
        quant.scales.push_back(x.number(0) * w.number(i) * call.real("alpha", 1));
    quant.zero_points.assign(quant.scales.size(), 0);
    quant.kind = w.size() == 1 ? proto::Quant::PER_TENSOR : proto::Quant::PER_CHANNEL;
    quant.axis = static_cast<int>(std::max<int64_t>(0, call.rank(at) - 1));
    if (w.size() > 1 && (call.rank(at) == 0 || call.shape(at).back() != static_cast<int64_t>(w.size())))
        Call::refuse(fmt::format("a bias {} does not fit to {} scales", text_of(call.shape(at)), w.size()));
    if (const std::optional<ValueId> steps = renamed(call, at, quant))
        return call.emit("dequantize", {*steps}, {}, ElemType::f32);
    const ValueId scales =
        call.constant({Type::f64, {static_cast<int64_t>(w.size())}, {}, quant.scales}, ElemType::f32);
    return call.binary("mul", call.cast(call.value(at), ElemType::f32), scales);
}

/// True if the operand and the result have their channels last; weights are as ever.
bool has_channels_last(const Call& call) { return call.integer("channels_last", 0) != 0; }

std::vector<Operand> real_operands(Call& call, const Form& form) {
    Sizes places = form.quantised;
    if (form.many) {
        const auto inputs = static_cast<int64_t>(call.inputs());
        while (places.back() + 3 < inputs) places.push_back(places.back() + 3);
    }
    std::vector<Operand> operands;
    for (int64_t i = 0; i < places[0] && !form.many; ++i) operands.push_back(call.in(static_cast<size_t>(i)));
    for (const int64_t place : places) {
        const auto at = static_cast<size_t>(place);
        ValueId x = dequantised(call, at, channels_axis(call, form, at), 0, ElemType::f32);
        if (place == places[0] && has_channels_last(call)) x = channels_first(call, x);
        operands.push_back(call.operand(x, Type::f32));
    }
    if (form.bias >= 0 && call.has(static_cast<size_t>(form.bias)))
        operands.push_back(call.operand(real_bias(call, form), Type::f32));
    return operands;
}

void import_qlinear(Call& call) {
    const auto is_this = [&](const Form& form) { return form.type == call.node.type; };
    const Form& form = *std::find_if(forms().begin(), forms().end(), is_this);
    const bool multiplies = form.plain == "Conv" || form.plain == "MatMul" || form.plain == "Gemm";
    if (multiplies && call.known(1, "scales").size() != 1)
        Call::refuse("its first operand has a scale for each row");
    NodeModel node = call.node;
    node.type = form.plain;
    constexpr int64_t axes_are_attributes = 13;
    const int64_t opset = call.integer("opset", axes_are_attributes);
    ValueId real = *import_as(call, node, opset, real_operands(call, form)).at(0).value;
    if (has_channels_last(call)) real = channels_last(call, real);
    if (!call.has(form.result)) return call.result(0, real, Type::f32);
    const Type type = call.has(form.result + 1) ? call.type(form.result + 1)
                                                : call.type(static_cast<size_t>(form.quantised[0]));
    call.result(
        0,
        call.emit("quantize", {real}, {}, elem_of(type), quant_of(call, form.result, call.sizes(real), 0, 0)),
        type);
}

}  // namespace

void add_qlinear(Operators& t) {
    for (const Form& form : forms()) t.push_back({form.type, import_qlinear, 10, 999, form.domain});
}

}  // namespace kpu::onnx
