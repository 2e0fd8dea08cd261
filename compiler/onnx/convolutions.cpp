// Convolutions. Opcodes have channels last (NHWC, HWIO): transposes stand around them, which passes cancel.
#include "compiler/onnx/convolutions.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/onnx/operators.hpp"

namespace kpu::onnx {

using graph::ints;

namespace {

/// [Cout, C, k...] to [k..., C, Cout].
ValueId weights(Call& call, ValueId w) {
    Sizes perm = identity_perm(call.sizes(w).size());
    std::rotate(perm.begin(), perm.begin() + 2, perm.end());
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    return call.transpose(w, perm);
}

}  // namespace

ValueId convolution(Call& call, ValueId x, ValueId w, std::optional<ValueId> bias, const Window& window,
                    int64_t groups, ElemType to, const BoundQuant& quant) {
    const Sizes of_x = call.sizes(x), of_w = call.sizes(w);
    const size_t rank = window.rank();
    if (rank < 1 || rank > 3)
        Call::refuse(fmt::format("convolutions along {} dimensions are not taken", rank));
    if (of_w.size() != of_x.size())
        Call::refuse(fmt::format("weights {} do not fit to {}", text_of(of_w), text_of(of_x)));
    if (groups < 1 || of_x[1] % groups != 0 || of_w[0] % groups != 0 || of_w[1] != of_x[1] / groups)
        Call::refuse(
            fmt::format("weights {} do not fit to {} with {} groups", text_of(of_w), text_of(of_x), groups));
    const bool depthwise = rank == 2 && groups > 1 && groups == of_x[1];
    const ElemType accumulator = is_float(call.elem(x)) ? ElemType::f32 : ElemType::i32;
    std::vector<BoundAttr> attrs{ints("pads", window.pads), ints("strides", window.strides),
                                 ints("dilations", window.dilations), graph::type("accum_type", accumulator)};
    if (!depthwise) attrs.push_back(graph::integer("groups", groups));
    std::vector<ValueId> operands{channels_last(call, x), weights(call, w)};
    if (bias) operands.push_back(*bias);
    constexpr std::string_view opcodes[] = {"conv1d", "conv2d", "conv3d"};
    const bool sums = to == ElemType::i32;  // the accumulator itself
    if (sums && rank != 2) Call::refuse("integer convolutions along other than two dimensions are not taken");
    if (sums && depthwise) attrs.push_back(graph::integer("groups", groups));
    const std::string_view opcode = sums ? "conv2d.acc" : depthwise ? "depthwise_conv2d" : opcodes[rank - 1];
    return channels_first(call, call.emit(opcode, operands, attrs, to, quant));
}

namespace {

void conv(Call& call) {
    const Sizes spatial = spatial_of(call.shape(0));
    if (call.rank(1) != call.rank(0)) Call::refuse("its weights have another rank than its operand");
    const Window window = window_of(call, spatial_of(call.shape(1)), spatial);
    if (const Sizes kernel = call.ints("kernel_shape", window.kernel); kernel != window.kernel)
        Call::refuse(fmt::format("kernel_shape {} is not that of the weights {}", text_of(kernel),
                                 text_of(call.shape(1))));
    std::optional<ValueId> bias;
    if (call.has(2)) bias = call.value(2);
    const ValueId x = call.value(0);
    if (!is_float(call.elem(x))) Call::refuse("convolutions of plain integers are not taken");
    call.result(convolution(call, x, call.value(1), bias, window, call.integer("group", 1), call.elem(x)));
}

}  // namespace

void add_convolutions(Operators& t) { t.push_back({"Conv", conv}); }

}  // namespace kpu::onnx
