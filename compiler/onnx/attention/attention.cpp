// Attention as its definition says: products, a bias, a softmax.
#include "compiler/onnx/attention/attention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/onnx/attention/caches.hpp"
#include "compiler/onnx/operators.hpp"
#include "compiler/onnx/products/products.hpp"

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

/// Mask to be added to scores: what is known at import, and what is computed.
struct Mask {
    std::optional<Known> fixed;  ///< mask of 0, -infinity and numbers of a constant mask
    std::optional<ValueId> bias;
    bool may_hide_rows = false;  ///< a query may have no key at all
};

/// Returns the sum of two constants, broadcast.
Known sum_of(const Known& a, const Known& b) {
    Known sum{Type::f64, broadcast_of(a.shape, b.shape), {}, {}};
    Call::check_made(sum.shape);
    const auto at = [&](const Known& x, int64_t i) {
        int64_t index = 0, step = 1;
        for (size_t d = 1; d <= sum.shape.size(); ++d) {
            const int64_t size = sum.shape[sum.shape.size() - d];
            if (d <= x.shape.size()) {
                const int64_t own = x.shape[x.shape.size() - d];
                index += own == 1 ? 0 : i % size * step;
                step *= own;
            }
            i /= size;
        }
        return x.number(static_cast<size_t>(index));
    };
    for (int64_t i = 0; i < elements_of(sum.shape); ++i) sum.reals.push_back(at(a, i) + at(b, i));
    return sum;
}

void add_fixed(Mask& mask, Known known) {
    mask.fixed = mask.fixed ? sum_of(*mask.fixed, known) : std::move(known);
}

void add_computed(Call& call, Mask& mask, ValueId bias) {
    mask.bias = mask.bias ? call.binary("add", *mask.bias, bias) : bias;
    mask.may_hide_rows = true;
}

/// True if some row has -infinity for all keys, of which the last dimension are.
bool hides_rows(const Known& known, int64_t keys) {
    const int64_t own = known.shape.empty() ? 1 : known.shape.back();
    if (own != keys) return std::find(known.reals.begin(), known.reals.end(), -INFINITY) != known.reals.end();
    for (auto row = known.reals.begin(); row != known.reals.end(); row += own) {
        if (std::all_of(row, row + own, [](double x) { return x == -INFINITY; })) return true;
    }
    return false;
}

/// Joins all parts into one, to be added.
void finish(Call& call, Mask& mask, int64_t keys, ElemType elem) {
    if (!mask.fixed) return;
    const bool hides = mask.may_hide_rows || hides_rows(*mask.fixed, keys);
    const ValueId fixed = call.constant(*mask.fixed, elem);
    mask.bias = mask.bias ? call.binary("add", *mask.bias, fixed) : fixed;
    mask.may_hide_rows = hides;
}

/// Returns the valid keys of each batch, when they are constants; nullopt: they are computed, or all are
/// valid.
std::optional<Sizes> known_valid(Call& call) {
    if (!call.has(6) || !call.in(6).constant()) return std::nullopt;
    return call.ints_of(6, "nonpad_kv_seqlen");
}

/// Keys j of query i by their distance: j - i - offset is at least -left and at most right; -1: no limit. The
/// offset is the number of keys before the queries: known, or the valid keys of a batch less the queries.
void add_window(Call& call, Mask& mask, int64_t queries, int64_t keys, int64_t left, int64_t right,
                ElemType elem) {
    if (left < 0 && right < 0) return;
    Call::check_made({queries, keys});
    const std::optional<Sizes> valid = known_valid(call);
    const bool by_batch = call.has(6);
    Sizes offsets{call.has(4) ? call.shape(4)[2] : 0};
    if (by_batch) offsets = {-queries};
    if (valid) {
        offsets.clear();
        for (const int64_t count : *valid) offsets.push_back(count - queries);
    }
    const auto batches = static_cast<int64_t>(offsets.size());
    Known distances{Type::i64, {batches, 1, queries, keys}, {}, {}};
    for (const int64_t offset : offsets) {
        for (int64_t i = 0; i < queries; ++i) {
            for (int64_t j = 0; j < keys; ++j) distances.ints.push_back(j - i - offset);
        }
    }
    if (!by_batch || valid) {
        Known bias{Type::f64, distances.shape, {}, {}};
        if (batches == 1) bias.shape = {queries, keys};
        for (const int64_t d : distances.ints)
            bias.reals.push_back((left < 0 || d >= -left) && (right < 0 || d <= right) ? 0.0 : -INFINITY);
        return add_fixed(mask, std::move(bias));
    }
    const ValueId counts = call.reshape(call.value(6), {call.shape(6)[0], 1, 1, 1});
    const ValueId distance = call.binary("sub", call.constant(distances, ElemType::i32), counts);
    const auto limit = [&](std::string_view opcode, int64_t bound) {
        const ValueId allowed =
            call.emit(opcode, {distance, call.number(static_cast<double>(bound), ElemType::i32)}, {}, truth);
        add_computed(call, mask, bias_of(call, allowed, elem));
    };
    if (left >= 0) limit("greater_equal", -left);
    if (right >= 0) limit("less_equal", right);
}

