// Attention with a state in the place of a cache, and the short convolution that stands before it: of ONNX, and of
// com.microsoft, which has more options.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/onnx/attention/attention.hpp"
#include "compiler/onnx/operators.hpp"
#include "compiler/onnx/products/products.hpp"

namespace kpu::onnx {
namespace {

// Each step of a sequence is nodes of its own.
constexpr int64_t most_steps = 4096;

/// The operands of each step: [batch, groups, ..] in f32.
struct Recurrence {
    ValueId q, k, v;                     ///< [batch, heads, steps, size]; of keys and values `groups` heads
    std::optional<ValueId> decay, beta;  ///< factors [batch, groups or 1, steps, size or 1]
};

ValueId step_of(Call& call, ValueId x, int64_t step) {
    return call.sizes(x)[2] == 1 ? x : call.slice(x, 2, step, step + 1);
}

/// Splits by head: [B, S, n] to [B, n or its heads, S, size]: a number for each head, or for each key element
/// of a head.
ValueId by_head(Call& call, size_t operand, int64_t groups, int64_t size, std::string_view name) {
    const Sizes s = call.shape(operand);
    const int64_t heads = s.size() == 3 && s[2] == 1 ? 1 : groups;
    if (s.size() != 3 || (s[2] != heads && s[2] != groups * size))
        Call::refuse(fmt::format("{} {} does not fit to {} heads of {}", name, text_of(s), groups, size));
    return split_heads(call, call.cast(call.value(operand), ElemType::f32), heads);
}

struct Steps {
    std::vector<ValueId> outputs;  ///< [batch, heads, 1, size] of each step
    ValueId state;                 ///< [batch, groups, size, size]
};

/// The state fades, forgets what it had for the key, gets the value for it; the query reads it.
Steps unrolled(Call& call, const Recurrence& of, ValueId state, double scale) {
    const int64_t steps = call.sizes(of.q)[2], heads = call.sizes(of.q)[1];
    Steps made{{}, state};
    for (int64_t t = 0; t < steps; ++t) {
        const ValueId k = step_of(call, of.k, t), across = call.transpose(k, {0, 1, 3, 2});
        ValueId v = step_of(call, of.v, t);
        if (of.decay) {
            const ValueId fading = call.transpose(step_of(call, *of.decay, t), {0, 1, 3, 2});
            made.state = call.binary("mul", made.state, fading);
        }
        if (of.beta) {
            const ValueId had = matmul(call, k, made.state);
            v = call.binary("mul", step_of(call, *of.beta, t), call.binary("sub", v, had));
        }
        made.state = call.binary("add", made.state, call.binary("mul", across, v));
        const ValueId q = call.binary("mul", step_of(call, of.q, t), scale);
        made.outputs.push_back(matmul(call, q, shared_heads(call, made.state, heads)));
    }
    return made;
}

/// Imports query, key, value [B, T, heads * size], past_state, decay, beta.
void linear_attention(Call& call) {
    const int64_t heads = call.integer("q_num_heads", 0), groups = call.integer("kv_num_heads", 0);
    const std::string rule = call.text("update_rule", "gated_delta");
    const bool gated = rule == "gated" || rule == "gated_delta";
    const bool delta = rule == "delta" || rule == "gated_delta";
    if (!gated && !delta && rule != "linear") Call::refuse(fmt::format("update_rule {} is not known", rule));
    if (heads < 1 || groups < 1 || heads % groups != 0)
        Call::refuse(fmt::format("q_num_heads {} are not a multiple of kv_num_heads {}", heads, groups));
    if (call.integer("state_window", 0) != 0) Call::refuse("state_window is not taken");
    if (call.has(4) != gated || call.has(5) != delta)
        Call::refuse(fmt::format("update_rule {} does not fit to decay and beta", rule));
    for (size_t i = 0; i < 3; ++i) {
        if (call.rank(i) != 3) Call::refuse("its operands have not three dimensions");
    }
    if (call.shape(0)[1] > most_steps)
        Call::refuse(fmt::format("it has {} steps, more than {}", call.shape(0)[1], most_steps));
    const Type type = call.type(0);
    const auto split = [&](size_t i, int64_t count) {
        return split_heads(call, call.cast(call.value(i), ElemType::f32), count);
    };
    Recurrence of{split(0, heads), split(1, groups), split(2, groups), {}, {}};
    const int64_t size = call.sizes(of.k)[3];
    if (gated) of.decay = call.unary("exp", by_head(call, 4, groups, size, "decay"));
    if (delta) of.beta = by_head(call, 5, groups, 1, "beta");
    const Sizes shape{call.shape(0)[0], groups, size, call.sizes(of.v)[3]};
    if (call.has(3) && call.shape(3) != shape)
        Call::refuse(fmt::format("past_state {} is not {}", text_of(call.shape(3)), text_of(shape)));
    const ValueId state =
        call.has(3) ? call.cast(call.value(3), ElemType::f32) : call.zeros(shape, ElemType::f32);
    const double given = call.real("scale", 0);
    const Steps made =
        unrolled(call, of, state, given != 0 ? given : 1 / std::sqrt(static_cast<double>(size)));
    call.result(call.cast(join_heads(call, call.concat(made.outputs, 2)), elem_of(type)));
    const Type of_state = call.has(3) ? call.type(3) : type;
    if (call.wants(1)) call.result(1, call.cast(made.state, elem_of(of_state)), of_state);
}

// ---- CausalConvWithState

void refuse_state_options(Call& call) {
    for (const char* const option : {"state_update_capacity", "state_window", "state_length",
                                     "input_channel_offset", "input_channels"}) {
        if (call.integer(option, 0) != 0) Call::refuse(fmt::format("{} is not taken", option));
    }
    if (call.integer("ndim", 1) != 1) Call::refuse("ndim is not 1");
    if (call.integer("state_channels_last", -1) != -1) Call::refuse("state_channels_last is not taken");
}

/// Sequences [B, C, L]; with channels last they are [B, L, ...], of channels that may have several dimensions.
struct Sequences {
    bool last = false;
    Sizes channels;
    Sequences(Call& call, const Sizes& x) : last(call.integer("channels_last", 0) != 0) {
        if (x.size() < 3 || (!last && x.size() > 3))
            Call::refuse(fmt::format("an operand {} is not a sequence of channels", text_of(x)));
        if (last) channels.assign(x.begin() + 2, x.end());
    }
    ValueId first(Call& call, ValueId x) const {
        const Sizes s = call.sizes(x);
        if (!last) return x;
        if (s.size() < 3 || Sizes(s.begin() + 2, s.end()) != channels)
            Call::refuse(fmt::format("a state {} does not fit", text_of(s)));
        return call.transpose(call.reshape(x, {s[0], s[1], elements_of(channels)}), {0, 2, 1});
    }
    ValueId back(Call& call, ValueId x) const {
        if (!last) return x;
        const Sizes s = call.sizes(x);
        Sizes whole{s[0], s[2]};
        whole.insert(whole.end(), channels.begin(), channels.end());
        return call.reshape(call.transpose(x, {0, 2, 1}), whole);
    }
};

/// Convolves each channel alone.
ValueId depthwise(Call& call, ValueId x, int64_t dilation) {
    NodeModel node = call.node;
    node.type = "Conv";
    node.attributes = {};
    const auto set = [&](const char* name, int64_t value, Sizes values) {
        Attribute attribute;
        attribute.name = name;
        attribute.integer = value;
        attribute.ints = std::move(values);
        node.attributes.push_back(attribute);
    };
    set("dilations", 0, {dilation});
    set("kernel_shape", 0, {call.shape(1)[2]});
    set("group", call.shape(1)[0], {});
    std::vector<Operand> given{call.operand(x, call.type(0)), call.in(1)};
    if (call.has(2)) given.push_back(call.in(2));
    node.inputs.resize(given.size());
    return *import_as(call, node, call.opset, std::move(given)).at(0).value;
}

/// Imports X, weights [C, 1, K], bias, past_state with (K - 1) * dilation rows: each channel alone, of what
/// came before and itself.
void causal_conv(Call& call) {
    refuse_state_options(call);
    const Sequences sequences(call, call.shape(0));
    ValueId all = sequences.first(call, call.value(0));
    const Sizes x = call.sizes(all), w = call.shape(1);
    if (w.size() != 3 || w[0] != x[1] || w[1] != 1)
        Call::refuse(fmt::format("weights {} are not for the channels of {}", text_of(w), text_of(x)));
    const std::string activation = call.text("activation", "none");
    if (activation != "none" && activation != "silu" && activation != "swish")
        Call::refuse(fmt::format("activation {} is not known", activation));
    const int64_t dilation = call.integer("dilation", 1);
    if (dilation < 1 || dilation > INT32_MAX) Call::refuse(fmt::format("dilation is {}", dilation));
    const int64_t before = (w[2] - 1) * dilation;
    const ElemType elem = call.elem(all);
    if (before > 0) {
        if (call.has(3)) {
            const ValueId past = sequences.first(call, call.value(3));
            if (call.sizes(past) != Sizes{x[0], x[1], before})
                Call::refuse(fmt::format("past_state {} does not fit", text_of(call.shape(3))));
            all = call.concat({past, all}, 2);
        } else {
            all = call.pad(all, {0, 0, before, 0, 0, 0}, 0);
        }
    }
    ValueId y = depthwise(call, all, dilation);
    if (activation != "none") y = call.unary("silu", y);
    call.result(sequences.back(call, y));
    if (!call.wants(1)) return;
    const int64_t length = x[2] + before;
    const ValueId state =
        before > 0 ? call.slice(all, 2, length - before, length) : call.zeros({x[0], x[1], 0}, elem);
    call.result(1, sequences.back(call, state), call.type(0));
}

}  // namespace

void add_linear_attention(Operators& t) {
    t.push_back({"LinearAttention", linear_attention, 27});
    t.push_back({"CausalConvWithState", causal_conv, 27});
    t.push_back({"LinearAttention", linear_attention, 1, 999, "com.microsoft"});
    t.push_back({"CausalConvWithState", causal_conv, 1, 999, "com.microsoft"});
}

}  // namespace kpu::onnx
