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

/// Pads so that the result has `sizes`; an odd one goes behind (SAME_UPPER) or before.
void pad_to(Window& window, const Sizes& spatial, const Sizes& sizes, const Sizes& more, bool upper) {
    for (size_t d = 0; d < window.rank(); ++d) {
        const int64_t whole = window.strides[d] * (spatial[d] - 1) + more[d] + window.extent(d);
        const int64_t total = whole - sizes[d];
        if (total < 0) Call::refuse("its output_shape is larger than its windows reach");
        window.pads[d] = upper ? total / 2 : total - total / 2;
        window.pads[d + window.rank()] = total - window.pads[d];
    }
}

/// [Cin, Cout / groups, k...] to [k..., Cin / groups, Cout].
ValueId transposed_weights(Call& call, ValueId w, int64_t groups) {
    const Sizes s = call.sizes(w);
    w = call.reshape(w, {groups, s[0] / groups, s[1], s[2], s[3]});
    return call.reshape(call.transpose(w, {3, 4, 1, 0, 2}), {s[2], s[3], s[0] / groups, s[1] * groups});
}

/// Along one dimension as along two, the first of size 1.
void conv_transpose(Call& call) {
    const Sizes spatial = spatial_of(call.shape(0)), kernel = spatial_of(call.shape(1));
    const size_t rank = spatial.size();
    if (rank > 2 || kernel.size() != rank)
        Call::refuse(fmt::format("along {} dimensions it is not taken", rank));
    Window window = window_of(call, kernel, spatial);
    Sizes more = call.ints("output_padding", Sizes(rank, 0));
    const std::string mode = call.text("auto_pad", "NOTSET");
    Sizes sizes = call.ints("output_shape");
    if (sizes.size() == rank + 2) sizes.erase(sizes.begin(), sizes.begin() + 2);
    if (sizes.empty() && mode.rfind("SAME", 0) == 0) {
        for (size_t d = 0; d < rank; ++d) sizes.push_back(spatial[d] * window.strides[d]);
    }
    if (more.size() != rank || (!sizes.empty() && sizes.size() != rank))
        Call::refuse("output_padding or output_shape have another rank");
    if (!sizes.empty()) pad_to(window, spatial, sizes, more, mode == "SAME_UPPER");
    const int64_t groups = call.integer("group", 1);
    ValueId x = call.value(0), w = call.value(1);
    if (groups < 1 || call.shape(0)[1] % groups != 0 || call.shape(1)[0] != call.shape(0)[1])
        Call::refuse(fmt::format("weights {} do not fit", text_of(call.shape(1))));
    const auto planar = [rank](Sizes list, int64_t value) {
        if (rank == 1) list.insert(list.begin(), value);
        return list;
    };
    Sizes pads = window.pads;
    if (rank == 1) {
        const Sizes &of_x = call.shape(0), &of_w = call.shape(1);
        x = call.reshape(x, {of_x[0], of_x[1], 1, of_x[2]});
        w = call.reshape(w, {of_w[0], of_w[1], 1, of_w[2]});
        pads = {0, pads[0], 0, pads[1]};
    }
    std::vector<ValueId> operands{channels_last(call, x), transposed_weights(call, w, groups)};
    if (call.has(2)) operands.push_back(call.value(2));
    ValueId y = channels_first(
        call,
        call.emit("conv_transpose2d", operands,
                  {ints("pads", pads), ints("strides", planar(window.strides, 1)),
                   ints("dilations", planar(window.dilations, 1)), ints("output_padding", planar(more, 0)),
                   graph::integer("groups", groups), graph::type("accum_type", ElemType::f32)}));
    if (rank == 1) {
        const Sizes s = call.sizes(y);
        y = call.reshape(y, {s[0], s[1], s[3]});
    }
    call.result(y);
}

}  // namespace

void add_convolutions(Operators& t) {
    t.push_back({"Conv", conv});
    t.push_back({"ConvTranspose", conv_transpose});
}

}  // namespace kpu::onnx
