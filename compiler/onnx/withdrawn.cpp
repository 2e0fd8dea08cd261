// Operators that ONNX had for a while, without ever promising to keep them: ONNX Runtime runs them up to opset 9.
#include <fmt/format.h>

#include "compiler/onnx/operators.hpp"

namespace kpu::onnx {
namespace {

void affine(Call& call) {
    const ValueId scaled = call.binary("mul", call.value(0), call.real("alpha", 1));
    call.result(call.binary("add", scaled, call.real("beta", 0)));
}

void scale(Call& call) { call.result(call.binary("mul", call.value(0), call.real("scale", 1))); }

/// Computes alpha * f(beta * x).
void scaled_function(Call& call) {
    const std::string_view f = call.node.type == "ScaledTanh" ? "tanh" : "softplus";
    const ValueId inner = call.unary(f, call.binary("mul", call.value(0), call.real("beta", 1)));
    call.result(call.binary("mul", inner, call.real("alpha", 1)));
}

void check_picture(const Call& call) {
    if (call.rank(0) != 4) Call::refuse("its operand has not four dimensions");
}

void image_scaler(Call& call) {
    check_picture(call);
    const Attribute* bias = call.node.find("bias");
    const int64_t channels = call.shape(0)[1];
    if (bias == nullptr || static_cast<int64_t>(bias->reals.size()) != channels)
        Call::refuse(fmt::format("its bias is not for {} channels", channels));
    const ValueId scaled = call.binary("mul", call.value(0), call.real("scale", 1));
    const Known offsets{Type::f32, {1, channels, 1, 1}, {}, bias->reals};
    call.result(call.binary("add", scaled, call.constant(offsets, call.elem(scaled))));
}

/// Crops to what is inside of a border [left, top, right, bottom]; with `scale`, so many rows and columns of
/// it.
void crop(Call& call) {
    check_picture(call);
    const Sizes border = call.ints("border"), most = call.ints("scale"), &shape = call.shape(0);
    if (border.size() != 4 || (!most.empty() && most.size() != 2))
        Call::refuse("its border is not four numbers, or its scale not two");
    ValueId x = call.value(0);
    for (size_t i = 0; i < 2; ++i) {
        const int64_t size = shape[2 + i], start = border[1 - i];
        const int64_t end = most.empty() ? size - border[3 - i] : start + most[i];
        if (start < 0 || start >= end || end > size)
            Call::refuse(fmt::format("its border {} does not fit into {}", text_of(border), text_of(shape)));
        x = call.slice(x, static_cast<int64_t>(2 + i), start, end);
    }
    call.result(x);
}

}  // namespace

void add_withdrawn(Operators& t) {
    constexpr int64_t last = 9;
    t.push_back({"Affine", affine, 1, last});
    t.push_back({"Scale", scale, 1, last});
    t.push_back({"ScaledTanh", scaled_function, 1, last});
    t.push_back({"ParametricSoftplus", scaled_function, 1, last});
    t.push_back({"ImageScaler", image_scaler, 1, last});
    t.push_back({"Crop", crop, 1, last});
}

}  // namespace kpu::onnx
