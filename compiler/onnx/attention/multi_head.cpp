// Attention of com.microsoft with as many heads of keys as of queries: of projections, of one matrix for all three, of
// one query against a cache.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/onnx/attention/attention.hpp"
#include "compiler/onnx/attention/caches.hpp"
#include "compiler/onnx/operators.hpp"
#include "compiler/onnx/products/products.hpp"

namespace kpu::onnx {
namespace {

using graph::integer;

/// Queries, keys and values [batch, heads, rows, size].
struct Attention {
    ValueId q, k, v;
    int64_t past = 0;              ///< keys before the new ones, when that is known
    std::optional<Starts> starts;  ///< starts of the new keys in a shared buffer, when that is computed
    size_t mask = 0, bias = 0;     ///< operands; 0: there is none
    bool unidirectional = false;
    int64_t keys(const Call& call) const { return call.sizes(k)[2]; }
};

/// Keys are hidden from `ends` on (of each batch) and, if `starts` are given, before those.
ValueId hidden_beside(Call& call, ValueId ends, std::optional<ValueId> starts, int64_t keys) {
    const ElemType elem = call.elem(ends);
    const int64_t batch = call.sizes(ends)[0];
    const ValueId numbers =
        call.constant({Type::i64, {1, keys}, identity_perm(static_cast<size_t>(keys)), {}}, elem);
    const ValueId behind = call.emit("greater_equal", {numbers, call.reshape(ends, {batch, 1})}, {}, truth);
    if (!starts) return behind;
    const ValueId before = call.emit("less", {numbers, call.reshape(*starts, {batch, 1})}, {}, truth);
    return call.emit("or", {behind, before}, {}, truth);
}

/// Returns 0 where a key counts, else the number that stands for masked ones. The mask is [batch, keys] or
/// [batch, queries, keys] or has those at the end of [batch, 1, most, most]; or it says where the keys of a
/// batch end, [batch], and start, [2 * batch].
ValueId padding_bias(Call& call, const Attention& of, ElemType elem) {
    const Sizes shape = call.shape(of.mask), q = call.sizes(of.q);
    const int64_t batch = q[0], queries = q[2], keys = of.keys(call);
    ValueId mask = call.value(of.mask);
    ValueId hidden;
    Sizes to{batch, 1, 1, keys};
    const auto unset = [&] { return call.emit("equal", {mask, call.number(0, call.elem(mask))}, {}, truth); };
    if (shape == Sizes{batch, keys}) {
        hidden = unset();
    } else if (shape == Sizes{batch, queries, keys}) {
        hidden = unset();
        to[2] = queries;
    } else if (shape.size() == 4 && shape[0] == batch && shape[1] == 1 && shape[2] == shape[3] &&
               shape[3] >= keys) {
        mask = call.slice(call.slice(mask, 2, keys - queries, keys), 3, 0, keys);
        hidden = unset();
        to[2] = queries;
    } else if (shape == Sizes{batch}) {
        hidden = hidden_beside(call, mask, std::nullopt, keys);
    } else if (shape == Sizes{2 * batch}) {
        hidden =
            hidden_beside(call, call.slice(mask, 0, 0, batch), call.slice(mask, 0, batch, 2 * batch), keys);
    } else {
        Call::refuse(fmt::format("a mask {} of {} batches, {} queries and {} keys is not taken",
                                 text_of(shape), batch, queries, keys));
    }
    const double low = call.real("mask_filter_value", -10000);
    const ValueId bias = call.emit("where", {hidden, call.number(low, elem), call.number(0, elem)}, {}, elem);
    return call.reshape(bias, to);
}

/// A query sees the keys before the new ones and, if it is unidirectional, the new ones up to its own.
std::optional<ValueId> position_bias(Call& call, const Attention& of, int64_t queries, ElemType elem) {
    const int64_t keys = of.keys(call);
    if (!of.unidirectional && !of.starts) return std::nullopt;
    Call::check_made({queries, keys});
    Known distance{Type::i64, {1, 1, queries, keys}, {}, {}}, bias{Type::f64, {queries, keys}, {}, {}};
    for (int64_t i = 0; i < queries; ++i) {
        for (int64_t j = 0; j < keys; ++j) {
            const int64_t last = of.unidirectional ? i : queries - 1;
            distance.ints.push_back(j - last);
            bias.reals.push_back(j - last <= of.past ? 0.0 : -INFINITY);
        }
    }
    if (!of.starts) return call.constant(bias, elem);
    const Sizes batch{call.sizes(*of.starts->computed)[0], 1, 1, 1};
    const ValueId start = call.reshape(*of.starts->computed, batch);
    return bias_of(call, call.emit("less_equal", {call.constant(distance, ElemType::i32), start}, {}, truth),
                   elem);
}

void attend(Call& call, const Attention& of) {
    const Sizes s = call.sizes(of.q);
    const ElemType elem = call.elem(of.q);
    const double given = call.real("scale", 0);
    const double scale = given != 0 ? given : 1 / std::sqrt(static_cast<double>(s[3]));
    ValueId scores = matmul(call, call.binary("mul", of.q, scale), call.transpose(of.k, {0, 1, 3, 2}));
    if (of.mask != 0 && call.has(of.mask)) scores = call.binary("add", scores, padding_bias(call, of, elem));
    if (of.bias != 0 && call.has(of.bias)) scores = call.binary("add", scores, call.value(of.bias));
    if (const auto bias = position_bias(call, of, s[2], elem)) scores = call.binary("add", scores, *bias);
    call.result(join_heads(call, matmul(call, call.emit("softmax", {scores}, {integer("axis", 3)}), of.v)));
}

/// Returns the parts of a vector, or of a matrix's last dimension, of these sizes.
std::vector<ValueId> parts_of(Call& call, ValueId x, const Sizes& sizes) {
    const auto axis = static_cast<int64_t>(call.sizes(x).size()) - 1;
    int64_t all = 0;
    for (const int64_t size : sizes) all += size;
    if (axis < 0 || call.sizes(x).back() != all)
        Call::refuse(fmt::format("{} is not the queries, keys and values", text_of(call.sizes(x))));
    std::vector<ValueId> parts;
    for (int64_t i = 0, first = 0; i < static_cast<int64_t>(sizes.size()); first += sizes[size_t(i)], ++i)
        parts.push_back(call.slice(x, axis, first, first + sizes[size_t(i)]));
    return parts;
}

/// Parts of [batch, rows, heads, n, size] as [batch, heads, rows, size].
std::vector<ValueId> packed_parts(Call& call, size_t operand, int64_t n) {
    const Sizes s = call.shape(operand);
    if (s.size() != 5 || s[3] != n) Call::refuse(fmt::format("an operand {} is not packed", text_of(s)));
    std::vector<ValueId> parts;
    for (int64_t i = 0; i < n; ++i) {
        const ValueId part = call.slice(call.value(operand), 3, i, i + 1);
        parts.push_back(call.transpose(call.reshape(part, {s[0], s[1], s[2], s[4]}), {0, 2, 1, 3}));
    }
    return parts;
}

/// The new keys and values after those of the past (operands, `length` tells how many of a shared buffer
/// count); with `results` they are results too, the keys' first.
struct Past {
    ValueId keys, values;
    size_t length = 0;
};

void append(Call& call, Attention& of, const std::optional<Past>& past, bool shared) {
    if (!past) return;
    const int64_t batch = call.sizes(of.q)[0], rows = of.keys(call);
    if (!shared) {
        of.past = call.sizes(past->keys)[2];
        of.k = call.concat({past->keys, of.k}, 2);
        of.v = call.concat({past->values, of.v}, 2);
        return;
    }
    const Starts starts = starts_of(call, past->length, batch);
    of.k = written(call, past->keys, of.k, 2, starts);
    of.v = written(call, past->values, of.v, 2, starts);
    if (const auto start = starts.same()) {
        of.past = *start;
    } else {
        of.starts = starts;
    }
    if (of.starts && rows != call.sizes(of.q)[2]) Call::refuse("it has not as many new keys as queries");
}

/// Leaves only the keys of a shared buffer that count, where their number is known.
void leave_valid(Call& call, Attention& of, int64_t valid) {
    if (of.starts || valid >= of.keys(call)) return;
    of.k = call.slice(of.k, 2, 0, valid);
    of.v = call.slice(of.v, 2, 0, valid);
}

/// Operands of MultiHeadAttention and of DecoderMaskedMultiHeadAttention.
struct Places {
    size_t bias, mask, attention_bias, past_key, past_length, indirection;
};

void of_projections(Call& call, const Places& at) {
    if (call.has(at.indirection)) Call::refuse("cache_indirection is not taken");
    if (call.wants(3) || call.integer("output_qk", 0) != 0) Call::refuse("its output qk is not taken");
    const int64_t heads = call.integer("num_heads", 0);
    Attention of;
    of.mask = at.mask;
    of.bias = at.attention_bias;
    of.unidirectional = call.integer("unidirectional", 0) != 0;
    const auto parts_with_bias = [&](std::vector<ValueId> parts) {
        if (!call.has(at.bias)) return parts;
        const auto width = [&](ValueId x) {
            const Sizes s = call.sizes(x);
            return s.size() == 4 ? s[1] * s[3] : s.empty() ? 0 : s.back();
        };
        const std::vector<ValueId> bias =
            parts_of(call, call.value(at.bias), {width(parts[0]), width(parts[1]), width(parts[2])});
        // keys and values of a cache have had theirs
        for (size_t i = 0; i < (call.has(1) && call.rank(1) == 4 ? 1 : 3); ++i) {
            const Sizes s = call.sizes(parts[i]);
            parts[i] = call.binary("add", parts[i],
                                   s.size() == 4 ? call.reshape(bias[i], {s[1], 1, s[3]}) : bias[i]);
        }
        return parts;
    };
    std::vector<ValueId> parts;
    if (!call.has(1)) {
        parts = packed_parts(call, 0, 3);
    } else if (!call.has(2)) {
        parts = packed_parts(call, 1, 2);
        parts.insert(parts.begin(), split_heads(call, call.value(0), heads));
    } else {
        parts = {call.value(0), call.value(1), call.value(2)};
    }
    parts = parts_with_bias(std::move(parts));
    of.q = split_heads(call, parts[0], heads);
    of.k = split_heads(call, parts[1], heads);
    of.v = split_heads(call, parts[2], heads);
    const int64_t rows = of.keys(call);
    const bool given = call.has(at.past_key) && call.rank(at.past_key) == 4 && call.shape(at.past_key)[2] > 0;
    const bool shared = given && call.has(at.past_length);
    std::optional<Past> past;
    if (given) past = Past{call.value(at.past_key), call.value(at.past_key + 1), at.past_length};
    append(call, of, past, shared);
    if (call.wants(1)) call.result(1, of.k, call.type(0));
    if (call.wants(2)) call.result(2, of.v, call.type(0));
    if (shared) leave_valid(call, of, of.past + rows);
    attend(call, of);
}

/// Imports query, key, value, bias of all three, key_padding_mask, attention_bias, past keys and values, how
/// many of them count.
void multi_head(Call& call) { of_projections(call, {3, 4, 5, 6, 8, 9}); }

/// Imports query, key, value, mask, attention_bias, past keys and values, how many of them count, beams, bias
/// of all three.
void decoder_multi_head(Call& call) { of_projections(call, {10, 3, 4, 5, 7, 9}); }

/// Imports input, weights and bias of queries, keys and values side by side, mask_index, past,
/// attention_bias, how much of the past counts.
void joined_attention(Call& call) {
    if (call.integer("do_rotary", 0) != 0) Call::refuse("do_rotary is not taken");
    const int64_t heads = call.integer("num_heads", 0);
    ValueId all = matmul(call, call.value(0), call.value(1));
    if (call.has(2)) all = call.binary("add", all, call.value(2));
    Sizes sizes = call.ints("qkv_hidden_sizes");
    if (call.sizes(all).size() != 3) Call::refuse("its operand has not three dimensions");
    if (sizes.empty()) sizes.assign(3, call.sizes(all).back() / 3);
    if (sizes.size() != 3) Call::refuse("qkv_hidden_sizes are not three");
    const std::vector<ValueId> parts = parts_of(call, all, sizes);
    Attention of;
    of.q = split_heads(call, parts[0], heads);
    of.k = split_heads(call, parts[1], heads);
    of.v = split_heads(call, parts[2], heads);
    of.mask = 3;
    of.bias = 5;
    of.unidirectional = call.integer("unidirectional", 0) != 0;
    const int64_t rows = of.keys(call);
    const bool given = call.has(4) && call.rank(4) == 5 && call.shape(4)[3] > 0;
    const bool shared = given && call.integer("past_present_share_buffer", 0) != 0;
    std::optional<Past> past;
    if (given) {
        const Sizes s = call.shape(4), one(s.begin() + 1, s.end());
        const ValueId both = call.value(4);
        past = Past{call.reshape(call.slice(both, 0, 0, 1), one),
                    call.reshape(call.slice(both, 0, 1, 2), one), 6};
    }
    append(call, of, past, shared);
    if (call.wants(1)) {
        Sizes one = call.sizes(of.k);
        one.insert(one.begin(), 1);
        if (call.sizes(of.v) != call.sizes(of.k))
            Call::refuse("its present has keys and values of unlike sizes");
        call.result(1, call.concat({call.reshape(of.k, one), call.reshape(of.v, one)}, 0), call.type(0));
    }
    if (shared) leave_valid(call, of, of.past + rows);
    attend(call, of);
}

}  // namespace

void add_multi_head(Operators& t) {
    constexpr std::string_view theirs = "com.microsoft";
    t.push_back({"MultiHeadAttention", multi_head, 1, 999, theirs});
    t.push_back({"DecoderMaskedMultiHeadAttention", decoder_multi_head, 1, 999, theirs});
    t.push_back({"Attention", joined_attention, 1, 999, theirs});
}

}  // namespace kpu::onnx