/// Adds the operand attn_mask, which may be shorter than the keys.
void add_given(Call& call, Mask& mask, int64_t keys, ElemType elem) {
    if (!call.has(3)) return;
    const bool boolean = call.type(3) == Type::boolean;
    const Sizes s = call.shape(3);
    const bool longer = !s.empty() && s.back() > keys;
    if (s.empty() || (longer && !call.graph.positions.any()))
        Call::refuse(fmt::format("a mask {} does not fit to {} keys", text_of(s), keys));
    const int64_t missing = s.back() == 1 ? 0 : keys - s.back();
    if (call.in(3).constant() && missing == 0) {
        const Known& given = call.known(3, "attn_mask");
        Known bias{Type::f64, s, {}, {}};
        for (size_t i = 0; i < given.size(); ++i)
            bias.reals.push_back(!boolean ? given.number(i) : given.ints[i] != 0 ? 0.0 : -INFINITY);
        return add_fixed(mask, std::move(bias));
    }
    Sizes pads(2 * s.size(), 0);
    pads.back() = std::max<int64_t>(missing, 0);
    const ValueId given = longer ? call.slice(call.value(3), static_cast<int64_t>(s.size()) - 1, 0, keys)
                                 : call.pad(call.value(3), pads, boolean ? 0 : -INFINITY);
    add_computed(call, mask, boolean ? bias_of(call, given, elem) : call.cast(given, elem));
}

void add_valid(Call& call, Mask& mask, int64_t keys, ElemType elem) {
    if (!call.has(6)) return;
    const int64_t batch = call.shape(6)[0];
    if (const std::optional<Sizes> valid = known_valid(call)) {
        Call::check_made({batch, keys});
        Known bias{Type::f64, {batch, 1, 1, keys}, {}, {}};
        for (const int64_t count : *valid) {
            for (int64_t key = 0; key < keys; ++key) bias.reals.push_back(key < count ? 0.0 : -INFINITY);
        }
        return add_fixed(mask, std::move(bias));
    }
    const ValueId valid = call.reshape(call.value(6), {batch, 1, 1, 1});
    const ValueId numbers =
        call.constant(ints_known(identity_perm(static_cast<size_t>(keys))), ElemType::i32);
    add_computed(call, mask, bias_of(call, call.emit("less", {numbers, valid}, {}, truth), elem));
}

/// Computes a softmax in which a row without any key is 0, not NaN.
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

/// Queries [B, heads, S, size], keys and values [B, groups, rows, size], of which the first `count` are read.
struct Heads {
    ValueId q, k, v;
    int64_t heads, count;
};

ValueId attended(Call& call, Heads of) {
    if (of.count < call.sizes(of.k)[2]) {
        of.k = call.slice(of.k, 2, 0, of.count);
        of.v = call.slice(of.v, 2, 0, of.count);
    }
    const ElemType elem = call.elem(of.q);
    const int64_t queries = call.sizes(of.q)[2], keys = of.count;
    Mask mask;
    add_given(call, mask, keys, elem);
    const int64_t left = call.integer("left_window_size", -1), right = call.integer("right_window_size", -1);
    if (call.integer("is_causal", 0) != 0) add_window(call, mask, queries, keys, -1, 0, elem);
    add_window(call, mask, queries, keys, left, right, elem);
    add_valid(call, mask, keys, elem);
    finish(call, mask, keys, elem);

    const double scale =
        std::sqrt(call.real("scale", 1 / std::sqrt(static_cast<double>(call.sizes(of.q)[3]))));
    const ValueId keys_across = call.transpose(shared_heads(call, of.k, of.heads), {0, 1, 3, 2});
    ValueId scores = matmul(call, call.binary("mul", of.q, scale), call.binary("mul", keys_across, scale));
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
    return matmul(call, weights, shared_heads(call, of.v, of.heads));
}

/// True for a cache for many positions, whose valid rows are computed.
bool is_for_positions(Call& call) {
    return call.graph.positions.any() && call.has(6) && !call.in(6).constant() && !call.wants(3);
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
    const auto filled = [&](size_t past) { return call.has(past) && call.shape(past)[2] > 0; };
    if (filled(4)) k = call.concat({call.value(4), k}, 2);
    if (filled(5)) v = call.concat({call.value(5), v}, 2);
    if (call.wants(1)) call.result(1, k, call.type(1));
    if (call.wants(2)) call.result(2, v, call.type(2));
    const int64_t keys = call.sizes(k)[2];
    ValueId y = 0;
    if (is_for_positions(call)) {
        check_position(call, call.value(6), call.graph.positions.rows);
        std::vector<ValueId> forms;
        for (const int64_t count : keys_of_forms(call, keys))
            forms.push_back(attended(call, {q, k, v, heads, count}));
        y = chosen_form(call, forms);
    } else {
        y = attended(call, {q, k, v, heads, keys});
    }
    call.result(flat ? join_heads(call, y) : y);
}

}  // namespace

void add_attention(Operators& t) { t.push_back({"Attention", attention, 23}); }

}  // namespace kpu::onnx
