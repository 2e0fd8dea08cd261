// GroupQueryAttention of com.microsoft, as decoders are exported: rotary embeddings, caches and masks are inside of it.
//
// T is how many keys of a batch count, seqlens_k + 1. The new ones lie at [T - Q, T), where Q of the S rows are no padding
// (all that fit, or query_seqlens). Where these are constants, so are masks, and the cache is slices and a concatenation.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/onnx/attention/attention.hpp"
#include "compiler/onnx/attention/caches.hpp"
#include "compiler/onnx/moves/indexing.hpp"
#include "compiler/onnx/operators.hpp"
#include "compiler/onnx/products/products.hpp"

namespace kpu::onnx {
namespace {

using graph::integer;

enum Operands : size_t {
    query,
    key,
    value,
    past_key,
    past_value,
    seqlens_k,
    total_length,
    cos_cache,
    sin_cache,
    position_ids,
    attention_bias,
    head_sink,
    k_scale,
    v_scale,
    q_norm_weight,
    k_norm_weight,
    query_seqlens
};

void check_options(Call& call) {
    const auto refuse_if = [](bool set, std::string_view option) {
        if (set) Call::refuse(fmt::format("{} is not taken", option));
    };
    refuse_if(call.integer("sliding_window_cache", 0) != 0, "sliding_window_cache");
    refuse_if(call.integer("qk_output", 0) != 0 || call.wants(3), "qk_output");
    if (call.has(key) != call.has(value)) Call::refuse("it has keys or values, not both");
    if (call.has(past_key) != call.has(past_value)) Call::refuse("it has past keys or values, not both");
    if (call.has(cos_cache) != call.has(sin_cache)) Call::refuse("it has cosines or sines, not both");
}

/// Rows of queries, keys and values: [batch, rows, heads, size].
struct Rows {
    ValueId q, k, v;
    int64_t batch = 1, rows = 1, heads = 1, groups = 1, size = 1;
};

Rows rows_of(Call& call) {
    Rows r;
    r.heads = call.integer("num_heads", 0);
    r.groups = call.integer("kv_num_heads", 0);
    const Sizes s = call.shape(query);
    const bool packed = !call.has(key);
    const int64_t parts = packed ? r.heads + 2 * r.groups : r.heads;
    if (r.heads < 1 || r.groups < 1 || r.heads % r.groups != 0 || s.size() != 3 || s[2] % parts != 0)
        Call::refuse(
            fmt::format("queries {} are not num_heads {} of kv_num_heads {}", text_of(s), r.heads, r.groups));
    r.batch = s[0];
    r.rows = s[1];
    r.size = s[2] / parts;
    const auto split = [&](ValueId x, int64_t heads) {
        if (call.sizes(x) != Sizes{r.batch, r.rows, heads * r.size})
            Call::refuse(fmt::format("keys or values {} do not fit to queries {}", text_of(call.sizes(x)),
                                     text_of(s)));
        return call.reshape(x, {r.batch, r.rows, heads, r.size});
    };
    if (!packed) {
        r.q = split(call.value(query), r.heads);
        r.k = split(call.value(key), r.groups);
        r.v = split(call.value(value), r.groups);
        return r;
    }
    const ValueId all = call.value(query);
    const int64_t keys = r.heads * r.size, values = keys + r.groups * r.size;
    r.q = split(call.slice(all, 2, 0, keys), r.heads);
    r.k = split(call.slice(all, 2, keys, values), r.groups);
    r.v = split(call.slice(all, 2, values, s[2]), r.groups);
    return r;
}

ValueId normed(Call& call, ValueId x, size_t weight, std::string_view epsilon) {
    if (!call.has(weight)) return x;
    const Sizes s = call.sizes(x);
    if (elements_of(call.shape(weight)) != s[3]) Call::refuse("its weights of norms do not fit to a head");
    const double given = call.real(epsilon, call.real("qk_norm_epsilon", 1e-6F));
    const ValueId rows = call.reshape(x, {elements_of(s) / s[3], s[3]});
    const ValueId scale = call.reshape(call.cast(call.value(weight), call.elem(x)), {s[3]});
    return call.reshape(
        call.emit("rmsnorm", {rows, scale}, {integer("axis", 1), graph::real("epsilon", given)}), s);
}

/// The cache: so many rows before, so many after, and where the new ones begin in it.
struct Cache {
    int64_t past = 0, present = 0;
    Starts starts;
    CacheSteps k, v;
};

/// Returns the type of the bytes of a cache in integers.
Type type_of(const CacheSteps& steps) { return steps.bits == 4 ? Type::u8 : Type::i8; }

Starts new_rows(Call& call, const Rows& r) {
    Starts valid = starts_of(call, seqlens_k, r.batch, 1);
    const auto rows = static_cast<double>(r.rows);
    if (!call.has(query_seqlens)) {
        for (int64_t& start : valid.known) start = std::max<int64_t>(start - r.rows, 0);
        if (valid.computed) {
            valid.computed = call.once(fmt::format("first rows {} of {}", valid.text(), r.rows), [&] {
                const ValueId first = call.binary("sub", *valid.computed, call.number(rows, ElemType::i32));
                return call.binary("max", first, call.number(0, ElemType::i32));
            });
        }
        return valid;
    }
    const Starts counts = starts_of(call, query_seqlens, r.batch);
    if (!valid.computed && !counts.computed) {
        for (size_t b = 0; b < valid.known.size(); ++b) valid.known[b] -= counts.known[b];
        return valid;
    }
    const auto numbers = [&](const Starts& s) {
        return s.computed ? *s.computed : positions_constant(call, s.known, {r.batch});
    };
    return {{}, call.once(fmt::format("first rows {} of {}", valid.text(), counts.text()), [&] {
                return call.binary("sub", numbers(valid), numbers(counts));
            })};
}

Cache cache_of(Call& call, const Rows& r) {
    Cache cache;
    cache.k = cache_steps_of(call, "k_quant_type", k_scale, r.groups, r.size);
    cache.v = cache_steps_of(call, "v_quant_type", v_scale, r.groups, r.size);
    if (call.has(past_key)) {
        const Sizes s = call.shape(past_key);
        const auto fits = [&](size_t operand, const CacheSteps& steps) {
            const bool bytes = steps.quantized() == (call.type(operand) == type_of(steps));
            return bytes && call.shape(operand) == Sizes{r.batch, r.groups, s[2], steps.width(r.size)};
        };
        if (s.size() != 4 || !fits(past_key, cache.k) || !fits(past_value, cache.v))
            Call::refuse(fmt::format("past keys {} do not fit", text_of(s)));
        cache.past = s[2];
    }
    // a computed length can only be that of a shared buffer, or of the first rows
    cache.present = cache.past == 0 ? r.rows : cache.past;
    if (call.in(total_length).constant()) {
        const int64_t total = call.integer_of(total_length, "total_sequence_length");
        cache.present = std::max(total, cache.past);
        if (total < 1 || (cache.past == 0 && total != r.rows) || total > cache.past + r.rows)
            Call::refuse(fmt::format("total_sequence_length is {} of {} past and {} new rows", total,
                                     cache.past, r.rows));
        // of one batch the longest is the one; so the cache grows at its end
        if (total == cache.past + r.rows && r.batch == 1 && !call.has(query_seqlens)) {
            cache.starts.known = {cache.past};
            return cache;
        }
    }
    if (cache.present < r.rows)
        Call::refuse(fmt::format("a cache of {} rows does not hold {} new ones", cache.present, r.rows));
    if (cache.past == 0) {
        cache.starts.known.assign(static_cast<size_t>(r.batch), 0);
        return cache;
    }
    cache.starts = new_rows(call, r);
    return cache;
}

ValueId present(Call& call, const Cache& cache, size_t past, ValueId update) {
    if (cache.past == 0) return update;
    ValueId before = call.value(past);
    const auto start = cache.starts.same();
    if (start && *start == cache.past) return call.concat({before, update}, 2);
    before = call.pad(before, {0, 0, 0, 0, 0, 0, cache.present - cache.past, 0}, 0);
    return written(call, before, update, 2, cache.starts);
}

/// Returns the position of each row, [batch or 1, rows], i32.
ValueId positions_of(Call& call, const Rows& r, const Starts& starts) {
    const Sizes along = identity_perm(static_cast<size_t>(r.rows));
    if (const auto start = starts.same()) {
        Sizes all = along;
        for (int64_t& position : all) position += *start;
        return positions_constant(call, all, {1, r.rows});
    }
    const ValueId first =
        starts.computed ? *starts.computed : positions_constant(call, starts.known, {r.batch});
    return call.binary("add", call.reshape(first, {r.batch, 1}),
                       positions_constant(call, along, {1, r.rows}));
}

void rotate(Call& call, Rows& r, const Starts& starts) {
    if (call.integer("do_rotary", 0) == 0) return;
    if (!call.has(cos_cache)) Call::refuse("do_rotary: cos_cache and sin_cache are missing");
    if (call.rank(cos_cache) != 2) Call::refuse("cos_cache has not two dimensions");
    ValueId positions;
    if (call.has(position_ids)) {
        if (call.shape(position_ids) != Sizes{r.batch, r.rows})
            Call::refuse(fmt::format("position_ids {} are not [{},{}]", text_of(call.shape(position_ids)),
                                     r.batch, r.rows));
        positions = call.value(position_ids);
    } else {
        positions = call.once(fmt::format("positions {} of {} {}", starts.text(), r.batch, r.rows),
                              [&] { return positions_of(call, r, starts); });
    }
    const auto angles_of = [&](size_t operand) {
        const ValueId table = call.value(operand);
        return call.once(fmt::format("angles %{} %{}", table, positions),
                         [&] { return angles(call, table, positions); });
    };
    const ValueId cosine = angles_of(cos_cache), sine = angles_of(sin_cache);
    const bool interleaved = call.integer("rotary_interleaved", 0) != 0;
    r.q = rotated(call, r.q, cosine, sine, interleaved);
    r.k = rotated(call, r.k, cosine, sine, interleaved);
}

/// Keys that the rows see: up to their own, of those the last `window`; without `causal` all that count.
struct Sight {
    bool causal = true;
    int64_t window = -1;
    bool sees(int64_t key, int64_t position) const {
        return key <= position && (window < 0 || key > position - window);
    }
};

/// Returns the newest key that a row sees, from the start on.
int64_t newest(const Rows& r, const Sight& sight, int64_t row) { return sight.causal ? row : r.rows - 1; }

ValueId computed_bias(Call& call, const Rows& r, ValueId starts, int64_t keys, const Sight& sight,
                      ElemType elem) {
    Call::check_made({r.rows, keys});
    Sizes distances;
    for (int64_t row = 0; row < r.rows; ++row) {
        for (int64_t key = 0; key < keys; ++key) distances.push_back(key - newest(r, sight, row));
    }
    const ValueId distance = positions_constant(call, std::move(distances), {1, 1, r.rows, keys});
    const ValueId start = call.reshape(starts, {r.batch, 1, 1, 1});
    ValueId allowed = call.emit("less_equal", {distance, start}, {}, truth);
    if (sight.window >= 0) {
        const ValueId oldest =
            call.binary("sub", start, call.number(static_cast<double>(sight.window), ElemType::i32));
        allowed = call.emit("and", {allowed, call.emit("greater", {distance, oldest}, {}, truth)}, {}, truth);
    }
    return bias_of(call, allowed, elem);
}

Known known_bias(const Rows& r, const Starts& starts, int64_t keys, const Sight& sight) {
    const int64_t batches = starts.same() ? 1 : r.batch;
    Call::check_made({batches, r.rows, keys});
    Known bias{Type::f64, {batches, 1, r.rows, keys}, {}, {}};
    for (int64_t b = 0; b < batches; ++b) {
        for (int64_t row = 0; row < r.rows; ++row) {
            const int64_t last = starts.known[static_cast<size_t>(b)] + newest(r, sight, row);
            for (int64_t key = 0; key < keys; ++key)
                bias.reals.push_back(sight.sees(key, last) ? 0.0 : -INFINITY);
        }
    }
    return bias;
}

/// Returns 0 or -infinity, to be added to scores [batch, heads, rows, keys]; none where all see all.
std::optional<ValueId> bias_of_positions(Call& call, const Rows& r, const Starts& starts, int64_t keys,
                                         const Sight& sight, ElemType elem) {
    const std::string key = fmt::format("bias {} of {} {} {} {} {} {}", starts.text(), r.batch, r.rows, keys,
                                        sight.causal, sight.window, kpu::name_of(elem));
    if (starts.computed)
        return call.once(key, [&] { return computed_bias(call, r, *starts.computed, keys, sight, elem); });
    const Known bias = known_bias(r, starts, keys, sight);
    if (std::find(bias.reals.begin(), bias.reals.end(), -INFINITY) == bias.reals.end()) return std::nullopt;
    return call.once(key, [&] { return call.constant(bias, elem); });
}

/// Returns the operand attention_bias [.., rows, total], which may be shorter or longer than the keys.
ValueId fitted_bias(Call& call, int64_t keys) {
    const ValueId given = call.value(attention_bias);
    const Sizes s = call.sizes(given);
    if (s.size() != 4) Call::refuse(fmt::format("attention_bias {} has not four dimensions", text_of(s)));
    if (s[3] > keys) return call.slice(given, 3, 0, keys);
    return call.pad(given, {0, 0, 0, 0, 0, 0, 0, keys - s[3]}, 0);
}

/// Computes a softmax with one more number in each row, which nobody gets: 0, or the head's sink.
ValueId weights_of(Call& call, ValueId scores, const Rows& r) {
    if (call.integer("smooth_softmax", 0) == 0 && !call.has(head_sink))
        return call.emit("softmax", {scores}, {integer("axis", 3)});
    const ElemType elem = call.elem(scores);
    const Sizes column{r.batch, r.heads, r.rows, 1};
    if (call.has(head_sink) && elements_of(call.shape(head_sink)) != r.heads)
        Call::refuse("head_sink has not one number for each head");
    const ValueId sink = call.has(head_sink)
                             ? call.expand(call.reshape(call.value(head_sink), {1, r.heads, 1, 1}), column)
                             : call.zeros(column, elem);
    const int64_t keys = call.sizes(scores)[3];
    const ValueId all = call.emit("softmax", {call.concat({scores, sink}, 3)}, {integer("axis", 3)});
    return call.slice(all, 3, 0, keys);
}

double scale_of(const Call& call, const Rows& r) {
    const double told = call.real("scale", 0);
    return told != 0 ? told : 1 / std::sqrt(static_cast<double>(r.size));
}

/// Keys and values [batch, groups, rows, size], of which the first `count` are read.
struct Keys {
    ValueId k, v;
    int64_t count;
};

ValueId attended(Call& call, const Rows& r, const Cache& cache, ValueId q, Keys of) {
    if (of.count < call.sizes(of.k)[2]) {
        of.k = call.slice(of.k, 2, 0, of.count);
        of.v = call.slice(of.v, 2, 0, of.count);
    }
    const ElemType elem = call.elem(q);
    of.k = numbers_of(call, cache.k, of.k, elem);
    of.v = numbers_of(call, cache.v, of.v, elem);
    const ValueId across = call.transpose(shared_heads(call, of.k, r.heads), {0, 1, 3, 2});
    ValueId scores = matmul(call, q, across);
    if (const double cap = call.real("softcap", 0); cap > 0)
        scores = call.binary("mul", call.unary("tanh", call.binary("div", scores, cap)), cap);
    if (call.has(attention_bias)) scores = call.binary("add", scores, fitted_bias(call, of.count));
    const Sight sight{call.integer("causal", 1) != 0, call.integer("local_window_size", -1)};
    if (!sight.causal && sight.window >= 0) Call::refuse("local_window_size needs causal");
    if (const auto bias = bias_of_positions(call, r, cache.starts, of.count, sight, elem))
        scores = call.binary("add", scores, *bias);
    return join_heads(call, matmul(call, weights_of(call, scores, r), shared_heads(call, of.v, r.heads)));
}

void group_query(Call& call) {
    check_options(call);
    Rows r = rows_of(call);
    const Cache cache = cache_of(call, r);
    r.q = normed(call, r.q, q_norm_weight, "q_norm_epsilon");
    r.k = normed(call, r.k, k_norm_weight, "k_norm_epsilon");
    rotate(call, r, cache.starts);
    const Sizes heads_first{0, 2, 1, 3};
    const ValueId q = call.transpose(r.q, heads_first);
    const auto cached = [&](size_t output, size_t past, ValueId rows, const CacheSteps& steps) {
        const ValueId all =
            present(call, cache, past, steps_of(call, steps, call.transpose(rows, heads_first)));
        if (call.wants(output))
            call.result(output, all, steps.quantized() ? type_of(steps) : call.type(query));
        return all;
    };
    const ValueId k = cached(1, past_key, r.k, cache.k), v = cached(2, past_value, r.v, cache.v);
    const ValueId scaled = call.binary("mul", q, scale_of(call, r));
    if (cache.starts.computed && call.graph.positions.any() && cache.past > 0) {
        std::vector<ValueId> forms;
        for (const int64_t keys : keys_of_forms(call, cache.present))
            forms.push_back(attended(call, r, cache, scaled, {k, v, keys}));
        return call.result(chosen_form(call, forms));
    }
    int64_t keys = cache.present;
    if (!cache.starts.computed) {
        const Sizes& starts = cache.starts.known;
        keys = *std::max_element(starts.begin(), starts.end()) + r.rows;
    }
    call.result(attended(call, r, cache, scaled, {k, v, keys}));
}

}  // namespace

void add_group_query(Operators& t) {
    t.push_back({"GroupQueryAttention", group_query, 1, 999, "com.microsoft"});
}

}  // namespace kpu::onnx
