// Normalisations and softmax. The opcodes work along one axis: others are reshaped to it.
#include <fmt/format.h>

#include <cmath>

#include "compiler/onnx/operators.hpp"

namespace kpu::onnx {
namespace {

using graph::integer;
using graph::real;

/// Reshapes [C] to [C, 1, ...], to be broadcast to a tensor of `rank` dimensions with channels second.
ValueId per_channel(Call& call, ValueId vector, size_t rank) {
    Sizes shape(rank - 1, 1);
    shape[0] = elements_of(call.sizes(vector));
    return call.reshape(vector, shape);
}

/// Computes y = x * factor + offset with what the constants fold to, in binary64.
void folded_batch_norm(Call& call, double epsilon) {
    const Known &scale = call.known(1, "scale"), &bias = call.known(2, "bias"), &mean = call.known(3, "mean"),
                &variance = call.known(4, "variance");
    const auto channels = static_cast<size_t>(call.shape(0)[1]);
    if (scale.size() != channels || bias.size() != channels || mean.size() != channels ||
        variance.size() != channels)
        Call::refuse(fmt::format("scale, bias, mean and variance are not for {} channels", channels));
    Known factor{Type::f64, {static_cast<int64_t>(channels)}, {}, {}}, offset = factor;
    for (size_t c = 0; c < channels; ++c) {
        factor.reals.push_back(scale.number(c) / std::sqrt(variance.number(c) + epsilon));
        offset.reals.push_back(bias.number(c) - mean.number(c) * factor.reals[c]);
    }
    const ValueId x = call.value(0);
    const size_t rank = call.shape(0).size();
    const ValueId product =
        call.binary("mul", x, per_channel(call, call.constant(factor, call.elem(x)), rank));
    call.result(call.binary("add", product, per_channel(call, call.constant(offset, call.elem(x)), rank)));
}

void batch_norm(Call& call) {
    if (call.opset >= 14 && call.integer("training_mode", 0) != 0) Call::refuse("it is in training mode");
    if (call.opset < 9 && call.integer("spatial", 1) == 0) Call::refuse("it is not spatial");
    for (size_t i = 1; i < call.outputs(); ++i) {
        if (call.wants(i)) Call::refuse("its statistics are outputs, as in training");
    }
    if (call.rank(0) < 2) Call::refuse("its operand has no channels");
    const double epsilon = call.real("epsilon", 1e-5F);
    if (call.in(1).constant() && call.in(2).constant() && call.in(3).constant() && call.in(4).constant())
        return folded_batch_norm(call, epsilon);
    const ValueId x = call.value(0);
    const auto vector = [&](size_t i) {
        return per_channel(call, call.cast(call.value(i), call.elem(x)), call.shape(0).size());
    };
    const ValueId deviation = call.unary("sqrt", call.binary("add", vector(4), epsilon));
    const ValueId centred = call.binary("sub", x, vector(3));
    call.result(
        call.binary("add", call.binary("mul", call.binary("div", centred, deviation), vector(1)), vector(2)));
}

/// Returns the rows of x [rows, size], without scale.
ValueId normalised_rows(Call& call, std::string_view opcode, ValueId x, double epsilon) {
    return call.emit(opcode, {x}, {integer("axis", 1), real("epsilon", epsilon)});
}

/// Gives mean and 1 / deviation of rows, as optional outputs of LayerNormalization.
void row_statistics(Call& call, ValueId rows, const Sizes& shape, double epsilon) {
    if (!call.wants(1) && !call.wants(2)) return;
    const ValueId mean = call.reduce("reduce_mean", rows, {1}, true);
    const ValueId centred = call.binary("sub", rows, mean);
    const ValueId variance = call.reduce("reduce_mean", call.binary("mul", centred, centred), {1}, true);
    const ValueId inverse =
        call.unary("reciprocal", call.unary("sqrt", call.binary("add", variance, epsilon)));
    call.result(1, call.reshape(mean, shape), Type::f32);
    call.result(2, call.reshape(inverse, shape), Type::f32);
}

/// Normalises over all dimensions from `axis` on, computed in the type of stash_type (float, unless told).
void layer_norm(Call& call) {
    const bool layer = call.node.type == "LayerNormalization";
    const double epsilon = call.real("epsilon", 1e-5F);
    const Sizes& shape = call.shape(0);
    const size_t axis = call.axis("axis", -1, call.rank(0));
    int64_t size = 1;
    for (size_t d = axis; d < shape.size(); ++d) size *= shape[d];
    const int64_t rows = elements_of(shape) / size;
    const ElemType elem = call.elem(call.value(0));
    const ValueId x = call.reshape(call.value(0), {rows, size});
    std::vector<ValueId> operands{x};
    const bool whole = elements_of(call.shape(1)) == size;
    if (whole) operands.push_back(call.reshape(call.cast(call.value(1), elem), {size}));
    const bool bias = layer && call.has(2);
    const bool joined = bias && whole && elements_of(call.shape(2)) == size;
    if (joined) operands.push_back(call.reshape(call.cast(call.value(2), elem), {size}));
    ValueId y =
        call.emit(layer ? "layernorm" : "rmsnorm", operands, {integer("axis", 1), real("epsilon", epsilon)});
    y = call.reshape(y, shape);
    if (!whole) y = call.binary("mul", y, call.cast(call.value(1), elem));
    if (bias && !joined) y = call.binary("add", y, call.cast(call.value(2), elem));
    if (layer) {
        Sizes kept(shape.begin(), shape.begin() + static_cast<int64_t>(axis));
        kept.resize(shape.size(), 1);
        row_statistics(call, call.cast(x, ElemType::f32), kept, epsilon);
    }
    call.result(y);
}

/// Normalises groups of channels, each of them a row; then a scale and a bias for each channel.
void group_norm(Call& call) {
    const bool instance = call.node.type == "InstanceNormalization";
    const Sizes& shape = call.shape(0);
    if (shape.size() < 3 && instance) Call::refuse("its operand has no dimensions to normalise");
    if (shape.size() < 2) Call::refuse("its operand has no channels");
    const int64_t groups = instance ? shape[1] : call.integer("num_groups", 0);
    if (groups < 1 || shape[1] % groups != 0)
        Call::refuse(fmt::format("{} channels are not {} groups", shape[1], groups));
    const ValueId x = call.value(0);
    const int64_t rows = shape[0] * groups;
    ValueId y = normalised_rows(call, "layernorm", call.reshape(x, {rows, elements_of(shape) / rows}),
                                call.real("epsilon", 1e-5F));
    const auto vector = [&](size_t i) { return call.cast(call.value(i), call.elem(x)); };
    const bool by_group =
        !instance && call.opset < 21 && call.shape(1) == Sizes{groups} && groups != shape[1];
    if (by_group) {  // until opset 20 scale and bias are those of groups
        y = call.reshape(y, {shape[0], groups, elements_of(shape) / rows});
        y = call.binary("add", call.binary("mul", y, per_channel(call, vector(1), 3)),
                        per_channel(call, vector(2), 3));
        return call.result(call.reshape(y, shape));
    }
    y = call.reshape(y, shape);
    y = call.binary("mul", y, per_channel(call, vector(1), shape.size()));
    call.result(call.binary("add", y, per_channel(call, vector(2), shape.size())));
}

/// Computes x / ||x|| along one axis.
void lp_norm(Call& call) {
    const auto axis = static_cast<int64_t>(call.axis("axis", -1, call.rank(0)));
    const ValueId x = call.value(0);
    const ValueId length = call.integer("p", 2) == 1
                               ? call.reduce("reduce_sum", call.unary("abs", x), {axis}, true)
                               : call.reduce("reduce_l2", x, {axis}, true);
    // nothing has the length 0 but zeros, which stay
    const ValueId none = call.emit("equal", {length, call.number(0, call.elem(x))}, {}, ElemType::u8);
    const ValueId divisor =
        call.emit("where", {none, call.number(1, call.elem(x)), length}, {}, call.elem(x));
    call.result(call.binary("div", x, divisor));
}

/// Computes (x - mean) / (deviation + 1e-9) over the axes.
void mean_variance(Call& call) {
    Sizes axes = call.ints("axes", {0, 2, 3});
    const bool before = call.opset < 9;
    if (before && call.rank(0) != 4) Call::refuse("its operand has not four dimensions");
    if (before && call.integer("across_channels", 0) != 0) axes = {0, 1, 2, 3};
    for (int64_t& axis : axes) axis = static_cast<int64_t>(call.axis(axis, call.rank(0)));
    const ValueId x = call.value(0);
    const ValueId centred = call.binary("sub", x, call.reduce("reduce_mean", x, axes, true));
    if (before && call.integer("normalize_variance", 1) == 0) return call.result(centred);
    const ValueId variance = call.reduce("reduce_mean", call.binary("mul", centred, centred), axes, true);
    call.result(call.binary("div", centred, call.binary("add", call.unary("sqrt", variance), 1e-9)));
}

/// Computes x / (bias + alpha / size * sum of squares of neighbouring channels) ^ beta.
void local_response(Call& call) {
    const int64_t size = call.integer("size", 1), before = (size - 1) / 2, behind = size - 1 - before;
    if (call.rank(0) < 2 || size < 1 || size > INT32_MAX)
        Call::refuse("its operand has no channels, or its size is not valid");
    const Sizes shape = call.shape(0);
    const int64_t inner = elements_of(shape) / shape[0] / shape[1];
    const ValueId x = call.value(0);
    ValueId squares = call.reshape(call.binary("mul", x, x), {shape[0], shape[1], 1, inner});
    squares = call.pad(squares, {0, before, 0, 0, 0, behind, 0, 0}, 0);
    const ValueId mean = call.emit("avgpool", {squares},
                                   {graph::ints("kernel_shape", {size, 1}), graph::ints("pads", {0, 0, 0, 0}),
                                    graph::ints("strides", {1, 1})});
    const ValueId base =
        call.binary("add", call.binary("mul", mean, call.real("alpha", 1e-4F)), call.real("bias", 1));
    call.result(
        call.binary("div", x, call.reshape(call.binary("pow", base, call.real("beta", 0.75)), shape)));
}

/// Computes a softmax; until opset 12 along all dimensions from `axis` on, as one.
void softmax(Call& call) {
    const std::string opcode = call.node.type == "Softmax" ? "softmax" : "log_softmax";
    const ValueId x = call.value(0);
    const Sizes shape = call.shape(0);
    if (call.opset >= 13) {
        const size_t axis = call.axis("axis", -1, call.rank(0));
        return call.result(call.emit(opcode, {x}, {integer("axis", static_cast<int64_t>(axis))}));
    }
    const size_t axis = call.axis("axis", 1, call.rank(0));
    int64_t size = 1;
    for (size_t d = axis; d < shape.size(); ++d) size *= shape[d];
    const ValueId flat = call.reshape(x, {elements_of(shape) / size, size});
    call.result(call.reshape(call.emit(opcode, {flat}, {integer("axis", 1)}), shape));
}

}  // namespace

void add_norms(Operators& t) {
    t.push_back({"BatchNormalization", batch_norm});
    t.push_back({"LayerNormalization", layer_norm});  // opset 17; ONNX Runtime has it from the first on
    t.push_back({"RMSNormalization", layer_norm, 23});
    t.push_back({"InstanceNormalization", group_norm});
    t.push_back({"GroupNormalization", group_norm, 18});
    t.push_back({"LpNormalization", lp_norm});
    t.push_back({"MeanVarianceNormalization", mean_variance});  // opset 9, of ONNX Runtime before
    t.push_back({"LRN", local_response});
    t.push_back({"Softmax", softmax});
    t.push_back({"LogSoftmax", softmax});
}

}  // namespace kpu::onnx
