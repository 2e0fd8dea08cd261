// RNN, GRU, LSTM: unrolled, a product for all inputs before the steps.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/onnx/elements/activations.hpp"
#include "compiler/onnx/operators.hpp"
#include "compiler/onnx/products/products.hpp"

namespace kpu::onnx {
namespace {

constexpr int64_t most_steps = 4096;

/// Sizes, attributes, and what is common to all steps.
struct Network {
    int64_t gates = 1;
    int64_t steps = 0, batch = 0, hidden = 0, directions = 1;
    std::vector<Activation> activations;  ///< activations of all directions
    double clip = 0;
    bool batch_first = false;
    std::optional<ValueId> lengths;  ///< [batch, 1]
};

/// Returns the activations; alpha and beta stand in lists, for those that have them, in order.
std::vector<Activation> activations_of(const Call& call, const std::vector<std::string>& defaults,
                                       int64_t directions) {
    const Attribute* given = call.node.find("activations");
    const Attribute *alphas = call.node.find("activation_alpha"), *betas = call.node.find("activation_beta");
    std::vector<Activation> result;
    size_t next_alpha = 0, next_beta = 0;
    const size_t count = defaults.size() * static_cast<size_t>(directions);
    if (given != nullptr && given->texts.size() != count)
        Call::refuse(fmt::format("it needs {} activations", count));
    for (size_t i = 0; i < count; ++i) {
        Activation f{given == nullptr ? defaults[i % defaults.size()] : given->texts[i], 0, 0};
        const auto take = [](const Attribute* list, size_t& next, double fallback) {
            return list != nullptr && next < list->reals.size() ? list->reals[next++] : fallback;
        };
        if (f.name == "LeakyRelu") f.alpha = take(alphas, next_alpha, 0.01);
        if (f.name == "Elu" || f.name == "ThresholdedRelu") f.alpha = take(alphas, next_alpha, 1);
        if (f.name == "Affine" || f.name == "ScaledTanh" || f.name == "HardSigmoid") {
            f.alpha = take(alphas, next_alpha, f.name == "HardSigmoid" ? 0.2 : 1);
            f.beta = take(betas, next_beta, f.name == "HardSigmoid" ? 0.5 : f.name == "Affine" ? 0 : 1);
        }
        result.push_back(std::move(f));
    }
    return result;
}

Network network_of(Call& call, int64_t gates, const std::vector<std::string>& activations) {
    Network net;
    net.gates = gates;
    net.batch_first = call.integer("layout", 0) != 0;
    if (call.rank(0) != 3 || call.rank(1) != 3 || call.rank(2) != 3)
        Call::refuse("its operands need three dimensions");
    const Sizes& x = call.shape(0);
    net.steps = x[net.batch_first ? 1 : 0];
    net.batch = x[net.batch_first ? 0 : 1];
    net.hidden = call.shape(2)[2];
    const std::string direction = call.text("direction", "forward");
    net.directions = direction == "bidirectional" ? 2 : 1;
    if (call.shape(1) != Sizes{net.directions, gates * net.hidden, x[2]} ||
        call.shape(2) != Sizes{net.directions, gates * net.hidden, net.hidden})
        Call::refuse(
            fmt::format("weights {} and {} do not fit", text_of(call.shape(1)), text_of(call.shape(2))));
    if (net.steps > most_steps) Call::refuse(fmt::format("{} steps are more than {}", net.steps, most_steps));
    net.activations = activations_of(call, activations, net.directions);
    net.clip = call.real("clip", 0);
    if (call.has(4)) {
        const Operand& lengths = call.in(4);
        const bool full = lengths.constant() && [&] {
            const Sizes& list = call.ints_of(4, "sequence_lens");
            return std::all_of(list.begin(), list.end(), [&](int64_t length) { return length == net.steps; });
        }();
        if (!full) net.lengths = call.reshape(call.value(4), {net.batch, 1});
    }
    return net;
}

/// Returns row `index` of the first dimension, without it.
ValueId part(Call& call, ValueId x, int64_t index) {
    Sizes shape = call.sizes(x);
    if (shape[0] > 1) x = call.slice(x, 0, index, index + 1);
    shape.erase(shape.begin());
    return call.reshape(x, shape);
}

struct State {
    ValueId hidden, cell;
};

/// One direction: its weights, and what a step needs.
struct Cell {
    Call& call;
    const Network& net;
    size_t direction = 0;
    ValueId recurrent;  ///< [hidden, gates * hidden]
    /// [gates * hidden]: of what comes from inputs (of both sums, where they are only added), of what comes from the state.
    std::optional<ValueId> input_bias, recurrent_bias;
    std::optional<ValueId> peepholes;

