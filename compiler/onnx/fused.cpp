// Operators of com.microsoft that ONNX Runtime's optimizer joins others to: here they are those others again.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/onnx/activations.hpp"
#include "compiler/onnx/attention.hpp"
#include "compiler/onnx/operators.hpp"
#include "compiler/onnx/products.hpp"
#include "compiler/onnx/windows.hpp"

namespace kpu::onnx {
namespace {

using graph::integer;
using graph::real;

/// alpha * A' * B', where ' may bring the first dimension behind the batches, then swap the last two dimensions.
void fused_matmul(Call& call) {
    const auto turned = [&](size_t i, std::string_view batches, std::string_view name) {
        ValueId x = call.value(i);
        const size_t rank = call.sizes(x).size();
        if (rank < 2) return x;
        if (call.integer(batches, 0) != 0) {
            Sizes perm = identity_perm(rank);
            std::rotate(perm.begin(), perm.begin() + 1, perm.end() - 1);
            x = call.transpose(x, perm);
        }
        if (call.integer(name, 0) == 0) return x;
        return call.transpose(x, swapped_perm(rank, rank - 2, rank - 1));
    };
    const ValueId y = matmul(call, turned(0, "transBatchA", "transA"), turned(1, "transBatchB", "transB"));
    const double alpha = call.real("alpha", 1);
    call.result(alpha == 1 ? y : call.binary("mul", y, alpha));
}

std::vector<Operand> first_operands(const Call& call, size_t count) {
    std::vector<Operand> given;
    for (size_t i = 0; i < count && call.has(i); ++i) given.push_back(call.in(i));
    return given;
}

/// What the operator of ONNX that is called `type` makes of the operands.
ValueId made_by(Call& call, std::string_view type, std::vector<Operand> given) {
    NodeModel node = call.node;
    node.type = type;
    for (Attribute& attribute : node.attributes) {
        if (type == "GroupNormalization" && attribute.name == "groups") attribute.name = "num_groups";
    }
    return *import_as(call, node, call.opset, std::move(given)).at(0).value;
}

/// The function that `activation` names; `parameters` are its own, in order.
ValueId activated(Call& call, ValueId x, const std::vector<double>& parameters) {
    constexpr double most = std::numeric_limits<float>::max();
    const Activation known[] = {{"Relu"},
                                {"Sigmoid"},
                                {"Tanh"},
                                {"LeakyRelu", 0.01},
                                {"HardSigmoid", 0.2F, 0.5},
                                {"Clip", -most, most}};
    const std::string name = call.text("activation", "");
    if (name.empty()) return x;
    const auto found = std::find_if(std::begin(known), std::end(known),
                                    [&](const Activation& one) { return one.name == name; });
    if (found == std::end(known)) Call::refuse(fmt::format("its activation {} is not taken", name));
    Activation f = *found;
    if (!parameters.empty()) f.alpha = parameters[0];
    if (parameters.size() > 1) f.beta = parameters[1];
    if (name == "Clip") return call.emit("clamp", {x}, {real("min_val", f.alpha), real("max_val", f.beta)});
    return activate(call, f, x);
}

/// X, W, B, Z: a convolution, plus Z, and an activation of that.
void fused_conv(Call& call) {
    ValueId y = made_by(call, "Conv", first_operands(call, 3));
    if (call.has(3)) y = call.binary("add", y, call.value(3));
    const Attribute* given = call.node.find("activation_params");
    call.result(activated(call, y, given == nullptr ? std::vector<double>() : given->reals));
}

/// Gemm, and an activation.
void fused_gemm(Call& call) {
    std::vector<double> parameters;
    for (const char* const name : {"activation_alpha", "activation_beta"}) {
        if (call.has_attribute(name)) parameters.push_back(call.real(name, 0));
    }
    call.result(activated(call, made_by(call, "Gemm", first_operands(call, 3)), parameters));
}

/// X, W, B, channels last in all of them.
void nhwc_conv(Call& call) {
    std::vector<Operand> given = first_operands(call, 3);
    for (size_t i = 0; i < std::min<size_t>(2, given.size()); ++i)
        given[i] = call.operand(channels_first(call, call.value(i)), call.type(i));
    call.result(channels_last(call, made_by(call, "Conv", std::move(given))));
}

/// X, scale, bias; of pictures whose channels are last, with x * sigmoid(x) behind it if `activation` is 1.
void group_norm(Call& call) {
    const bool last = call.integer("channels_last", 1) != 0;
    std::vector<Operand> given = first_operands(call, 3);
    if (last) given.at(0) = call.operand(channels_first(call, call.value(0)), call.type(0));
    ValueId y = made_by(call, "GroupNormalization", std::move(given));
    if (call.integer("activation", 0) != 0) y = call.unary("silu", y);
    call.result(last ? channels_last(call, y) : y);
}

/// Gelu, BiasGelu, FastGelu: of x, or of x + bias.
void biased_gelu(Call& call) {
    ValueId x = call.value(0);
    if (call.has(1)) x = call.binary("add", x, call.value(1));
    call.result(call.unary(call.node.type == "FastGelu" ? "gelu_tanh" : "gelu", x));
}

void quick_gelu(Call& call) {
    const ValueId x = call.value(0);
    const double alpha = call.real("alpha", 1.702F);
    call.result(call.binary("mul", x, call.unary("sigmoid", call.binary("mul", x, alpha))));
}

/// Rows of the last dimension.
ValueId normalised(Call& call, std::string_view opcode, ValueId x, size_t scale, size_t shift,
                   double epsilon) {
    const Sizes shape = call.sizes(x);
    if (shape.empty()) Call::refuse("its operand has no dimensions to normalise");
    const int64_t size = shape.back();
    std::vector<ValueId> operands{call.reshape(x, {elements_of(shape) / size, size})};
    for (const size_t i : {scale, shift}) {
        if (i == 0 || !call.has(i)) continue;
        if (elements_of(call.shape(i)) != size)
            Call::refuse(fmt::format("{} does not fit to rows of {}", text_of(call.shape(i)), size));
        operands.push_back(call.reshape(call.cast(call.value(i), call.elem(x)), {size}));
    }
    return call.reshape(call.emit(opcode, operands, {integer("axis", 1), real("epsilon", epsilon)}), shape);
}

/// The norm of input + skip (+ bias), and that sum as the fourth output.
void skip_norm(Call& call) {
    const bool layer = call.node.type == "SkipLayerNormalization";
    const size_t bias = layer ? 4 : 3;
    if (call.wants(1) || call.wants(2)) Call::refuse("its mean and deviation are not taken");
    ValueId sum = call.binary("add", call.value(0), call.value(1));
    if (call.has(bias)) sum = call.binary("add", sum, call.value(bias));
    if (call.wants(3)) call.result(3, sum, call.type(0));
    const double epsilon = call.real("epsilon", 1e-12F);
    call.result(layer ? normalised(call, "layernorm", sum, 2, 3, epsilon)
                      : normalised(call, "rmsnorm", sum, 2, 0, epsilon));
}

void simplified_norm(Call& call) {
    if (call.wants(1)) Call::refuse("its deviation is not taken");
    if (call.axis("axis", -1, call.rank(0)) + 1 != static_cast<size_t>(call.rank(0)))
        Call::refuse("it is over more than the last dimension");
    call.result(normalised(call, "rmsnorm", call.value(0), 1, 0, call.real("epsilon", 1e-5F)));
}

/// Rows of a table by their numbers.
ValueId looked_up(Call& call, size_t table, ValueId rows) {
    return call.emit("gather", {call.value(table), rows}, {integer("axis", 0)});
}

/// ids, segments, tables of words, positions and segments, scale, shift, mask, positions: the norm of the sum of what the
/// tables have; how many keys of each batch count; the sum.
void embed_norm(Call& call) {
    const Sizes ids = call.shape(0);
    if (ids.size() != 2) Call::refuse(fmt::format("its ids {} are not [batch, rows]", text_of(ids)));
    ValueId positions =
        call.has(8)
            ? call.cast(call.value(8), ElemType::i32)
            : call.constant({Type::i64, {1, ids[1]}, identity_perm(size_t(ids[1])), {}}, ElemType::i32);
    ValueId sum = looked_up(call, 2, call.cast(call.value(0), ElemType::i32));
    sum = call.binary("add", sum, looked_up(call, 3, positions));
    if (call.has(1) && call.has(4))
        sum = call.binary("add", sum, looked_up(call, 4, call.cast(call.value(1), ElemType::i32)));
    const Type type = call.type(2);
    call.result(0, normalised(call, "layernorm", sum, 5, 6, call.real("epsilon", 1e-12F)), type);
    if (call.wants(1)) {
        const ValueId counts =
            call.has(7) ? call.reduce("reduce_sum", call.cast(call.value(7), ElemType::i32), {1}, false)
                        : call.zeros({ids[0]}, ElemType::i32);
        call.result(1, counts, Type::i32);
    }
    if (call.wants(2)) call.result(2, sum, type);
}

// ---- attention

/// 0 where a key of the batch counts, else the number that stands for masked ones. The mask is [batch, keys], or says
/// how many keys of a batch count, [batch].
ValueId padding_bias(Call& call, size_t operand, int64_t keys, ElemType elem) {
    const Sizes shape = call.shape(operand);
    const ValueId mask = call.value(operand);
    const int64_t batch = shape.empty() ? 0 : shape[0];
    std::optional<ValueId> hidden;
    if (shape == Sizes{batch, keys}) {
        hidden = call.emit("equal", {mask, call.number(0, call.elem(mask))}, {}, truth);
    } else if (shape.size() == 1 && batch == call.shape(0)[0]) {
        const ValueId numbers = call.constant(
            {Type::i64, {1, keys}, identity_perm(static_cast<size_t>(keys)), {}}, call.elem(mask));
        hidden = call.emit("greater_equal", {numbers, call.reshape(mask, {batch, 1})}, {}, truth);
    } else {
        Call::refuse(fmt::format("a mask {} is not [batch, keys] or [batch]", text_of(shape)));
    }
    const double low = call.real("mask_filter_value", -10000);
    const ValueId bias =
        call.emit("where", {*hidden, call.number(low, elem), call.number(0, elem)}, {}, elem);
    return call.reshape(bias, {batch, 1, 1, keys});
}

/// A query sees the keys up to its own, of which the last queries are the last keys.
ValueId causal_bias(Call& call, int64_t queries, int64_t keys, ElemType elem) {
    Call::check_made({queries, keys});
    Known bias{Type::f64, {queries, keys}, {}, {}};
    for (int64_t i = 0; i < queries; ++i) {
        for (int64_t j = 0; j < keys; ++j) bias.reals.push_back(j <= i + keys - queries ? 0.0 : -INFINITY);
    }
    return call.constant(bias, elem);
}

/// Queries, keys and values [batch, rows, heads * size], and where masks are among the operands.
struct Attention {
    ValueId q, k, v;
    int64_t heads = 1;
    size_t mask = 0, bias = 0;
};

void attend(Call& call, const Attention& of) {
    const auto split = [&](ValueId x) {
        const Sizes s = call.sizes(x);
        if (s.size() != 3) Call::refuse(fmt::format("an operand {} is not {} heads", text_of(s), of.heads));
        return split_heads(call, x, of.heads);
    };
    const ValueId q = split(of.q), k = split(of.k), v = split(of.v);
    const Sizes s = call.sizes(q);
    const ElemType elem = call.elem(q);
    const double given = call.real("scale", 0);
    const double scale = given != 0 ? given : 1 / std::sqrt(static_cast<double>(s[3]));
    ValueId scores = matmul(call, call.binary("mul", q, scale), call.transpose(k, {0, 1, 3, 2}));
    if (call.has(of.mask))
        scores = call.binary("add", scores, padding_bias(call, of.mask, call.sizes(k)[2], elem));
    if (call.has(of.bias)) scores = call.binary("add", scores, call.value(of.bias));
    if (call.integer("unidirectional", 0) != 0)
        scores = call.binary("add", scores, causal_bias(call, s[2], call.sizes(k)[2], elem));
    call.result(join_heads(call, matmul(call, call.emit("softmax", {scores}, {integer("axis", 3)}), v)));
}

/// The parts of a vector, or of a matrix's last dimension, of these sizes.
std::vector<ValueId> parts_of(Call& call, ValueId x, const Sizes& sizes) {
    const auto axis = static_cast<int64_t>(call.sizes(x).size()) - 1;
    int64_t all = 0;
    for (const int64_t size : sizes) all += size;
    if (call.sizes(x).back() != all)
        Call::refuse(fmt::format("{} is not the queries, keys and values", text_of(call.sizes(x))));
    std::vector<ValueId> parts;
    for (int64_t i = 0, first = 0; i < static_cast<int64_t>(sizes.size()); first += sizes[size_t(i)], ++i)
        parts.push_back(call.slice(x, axis, first, first + sizes[size_t(i)]));
    return parts;
}

void check_attention(Call& call, std::initializer_list<size_t> refused, std::string_view what) {
    for (const size_t i : refused) {
        if (call.has(i)) Call::refuse(fmt::format("its {} are not taken", what));
    }
    if (call.wants(1) || call.wants(2)) Call::refuse("its present keys and values are not taken");
}

/// query, key, value, bias of all three, key_padding_mask, attention_bias.
void multi_head(Call& call) {
    check_attention(call, {6, 7, 8, 9}, "past keys and values");
    if (!call.has(1) || !call.has(2)) Call::refuse("its operands are packed in one");
    Attention of{call.value(0), call.value(1), call.value(2), call.integer("num_heads", 0), 4, 5};
    if (call.has(3)) {
        const std::vector<ValueId> bias = parts_of(
            call, call.value(3), {call.sizes(of.q).back(), call.sizes(of.k).back(), call.sizes(of.v).back()});
        of.q = call.binary("add", of.q, bias[0]);
        of.k = call.binary("add", of.k, bias[1]);
        of.v = call.binary("add", of.v, bias[2]);
    }
    attend(call, of);
}

/// input, weights and bias of queries, keys and values side by side, mask_index, past, attention_bias.
void joined_attention(Call& call) {
    check_attention(call, {4, 6}, "past keys and values");
    ValueId all = matmul(call, call.value(0), call.value(1));
    if (call.has(2)) all = call.binary("add", all, call.value(2));
    Sizes sizes = call.ints("qkv_hidden_sizes");
    if (sizes.empty()) sizes.assign(3, call.sizes(all).back() / 3);
    if (sizes.size() != 3) Call::refuse("qkv_hidden_sizes are not three");
    const std::vector<ValueId> parts = parts_of(call, all, sizes);
    attend(call, {parts[0], parts[1], parts[2], call.integer("num_heads", 0), 3, 5});
}

}  // namespace

void add_fused(Operators& t) {
    constexpr std::string_view theirs = "com.microsoft";
    t.push_back({"FusedMatMul", fused_matmul, 1, 999, theirs});
    t.push_back({"FusedConv", fused_conv, 1, 999, theirs});
    t.push_back({"FusedGemm", fused_gemm, 1, 999, theirs});
    t.push_back({"NhwcConv", nhwc_conv, 1, 999, theirs});
    t.push_back({"GroupNorm", group_norm, 1, 999, theirs});
    t.push_back({"Gelu", biased_gelu, 1, 999, theirs});
    t.push_back({"BiasGelu", biased_gelu, 1, 999, theirs});
    t.push_back({"FastGelu", biased_gelu, 1, 999, theirs});
    t.push_back({"QuickGelu", quick_gelu, 1, 999, theirs});
    t.push_back({"SkipLayerNormalization", skip_norm, 1, 999, theirs});
    t.push_back({"SkipSimplifiedLayerNormalization", skip_norm, 1, 999, theirs});
    t.push_back({"SimplifiedLayerNormalization", simplified_norm, 1, 999, theirs});
    t.push_back({"EmbedLayerNormalization", embed_norm, 1, 999, theirs});
    t.push_back({"MultiHeadAttention", multi_head, 1, 999, theirs});
    t.push_back({"Attention", joined_attention, 1, 999, theirs});
}

}  // namespace kpu::onnx
