// Operators of com.microsoft that ONNX Runtime's optimizer joins others to: here they are those others again.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/onnx/elements/activations.hpp"
#include "compiler/onnx/operators.hpp"
#include "compiler/onnx/products/products.hpp"
#include "compiler/onnx/products/windows.hpp"

namespace kpu::onnx {
namespace {

using graph::integer;
using graph::real;

/// Computes alpha * A' * B', where ' may bring the first dimension after the batches, then swap the last two
/// dimensions.
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

/// Makes what the operator of ONNX that is called `type` makes of the operands.
ValueId made_by(Call& call, std::string_view type, std::vector<Operand> given) {
    NodeModel node = call.node;
    node.type = type;
    for (Attribute& attribute : node.attributes) {
        if (type == "GroupNormalization" && attribute.name == "groups") attribute.name = "num_groups";
    }
    return *import_as(call, node, call.opset, std::move(given)).at(0).value;
}

/// Applies the function that `activation` names; `parameters` are its own, in order.
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

/// Imports X, W, B, Z: a convolution, plus Z, and an activation of that.
void fused_conv(Call& call) {
    ValueId y = made_by(call, "Conv", first_operands(call, 3));
    if (call.has(3)) y = call.binary("add", y, call.value(3));
    const Attribute* given = call.node.find("activation_params");
    call.result(activated(call, y, given == nullptr ? std::vector<double>() : given->reals));
}

/// Imports a Gemm, and an activation.
void fused_gemm(Call& call) {
    std::vector<double> parameters;
    for (const char* const name : {"activation_alpha", "activation_beta"}) {
        if (call.has_attribute(name)) parameters.push_back(call.real(name, 0));
    }
    call.result(activated(call, made_by(call, "Gemm", first_operands(call, 3)), parameters));
}

/// Imports X, W, B, channels last in all of them.
void nhwc_conv(Call& call) {
    std::vector<Operand> given = first_operands(call, 3);
    for (size_t i = 0; i < std::min<size_t>(2, given.size()); ++i)
        given[i] = call.operand(channels_first(call, call.value(i)), call.type(i));
    call.result(channels_last(call, made_by(call, "Conv", std::move(given))));
}

/// Normalises groups. Operands: X, scale, bias; pictures may have their channels last, and x * sigmoid(x)
/// follows if `activation` is 1.
void group_norm(Call& call) {
    const bool last = call.integer("channels_last", 1) != 0;
    std::vector<Operand> given = first_operands(call, 3);
    if (last) given.at(0) = call.operand(channels_first(call, call.value(0)), call.type(0));
    ValueId y = made_by(call, "GroupNormalization", std::move(given));
    if (call.integer("activation", 0) != 0) y = call.unary("silu", y);
    call.result(last ? channels_last(call, y) : y);
}

/// Imports Gelu, BiasGelu, FastGelu: of x, or of x + bias.
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

/// Normalises rows of the last dimension.
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

/// Imports the norm of input + skip (+ bias), and that sum as the fourth output.
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

/// Returns the rows of a table by their numbers.
ValueId looked_up(Call& call, size_t table, ValueId rows) {
    return call.emit("gather", {call.value(table), rows}, {integer("axis", 0)});
}

/// Imports ids, segments, tables of words, positions and segments, scale, shift, mask, positions: the norm of
/// the sum of what the tables have; how many keys count.
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
}

}  // namespace kpu::onnx
