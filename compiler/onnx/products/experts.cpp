// MoE and QMoE of com.microsoft: the rows of a few experts, which a router chooses for each.
//
// A step with fewer choices than there are experts gathers the weights of the chosen ones; else all experts compute all
// rows, and the gates (0 for those that were not chosen) weigh what they made.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/graph/data.hpp"
#include "compiler/onnx/moves/indexing.hpp"
#include "compiler/onnx/operators.hpp"
#include "compiler/onnx/products/products.hpp"
#include "compiler/onnx/quantized/packed_numbers.hpp"

namespace kpu::onnx {
namespace {

using graph::integer;

/// Weights [experts, in, out] and perhaps a bias [experts, out].
struct Layer {
    ValueId weights;
    std::optional<ValueId> bias;
};

struct Experts {
    int64_t count = 0;
    Layer first, second;
    std::optional<Layer> third;
};

/// Choice of each row, and what it counts: [rows, k].
struct Choice {
    ValueId experts, weights;
};

Choice choose(Call& call, ValueId scores, std::optional<ValueId> router_weights) {
    const int64_t k = call.integer("k", 1), count = call.sizes(scores)[1];
    if (k < 1 || k > count) Call::refuse(fmt::format("k is {} of {} experts", k, count));
    if (call.integer("use_sparse_mixer", 0) != 0) Call::refuse("use_sparse_mixer is not taken");
    const bool normalised = call.integer("normalize_routing_weights", 0) != 0;
    const ValueId best = call.emit("top_k", {scores}, {integer("k", k), integer("largest", 1)});
    const ValueId chosen = best + 1;
    const auto at_chosen = [&](ValueId x) {
        return call.emit("gather_elements", {x, chosen}, {integer("axis", 1)});
    };
    if (router_weights) {
        const ValueId given = at_chosen(*router_weights);
        if (!normalised) return {chosen, given};
        return {chosen, call.binary("div", given, call.reduce("reduce_sum", given, {1}, true))};
    }
    // ONNX Runtime's QMoE normalises in any case
    if (normalised || call.node.type == "QMoE")
        return {chosen, call.emit("softmax", {best}, {integer("axis", 1)})};
    return {chosen, at_chosen(call.emit("softmax", {scores}, {integer("axis", 1)}))};
}

/// Applies weights [n, in, out] to x [n, rows, in], plus a bias [n, out].
ValueId applied(Call& call, ValueId x, const Layer& layer) {
    const ValueId y = matmul(call, x, layer.weights);
    if (!layer.bias) return y;
    const Sizes s = call.sizes(*layer.bias);
    return call.binary("add", y, call.reshape(*layer.bias, {s[0], 1, s[1]}));
}

/// Computes G * sigmoid(alpha * G) * (L + beta), both clamped.
ValueId gated(Call& call, ValueId gate, ValueId linear) {
    const double alpha = call.real("activation_alpha", 1), beta = call.real("activation_beta", 0);
    if (call.has_attribute("swiglu_limit")) {
        const double limit = call.real("swiglu_limit", 0), most = 3.4028234663852886e38;
        gate = call.emit("clamp", {gate}, {graph::real("min_val", -most), graph::real("max_val", limit)});
        linear =
            call.emit("clamp", {linear}, {graph::real("min_val", -limit), graph::real("max_val", limit)});
    }
    if (beta != 0) linear = call.binary("add", linear, beta);
    const ValueId swish =
        alpha == 1 ? call.unary("silu", gate)
                   : call.binary("mul", gate, call.unary("sigmoid", call.binary("mul", gate, alpha)));
    return call.binary("mul", swish, linear);
}

ValueId inner_of(Call& call, ValueId x, const Layer* third, ValueId input) {
    const std::string name = call.text("activation_type", "relu");
    if (call.integer("swiglu_limit_after_activation", 0) != 0)
        Call::refuse("swiglu_limit_after_activation is not taken");
    if (name == "swiglu") {
        const int64_t fusion = call.integer("swiglu_fusion", 0), width = call.sizes(x)[2];
        if (fusion == 0) {
            if (third == nullptr) Call::refuse("swiglu_fusion is 0, and fc3_experts_weights are missing");
            return gated(call, x, applied(call, input, *third));
        }
        if (fusion == 1) return gated(call, call.slice(x, 2, 0, width, 2), call.slice(x, 2, 1, width, 2));
        return gated(call, call.slice(x, 2, 0, width / 2), call.slice(x, 2, width / 2, width));
    }
    if (name == "relu" || name == "gelu" || name == "silu") {
        x = call.unary(name == "gelu" ? "gelu_tanh" : name, x);
    } else if (name != "identity") {
        Call::refuse(fmt::format("activation_type {} is not taken", name));
    }
    return third == nullptr ? x : call.binary("mul", x, applied(call, input, *third));
}

/// Computes x [n, rows, in], each of n by its expert.
ValueId computed(Call& call, ValueId x, const Experts& of) {
    const ValueId inner = applied(call, x, of.first);
    return applied(call, inner_of(call, inner, of.third ? &*of.third : nullptr, x), of.second);
}

/// Computes each choice with the weights of its expert.
ValueId of_chosen(Call& call, ValueId x, const Experts& of, const Choice& choice) {
    const int64_t rows = call.sizes(x)[0], width = call.sizes(x)[1], k = call.sizes(choice.experts)[1];
    const ValueId chosen = call.reshape(choice.experts, {rows * k});
    const auto taken = [&](const Layer& layer) {
        Layer made{gathered(call, layer.weights, chosen, 0), {}};
        if (layer.bias) made.bias = gathered(call, *layer.bias, chosen, 0);
        return made;
    };
    Experts part{rows * k, taken(of.first), taken(of.second), {}};
    if (of.third) part.third = taken(*of.third);
    const ValueId each =
        call.reshape(call.expand(call.reshape(x, {rows, 1, width}), {rows, k, width}), {rows * k, 1, width});
    const ValueId y = call.reshape(computed(call, each, part), {rows, k, width});
    const ValueId weighted = call.binary("mul", y, call.reshape(choice.weights, {rows, k, 1}));
    return call.reduce("reduce_sum", weighted, {1}, false);
}

/// Computes all experts, weighed by gates [rows, experts].
ValueId of_all(Call& call, ValueId x, const Experts& of, const Choice& choice) {
    const int64_t rows = call.sizes(x)[0], width = call.sizes(x)[1], k = call.sizes(choice.experts)[1];
    const ValueId numbers =
        positions_constant(call, identity_perm(static_cast<size_t>(of.count)), {1, 1, of.count});
    const ValueId hit = call.emit("equal", {call.reshape(choice.experts, {rows, k, 1}), numbers}, {}, truth);
    const ElemType elem = call.elem(x);
    const ValueId each =
        call.emit("where", {hit, call.reshape(choice.weights, {rows, k, 1}), call.number(0, elem)}, {}, elem);
    const ValueId gates = call.transpose(call.reduce("reduce_sum", each, {1}, false), {1, 0});
    const ValueId y = computed(call, call.reshape(x, {1, rows, width}), of);
    const ValueId weighted = call.binary("mul", y, call.reshape(gates, {of.count, rows, 1}));
    return call.reduce("reduce_sum", weighted, {0}, false);
}

void route(Call& call, const Experts& of, std::optional<ValueId> router_weights) {
    const Sizes shape = call.shape(0);
    const int64_t width = shape.empty() ? 0 : shape.back(),
                  rows = width == 0 ? 0 : elements_of(shape) / width;
    if (call.shape(1) != Sizes{rows, of.count})
        Call::refuse(fmt::format("router_probs {} are not of {} rows and {} experts", text_of(call.shape(1)),
                                 rows, of.count));
    const ValueId x = call.reshape(call.value(0), {rows, width});
    const Choice choice = choose(call, call.value(1), router_weights);
    const bool few = rows * call.integer("k", 1) < of.count;
    const ValueId y = few ? of_chosen(call, x, of, choice) : of_all(call, x, of, choice);
    call.result(call.reshape(y, shape));
}

/// Returns the weights [experts, out, in].
Layer layer_of(Call& call, size_t weights, size_t bias) {
    if (call.rank(weights) != 3) Call::refuse("its weights have not three dimensions");
    Layer layer{call.transpose(call.value(weights), {0, 2, 1}), {}};
    if (call.has(bias)) layer.bias = call.value(bias);
    return layer;
}

/// Imports input, router_probs, weights and bias of fc1, of fc2, of fc3.
void moe(Call& call) {
    Experts of{0, layer_of(call, 2, 3), layer_of(call, 4, 5), {}};
    if (call.has(6)) of.third = layer_of(call, 6, 7);
    of.count = call.shape(2)[0];
    route(call, of, std::nullopt);
}

// ---- of quantised weights

/// Scales and zero points of a matrix [out, in] for each expert: of columns, or of blocks along `in`.
struct StepScales {
    int64_t experts = 0, out = 0, in = 0, bits = 4, size = 0, blocks = 0;
    bool blocked = false;
};

StepScales scales_of_steps(Call& call, size_t weights, std::string_view bits_of) {
    StepScales of;
    of.bits = call.integer(bits_of, call.integer("expert_weight_bits", 4));
    if (of.bits != 2 && of.bits != 4 && of.bits != 8) Call::refuse(fmt::format("{} is {}", bits_of, of.bits));
    const Sizes s = call.shape(weights);
    if (s.size() != 3) Call::refuse("its weights have not three dimensions");
    of.experts = s[0];
    of.out = s[1];
    of.in = s[2] * 8 / of.bits;
    const int64_t told = call.integer("block_size", 0);
    of.blocked = told > 0;
    of.size = of.blocked ? told : of.in;
    of.blocks = of.size == 0 ? 0 : (of.in + of.size - 1) / of.size;
    if (elements_of(call.shape(weights + 1)) != of.experts * of.out * of.blocks)
        Call::refuse(
            fmt::format("scales {} do not fit to weights {}", text_of(call.shape(weights + 1)), text_of(s)));
    return of;
}

/// Returns the zero point of each scale; of blocks they are packed along those, else along the columns.
std::vector<double> zeros_of_steps(Call& call, const StepScales& of, size_t operand) {
    const auto count = static_cast<size_t>(of.experts * of.out * of.blocks);
    std::vector<double> zeros(count, static_cast<double>(int64_t{1} << (of.bits - 1)));
    if (!call.has(operand)) return zeros;
    const int64_t along = of.blocked ? of.blocks : of.out, bytes = (along * of.bits + 7) / 8;
    if (elements_of(call.shape(operand)) != of.experts * (of.blocked ? of.out : 1) * bytes)
        Call::refuse(fmt::format("zero points {} do not fit", text_of(call.shape(operand))));
    const PackedNumbers packed(call, operand, "zero points", of.bits);
    for (size_t i = 0; i < count; ++i) {
        const auto at = static_cast<int64_t>(i);
        zeros[i] = static_cast<double>(packed.at(at / along * bytes, at % along));
    }
    return zeros;
}

/// Returns the weights [experts, out, in * bits / 8] as floats [experts, in, out].
Layer quantised_layer(Call& call, size_t weights, size_t zero_points, std::string_view bits_of) {
    const StepScales of = scales_of_steps(call, weights, bits_of);
    const Known& scales = call.known(weights + 1, "scales");
    const std::vector<double> zeros = zeros_of_steps(call, of, zero_points);
    const PackedNumbers packed(call, weights, "weights", of.bits);
    const ElemType elem = call.elem(call.value(0));
    const auto columns = static_cast<size_t>(of.out);
    const auto rows = static_cast<uint64_t>(of.experts * of.in);
    const graph::NewData made = graph::new_data(graph::data_bytes(elem, rows * columns));
    std::vector<double> row(columns);
    for (uint64_t r = 0; r < rows; ++r) {
        const int64_t expert = static_cast<int64_t>(r) / of.in, i = static_cast<int64_t>(r) % of.in;
        for (size_t c = 0; c < columns; ++c) {
            const int64_t column = expert * of.out + static_cast<int64_t>(c);
            const auto scale = static_cast<size_t>(column * of.blocks + i / of.size);
            const auto step = static_cast<double>(packed.at(column * of.in * of.bits / 8, i));
            row[c] = (step - zeros[scale]) * scales.number(scale);
        }
        const graph::Data rounded = graph::make_numbers(elem, row);
        std::copy(rounded.bytes, rounded.bytes + rounded.size, made.bytes + r * rounded.size);
    }
    Layer layer{call.graph.add_constant(call.node.inputs[weights], elem,
                                        graph::dims({of.experts, of.in, of.out}), made.data),
                {}};
    if (call.has(weights + 2)) layer.bias = call.value(weights + 2);
    return layer;
}

/// Imports input, router_probs; weights, scales and bias of fc1, of fc2, of fc3; their zero points;
/// router_weights.
void quantised_moe(Call& call) {
    if (const std::string type = call.text("quant_type", "int"); type != "int")
        Call::refuse(fmt::format("quant_type {} is not taken", type));
    if (call.integer("weights_prepacked", -1) == 1) Call::refuse("weights_prepacked is not taken");
    for (size_t i = 15; i < call.inputs(); ++i) {
        if (call.has(i))
            Call::refuse(
                fmt::format("`{}` (a global or activation scale) is not taken", call.node.inputs[i]));
    }
    Experts of{0,
               quantised_layer(call, 2, 11, "fc1_expert_weight_bits"),
               quantised_layer(call, 5, 12, "fc2_expert_weight_bits"),
               {}};
    if (call.has(8)) of.third = quantised_layer(call, 8, 13, "fc3_expert_weight_bits");
    of.count = call.shape(2)[0];
    route(call, of, call.has(14) ? std::optional(call.value(14)) : std::nullopt);
}

}  // namespace

void add_experts(Operators& t) {
    t.push_back({"MoE", moe, 1, 999, "com.microsoft"});
    t.push_back({"QMoE", quantised_moe, 1, 999, "com.microsoft"});
}

}  // namespace kpu::onnx
