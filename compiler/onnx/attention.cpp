// Attention as its definition says: products, a bias, a softmax.
#include "compiler/onnx/attention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/onnx/operators.hpp"
#include "compiler/onnx/products.hpp"

namespace kpu::onnx {

ValueId split_heads(Call& call, ValueId x, int64_t heads) {
    const Sizes s = call.sizes(x);
    if (s.size() == 4) return x;
    if (s.size() != 3 || heads < 1 || s[2] % heads != 0)
        Call::refuse(fmt::format("an operand {} is not {} heads", text_of(s), heads));
    return call.transpose(call.reshape(x, {s[0], s[1], heads, s[2] / heads}), {0, 2, 1, 3});
}

ValueId join_heads(Call& call, ValueId x) {
    const Sizes s = call.sizes(x);
    return call.reshape(call.transpose(x, {0, 2, 1, 3}), {s[0], s[2], s[1] * s[3]});
}

ValueId shared_heads(Call& call, ValueId x, int64_t heads) {
    const Sizes s = call.sizes(x);
    if (s[1] == heads) return x;
    if (heads % s[1] != 0) Call::refuse(fmt::format("{} heads do not share {}", heads, s[1]));
    x = call.expand(call.reshape(x, {s[0], s[1], 1, s[2], s[3]}), {s[0], s[1], heads / s[1], s[2], s[3]});
    return call.reshape(x, {s[0], heads, s[2], s[3]});
}

ValueId bias_of(Call& call, ValueId allowed, ElemType elem) {
    return call.emit("where", {allowed, call.number(0, elem), call.number(-INFINITY, elem)}, {}, elem);
}

namespace {

struct Mask {
    std::optional<ValueId> bias;
    bool may_hide_rows = false;  ///< a query may have no key at all
};

void add_bias(Call& call, Mask& mask, ValueId bias) {
    mask.bias = mask.bias ? call.binary("add", *mask.bias, bias) : bias;
}

/// Keys j of query i by their distance: j - i - offset is at least -left and at most right; -1: no limit. The
/// offset is the number of keys before the queries: known, or the valid keys of a batch less the queries.
void add_window(Call& call, Mask& mask, int64_t queries, int64_t keys, int64_t left, int64_t right,
                ElemType elem) {
    if (left < 0 && right < 0) return;
    Call::check_made({queries, keys});
    const bool by_batch = call.has(6);
    const int64_t offset = call.has(4) ? call.shape(4)[2] : by_batch ? -queries : 0;
    Known distances{Type::i64, {queries, keys}, {}, {}};
    for (int64_t i = 0; i < queries; ++i) {
        for (int64_t j = 0; j < keys; ++j) distances.ints.push_back(j - i - offset);
    }
    if (!by_batch) {
        Known bias{Type::f64, distances.shape, {}, {}};
        for (const int64_t d : distances.ints)
            bias.reals.push_back((left < 0 || d >= -left) && (right < 0 || d <= right) ? 0.0 : -INFINITY);
        if (left >= 0) mask.may_hide_rows = true;
        return add_bias(call, mask, call.constant(bias, elem));
    }
    const Sizes batch{call.shape(6)[0], 1, 1, 1};
    const ValueId valid = call.reshape(call.value(6), batch);
    const ValueId distance = call.binary("sub", call.constant(distances, ElemType::i32), valid);
    const auto limit = [&](std::string_view opcode, int64_t bound) {
        const ValueId allowed =
            call.emit(opcode, {distance, call.number(static_cast<double>(bound), ElemType::i32)}, {}, truth);
        add_bias(call, mask, bias_of(call, allowed, elem));
    };
    if (left >= 0) limit("greater_equal", -left);
    if (right >= 0) limit("less_equal", right);
    mask.may_hide_rows = true;
}

/// The operand attn_mask, which may be shorter than the keys.
void add_given(Call& call, Mask& mask, int64_t keys, ElemType elem) {
    if (!call.has(3)) return;
    const bool boolean = call.type(3) == Type::boolean;
    ValueId given = call.value(3);
    const Sizes s = call.shape(3);
    if (s.empty() || s.back() > keys)
        Call::refuse(fmt::format("a mask {} does not fit to {} keys", text_of(s), keys));
    Sizes pads(2 * s.size(), 0);
    pads.back() = s.back() == 1 ? 0 : keys - s.back();
    given = call.pad(given, pads, boolean ? 0 : -INFINITY);
    add_bias(call, mask, boolean ? bias_of(call, given, elem) : call.cast(given, elem));
    mask.may_hide_rows = true;
}

void add_valid(Call& call, Mask& mask, int64_t keys, ElemType elem) {
    if (!call.has(6)) return;
    const ValueId valid = call.reshape(call.value(6), {call.shape(6)[0], 1, 1, 1});
    const ValueId numbers =
        call.constant(ints_known(identity_perm(static_cast<size_t>(keys))), ElemType::i32);
    add_bias(call, mask, bias_of(call, call.emit("less", {numbers, valid}, {}, truth), elem));
    mask.may_hide_rows = true;
}

/// A row without any key is 0, not NaN.
ValueId guarded_softmax(Call& call, ValueId scores, const Mask& mask, ElemType precision) {
    const ElemType elem = call.elem(scores);
    const auto last = static_cast<int64_t>(call.sizes(scores).size()) - 1;
    const ValueId weights =
        call.cast(call.emit("softmax", {call.cast(scores, precision)}, {graph::integer("axis", last)}), elem);
    if (!mask.may_hide_rows) return weights;
    const auto axis = static_cast<int64_t>(call.sizes(*mask.bias).size()) - 1;
    const ValueId best = call.reduce("reduce_max", *mask.bias, {axis}, true);
    const ValueId hidden = call.emit("equal", {best, call.number(-INFINITY, elem)}, {}, truth);
    return call.emit("where", {hidden, call.number(0, elem), weights}, {}, elem);
}

void attention(Call& call) {
    const bool flat = call.rank(0) == 3;
    if (!flat && call.rank(0) != 4) Call::refuse("its operands have neither 3 nor 4 dimensions");
    const auto fits = [&](size_t operand, int64_t rank) {
        return !call.has(operand) || call.rank(operand) == rank;
    };
    if (!fits(1, call.rank(0)) || !fits(2, call.rank(0)) || !fits(4, 4) || !fits(5, 4) || !fits(6, 1))
        Call::refuse("its operands have dimensions that do not fit together");
    const int64_t heads = flat ? call.integer("q_num_heads", 0) : call.shape(0)[1];
    const int64_t kv_heads = flat ? call.integer("kv_num_heads", 0) : call.shape(1)[1];
    const ValueId q = split_heads(call, call.value(0), heads);
    ValueId k = split_heads(call, call.value(1), kv_heads), v = split_heads(call, call.value(2), kv_heads);
    const ElemType elem = call.elem(q);
    if (call.has(4)) k = call.concat({call.value(4), k}, 2);
    if (call.has(5)) v = call.concat({call.value(5), v}, 2);
    if (call.wants(1)) call.result(1, k, call.type(1));
    if (call.wants(2)) call.result(2, v, call.type(2));
    const int64_t queries = call.sizes(q)[2], keys = call.sizes(k)[2];
    Mask mask;
    add_given(call, mask, keys, elem);
    const int64_t left = call.integer("left_window_size", -1), right = call.integer("right_window_size", -1);
    if (call.integer("is_causal", 0) != 0) add_window(call, mask, queries, keys, -1, 0, elem);
    add_window(call, mask, queries, keys, left, right, elem);
    add_valid(call, mask, keys, elem);

    const double scale = std::sqrt(call.real("scale", 1 / std::sqrt(static_cast<double>(call.sizes(q)[3]))));
    const ValueId keys_across = call.transpose(shared_heads(call, k, heads), {0, 1, 3, 2});
    ValueId scores = matmul(call, call.binary("mul", q, scale), call.binary("mul", keys_across, scale));
    const int64_t mode = call.integer("qk_matmul_output_mode", 0);
    ValueId told = scores;
    if (const double cap = call.real("softcap", 0); cap > 0)
        scores = call.binary("mul", call.unary("tanh", call.binary("div", scores, cap)), cap);
    if (mode == 1) told = scores;
    if (mask.bias) scores = call.binary("add", scores, *mask.bias);
    if (mode == 2) told = scores;
    const bool wide = call.has_attribute("softmax_precision") && call.integer("softmax_precision", 1) != 10 &&
                      call.integer("softmax_precision", 1) != 16;
    const ValueId weights = guarded_softmax(call, scores, mask, wide ? ElemType::f32 : elem);
    if (call.wants(3)) call.result(3, mode == 3 ? weights : told, call.type(0));
    const ValueId y = matmul(call, weights, shared_heads(call, v, heads));
    call.result(flat ? join_heads(call, y) : y);
}

}  // namespace

void add_attention(Operators& t) { t.push_back({"Attention", attention, 23}); }

}  // namespace kpu::onnx