    const Activation& activation(size_t i) const {
        return net
            .activations[direction * (net.activations.size() / static_cast<size_t>(net.directions)) + i];
    }
    ValueId gate(ValueId x, int64_t index, int64_t count = 1) const {
        const Sizes sizes = call.sizes(x);
        if (sizes.back() == count * net.hidden) return x;
        return call.slice(x, static_cast<int64_t>(sizes.size()) - 1, index * net.hidden,
                          (index + count) * net.hidden);
    }
    ValueId apply(size_t i, ValueId x) const {
        if (net.clip > 0)
            x = call.emit("clamp", {x},
                          {graph::real("min_val", -net.clip), graph::real("max_val", net.clip)});
        return activate(call, activation(i), x);
    }
    ValueId add(ValueId a, ValueId b) const { return call.binary("add", a, b); }
    ValueId mul(ValueId a, ValueId b) const { return call.binary("mul", a, b); }
};

using Step = State (*)(const Cell& cell, ValueId inputs, const State& before);

State rnn_step(const Cell& c, ValueId inputs, const State& before) {
    const ValueId hidden = c.apply(0, c.add(inputs, gemm(c.call, before.hidden, c.recurrent)));
    return {hidden, hidden};
}

/// Gates z, r, h.
State gru_step(const Cell& c, ValueId inputs, const State& before) {
    const bool linear = c.call.integer("linear_before_reset", 0) != 0;
    const ValueId products = linear ? gemm(c.call, before.hidden, c.recurrent, c.recurrent_bias)
                                    : gemm(c.call, before.hidden, c.gate(c.recurrent, 0, 2));
    const ValueId update = c.apply(0, c.add(c.gate(inputs, 0), c.gate(products, 0)));
    const ValueId reset = c.apply(0, c.add(c.gate(inputs, 1), c.gate(products, 1)));
    const ValueId inner = linear ? c.mul(reset, c.gate(products, 2))
                                 : gemm(c.call, c.mul(reset, before.hidden), c.gate(c.recurrent, 2));
    const ValueId candidate = c.apply(1, c.add(c.gate(inputs, 2), inner));
    const ValueId rest = c.call.binary("sub", c.call.number(1, c.call.elem(update)), update);
    const ValueId hidden = c.add(c.mul(rest, candidate), c.mul(update, before.hidden));
    return {hidden, hidden};
}

/// Gates i, o, f, c; peepholes i, o, f.
State lstm_step(const Cell& c, ValueId inputs, const State& before) {
    const ValueId sum = c.add(inputs, gemm(c.call, before.hidden, c.recurrent));
    const bool coupled = c.call.integer("input_forget", 0) != 0;
    const auto gate = [&](int64_t index, ValueId cell) {
        ValueId x = c.gate(sum, index);
        if (c.peepholes) x = c.add(x, c.mul(c.gate(*c.peepholes, index), cell));
        return c.apply(0, x);
    };
    const ValueId input = gate(0, before.cell);
    const ValueId forget =
        coupled ? c.call.binary("sub", c.call.number(1, c.call.elem(input)), input) : gate(2, before.cell);
    const ValueId candidate = c.apply(1, c.gate(sum, 3));
    const ValueId cell = c.add(c.mul(forget, before.cell), c.mul(input, candidate));
    return {c.mul(gate(1, cell), c.apply(2, cell)), cell};
}

/// Returns an initial state; these have the directions first, or second with layout 1.
ValueId initial(Call& call, const Network& net, size_t operand, int64_t direction, ElemType elem) {
    if (!call.has(operand)) return call.zeros({net.batch, net.hidden}, elem);
    const ValueId given = call.value(operand);
    return part(call, net.batch_first ? call.transpose(given, {1, 0, 2}) : given, direction);
}

struct Run {
    std::vector<ValueId> outputs;  ///< [batch, hidden], by step
    State last;
};

Run run_direction(Call& call, const Network& net, Step step, size_t direction, bool backwards) {
    const auto d = static_cast<int64_t>(direction);
    const int64_t width = net.gates * net.hidden;
    Cell cell{call, net, direction, call.transpose(part(call, call.value(2), d), {1, 0}), {}, {}, {}};
    if (call.has(3)) {
        const ValueId both = part(call, call.value(3), d);
        cell.input_bias = call.slice(both, 0, 0, width);
        cell.recurrent_bias = call.slice(both, 0, width, 2 * width);
        const bool apart = net.gates == 3 && call.integer("linear_before_reset", 0) != 0;
        if (!apart) cell.input_bias = cell.add(*cell.input_bias, *cell.recurrent_bias);
    }
    if (net.gates == 4 && call.has(7)) cell.peepholes = part(call, call.value(7), d);
    ValueId x = call.value(0);
    if (net.batch_first) x = call.transpose(x, {1, 0, 2});
    x = call.reshape(x, {net.steps * net.batch, call.shape(0)[2]});
    ValueId all = gemm(call, x, call.transpose(part(call, call.value(1), d), {1, 0}), cell.input_bias);
    all = call.reshape(all, {net.steps, net.batch, width});
    const ElemType elem = call.elem(x);
    Run run{std::vector<ValueId>(static_cast<size_t>(net.steps)), {initial(call, net, 5, d, elem), 0}};
    run.last.cell = net.gates == 4 ? initial(call, net, 6, d, elem) : run.last.hidden;
    for (int64_t i = 0; i < net.steps; ++i) {
        const int64_t t = backwards ? net.steps - 1 - i : i;
        State next = step(cell, part(call, all, t), run.last);
        ValueId& output = run.outputs[static_cast<size_t>(t)];
        output = next.hidden;
        if (net.lengths) {  // after its end a sequence keeps its state, and makes zeros
            const ValueId inside =
                call.emit("greater", {*net.lengths, call.number(static_cast<double>(t), ElemType::i32)}, {},
                          ElemType::u8);
            const auto choose = [&](ValueId a, ValueId b) {
                return call.emit("where", {inside, a, b}, {}, elem);
            };
            output = choose(next.hidden, call.number(0, elem));
            next = {choose(next.hidden, run.last.hidden), choose(next.cell, run.last.cell)};
        }
        run.last = next;
    }
    return run;
}

void unroll(Call& call, int64_t gates, Step step, const std::vector<std::string>& activations) {
    const Network net = network_of(call, gates, activations);
    std::vector<Run> runs;
    for (int64_t d = 0; d < net.directions; ++d) {
        const bool backwards = d == 1 || call.text("direction", "forward") == "reverse";
        runs.push_back(run_direction(call, net, step, static_cast<size_t>(d), backwards));
    }
    const Type type = call.type(0);
    if (call.wants(0)) {
        std::vector<ValueId> parts;
        for (int64_t t = 0; t < net.steps; ++t) {
            for (const Run& run : runs)
                parts.push_back(
                    call.reshape(run.outputs[static_cast<size_t>(t)], {1, net.batch, net.hidden}));
        }
        const ValueId y =
            call.reshape(call.concat(parts, 0), {net.steps, net.directions, net.batch, net.hidden});
        call.result(0, net.batch_first ? call.transpose(y, {2, 0, 1, 3}) : y, type);
    }
    const auto last = [&](size_t output, bool cell) {
        std::vector<ValueId> parts;
        for (const Run& run : runs)
            parts.push_back(call.reshape(cell ? run.last.cell : run.last.hidden, {1, net.batch, net.hidden}));
        const ValueId y = call.concat(parts, 0);
        if (call.wants(output)) call.result(output, net.batch_first ? call.transpose(y, {1, 0, 2}) : y, type);
    };
    last(1, false);
    last(2, true);
}

void rnn(Call& call) { unroll(call, 1, rnn_step, {"Tanh"}); }
void gru(Call& call) { unroll(call, 3, gru_step, {"Sigmoid", "Tanh"}); }
void lstm(Call& call) { unroll(call, 4, lstm_step, {"Sigmoid", "Tanh", "Tanh"}); }

/// Returns weights in steps, [directions, inputs, gates * hidden], as LSTM has them. `scale`: an operand that
/// has one number for each direction or column; the zero points follow it.
Operand real_weights(Call& call, size_t operand, size_t scale) {
    if (call.rank(operand) != 3) Call::refuse("its weights need three dimensions");
    Sizes places{call.shape(operand)[0], 1, call.shape(operand)[2]};
    const auto number = [&](size_t i) {
        if (call.rank(i) == 1) places[2] = 1;
        return call.reshape(call.cast(call.value(i), ElemType::f32), places);
    };
    ValueId x = call.cast(call.value(operand), ElemType::f32);
    if (call.has(scale + 1)) x = call.binary("sub", x, number(scale + 1));
    x = call.transpose(call.binary("mul", x, number(scale)), {0, 2, 1});
    return call.operand(x, Type::f32);
}

/// Imports the operator of com.microsoft. The steps that ONNX Runtime gives inputs and states are those of
/// the network, if it has any.
void dynamic_lstm(Call& call) {
    constexpr size_t of_lstm = 8;
    std::vector<Operand> operands;
    for (size_t i = 0; i < of_lstm; ++i) {
        const bool weights = i == 1 || i == 2;
        operands.push_back(weights       ? real_weights(call, i, of_lstm + 2 * (i - 1))
                           : call.has(i) ? call.in(i)
                                         : Operand{});
    }
    NodeModel node = call.node;
    node.type = "LSTM";
    const std::vector<Operand> results = import_as(call, node, call.opset, std::move(operands));
    for (size_t i = 0; i < call.outputs(); ++i) {
        if (call.wants(i)) call.result(i, results[i]);
    }
}

}  // namespace

void add_recurrent(Operators& t) {
    t.push_back({"RNN", rnn});
    t.push_back({"GRU", gru});
    t.push_back({"LSTM", lstm});
    t.push_back({"DynamicQuantizeLSTM", dynamic_lstm, 1, 999, "com.microsoft"});
}

}  // namespace kpu::onnx
