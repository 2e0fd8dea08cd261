// Models with quantize and dequantize nodes become int8 networks with the model's scales.
#include "compiler/quantize/absorb_qdq.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/quantize/parameters.hpp"
#include "tests/compiler/quantize/networks.hpp"

namespace kpu::quantize {
namespace {

using graph::Node;
using graph::NodeOptions;
using testing::Data;
using ::testing::ElementsAre;
using testing::Graph;
using testing::Network;
using testing::run;
using testing::samples_of;
using testing::Value;
using testing::ValueId;

/// A float network as quantizing tools write it: every activation through quantize and dequantize, weights
/// and biases as integers.
class QdqWriter {
  public:
    QdqWriter(const Graph& from, ElemType activations)
        : from_(from),
          activations_(activations),
          ranges_(calibrate(from, *samples_of(from))),
          map_(from.values.size()) {}

    Graph write() {
        for (const graph::Port& port : from_.inputs) {
            const Value& value = from_.value(port.value);
            map_[port.value] = conversion(to_.add_input(value.name, value.elem, value.shape), port.value);
        }
        const auto users = graph::users(from_);
        for (const Node& node : from_.nodes) {
            std::vector<ValueId> operands;
            for (size_t i = 0; i < node.inputs.size(); ++i) operands.push_back(operand(node, i));
            const ValueId y = to_.add_node(node.spec().name, operands, node.attrs,
                                           {node.source, node.source.name, ElemType::f32, {}});
            const std::vector<graph::NodeId>& next = users[node.outputs[0]];
            const bool before_relu = next.size() == 1 && from_.nodes[next[0]].spec().name == "relu";
            map_[node.outputs[0]] = before_relu ? y : conversion(y, node.outputs[0]);
        }
        for (graph::Port port : from_.outputs) {
            port.value = map_[port.value];
            to_.outputs.push_back(port);
        }
        return std::move(to_);
    }

  private:
    ValueId conversion(ValueId x, ValueId old) {
        BoundQuant quant = activation_quant(ranges_[old]);
        if (activations_ == ElemType::u8) quant.zero_points[0] += 128;
        const ValueId q =
            to_.add_node("quantize", {x}, {}, {{"Q", "QuantizeLinear"}, "q", activations_, quant});
        return to_.add_node("dequantize", {q}, {}, {{"DQ", "DequantizeLinear"}, "dq", ElemType::f32, {}});
    }

    ValueId operand(const Node& node, size_t i) {
        const Value& value = from_.value(node.inputs[i]);
        if (!value.constant()) return map_[node.inputs[i]];
        if (!is_product(node.spec()) || i == 0)
            return to_.add_constant(value.name, value.elem, value.shape, value.data);
        const Weights weights = quantized_weights(from_.value(node.inputs[1]), {});
        ValueId q = 0;
        if (i == 1) {
            q = to_.add_constant(value.name, ElemType::i8, value.shape, weights.data, weights.quant);
        } else {
            std::vector<double> scales = weights.quant.scales;
            for (double& scale : scales) scale *= activation_quant(ranges_[node.inputs[0]]).scales[0];
            q = to_.add_constant(value.name, ElemType::i32, value.shape, quantized_bias(value, scales),
                                 per_channel(value.shape.rank - 1, scales));
        }
        return to_.add_node("dequantize", {q}, {}, {{"DQ", "DequantizeLinear"}, "dq", ElemType::f32, {}});
    }

    const Graph& from_;
    ElemType activations_;
    std::vector<Range> ranges_;
    std::vector<ValueId> map_;
    Graph to_;
};

Network network(uint64_t seed) {
    Network net(seed);
    ValueId x = net.input("x", {1, 8, 8, 3});
    x = net.op("relu", {net.conv(x, 4)});
    x = net.op("add", {x, net.conv(x, 4, false)});
    x = net.pool(seed % 2 == 0 ? "maxpool" : "avgpool", x);
    x = net.op("sigmoid", {x});
    net.output(net.gemm(net.reshape(x, {1, 64}), 5));
    return net;
}

bool has_floats(const Graph& graph) {
    for (const Value& value : graph.values) {
        if (is_float(value.elem)) return true;
    }
    return false;
}

TEST(AbsorbQdq, EveryOperatorBecomesInteger) {
    for (const ElemType type : {ElemType::i8, ElemType::u8}) {
        for (uint64_t seed = 1; seed <= 8; ++seed) {
            const Network net = network(seed);
            const Graph qdq = QdqWriter(net.graph, type).write();
            graph::check(qdq);
            ASSERT_TRUE(is_quantized(qdq));
            const QuantizeResult result = absorb_qdq(qdq, {});
            graph::check(result.graph);
            EXPECT_TRUE(result.in_floats.empty());
            EXPECT_EQ(testing::find(result.graph, "dequantize"), nullptr);
            EXPECT_FALSE(has_floats(result.graph));
            EXPECT_EQ(testing::find(result.graph, "relu"), nullptr);  // its conv saturates
            const double step = result.graph.value(result.graph.outputs[0].value).quant.scales[0];
            const auto samples = samples_of(net.graph);
            for (size_t i = 0; i < samples->count(); ++i) {
                const auto wanted = run(qdq, samples->load(i)), got = run(result.graph, samples->load(i));
                for (size_t k = 0; k < wanted.size(); ++k) EXPECT_NEAR(got[k], wanted[k], 1.01 * step);
            }
        }
    }
}

TEST(AbsorbQdq, WeightsKeepTheirStepsAndScales) {
    const Network net = network(1);
    const Graph qdq = QdqWriter(net.graph, ElemType::i8).write();
    const Graph int8 = absorb_qdq(qdq, {}).graph;
    const Node &before = *testing::find(net.graph, "conv2d"), &conv = *testing::find(int8, "conv2d");
    const Weights wanted = quantized_weights(net.graph.value(before.inputs[1]), {});
    const Value& got = int8.value(conv.inputs[1]);
    EXPECT_TRUE(equal(got.quant, wanted.quant));
    EXPECT_EQ(std::memcmp(got.data.bytes, wanted.data.bytes, wanted.data.size), 0);
}

TEST(AbsorbQdq, UnsignedWeightsBecomeSigned) {
    Network net;
    const ValueId x = net.input("x", {1, 2});
    BoundQuant steps = per_tensor(0.5, 128);
    const auto q = [&](ValueId value, const char* name) {
        const ValueId integers =
            net.graph.add_node("quantize", {value}, {}, {{name, "Q"}, name, ElemType::u8, steps});
        return net.graph.add_node("dequantize", {integers}, {}, {{name, "DQ"}, name, ElemType::f32, {}});
    };
    const ValueId w = net.graph.add_constant("w", ElemType::u8, graph::dims({2, 1}),
                                             graph::make_data({130, 100}), per_tensor(0.25, 120));
    const ValueId dw = net.graph.add_node("dequantize", {w}, {}, {{"dw", "DQ"}, "dw", ElemType::f32, {}});
    net.output(q(net.op("matmul", {q(x, "x"), dw}, {graph::type("accum_type", ElemType::f32)}), "y"));
    const Graph int8 = absorb_qdq(net.graph, {}).graph;
    const Node& product = *testing::find(int8, "matmul");
    const Value& weights = int8.value(product.inputs[1]);
    EXPECT_EQ(weights.elem, ElemType::i8);
    EXPECT_THAT(graph::numbers(weights), ElementsAre(2, -28));
    EXPECT_EQ(weights.quant.zero_points[0], -8);
    EXPECT_EQ(int8.inputs[0].elem, ElemType::f32);
    // 1.5 * 2.5 + 2 * -5 = -6.25, which are -12 or -13 steps of 0.5: ties go to even
    EXPECT_THAT(run(int8, {graph::make_numbers(ElemType::f32, {1.5, 2})}), ElementsAre(-6));
}

// Scales move with their dimension through views of stored weights.
TEST(AbsorbQdq, StoredWeightsMayBeSeenThroughViews) {
    const std::vector<uint8_t> steps = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    for (const bool transposed : {false, true}) {
        Network net;
        const ValueId x = net.input("x", {1, 4});
        const auto pair = [&](ValueId value, double scale) {
            const ValueId q = net.graph.add_node("quantize", {value}, {},
                                                 {{"q", "Q"}, "q", ElemType::i8, per_tensor(scale, 0)});
            return net.graph.add_node("dequantize", {q}, {}, {{"dq", "DQ"}, "dq", ElemType::f32, {}});
        };
        const ValueId stored = net.graph.add_constant(
            "w", ElemType::i8,
            graph::dims(transposed ? std::vector<int64_t>{3, 4} : std::vector<int64_t>{2, 2, 3}),
            graph::make_data(steps), per_channel(transposed ? 0 : 2, {1, 0.5, 0.25}));
        const ValueId w =
            net.graph.add_node("dequantize", {stored}, {}, {{"dw", "DQ"}, "dw", ElemType::f32, {}});
        const ValueId seen =
            transposed ? net.op("transpose", {w}, {graph::ints("perm", {1, 0})}) : net.reshape(w, {4, 3});
        net.output(
            pair(net.op("matmul", {pair(x, 1), seen}, {graph::type("accum_type", ElemType::f32)}), 0.25));
        const Graph int8 = absorb_qdq(net.graph, {}).graph;
        ASSERT_EQ(int8.nodes.size(), 1U);
        const Value& weights = int8.value(int8.nodes[0].inputs[1]);
        EXPECT_EQ(weights.quant.axis, 1);
        EXPECT_THAT(weights.quant.scales, ElementsAre(1, 0.5, 0.25));
        const auto sample = graph::make_numbers(ElemType::f32, {1, 0, 0, 2});
        EXPECT_EQ(run(int8, {sample}), run(net.graph, {sample}));
    }
}

// A model of integer operators: u8 between quantize and dequantize.
TEST(AbsorbQdq, IntegerOperatorsBecomeSignedAndTheHostConverts) {
    Network net;
    const ValueId x = net.input("x", {1, 4});
    const BoundQuant in = per_tensor(0.5, 128), out = per_tensor(1, 100);
    const ValueId q = net.graph.add_node("quantize", {x}, {}, {{"q", "Q"}, "q", ElemType::u8, in});
    const ValueId w = net.graph.add_constant("w", ElemType::i8, graph::dims({4, 2}),
                                             graph::make_data({1, 2, 3, 4, 5, 6, 7, 8}), per_tensor(1, 0));
    const ValueId y =
        net.graph.add_node("matmul", {q, w}, graph::attributes({graph::type("accum_type", ElemType::i32)}),
                           {{"mm", "QLinearMatMul"}, "y", ElemType::u8, out});
    const ValueId r = net.graph.add_node("relu", {y}, {}, {{"relu", "Relu"}, "r", ElemType::u8, out});
    net.output(net.graph.add_node("dequantize", {r}, {}, {{"dq", "DQ"}, "dq", ElemType::f32, {}}));
    const Graph int8 = absorb_qdq(net.graph, {}).graph;
    graph::check(int8);
    ASSERT_EQ(int8.nodes.size(), 2U);
    EXPECT_EQ(int8.value(int8.inputs[0].value).elem, ElemType::i8);
    EXPECT_EQ(int8.value(int8.inputs[0].value).quant.zero_points[0], 0);
    EXPECT_EQ(int8.value(int8.outputs[0].value).elem, ElemType::i8);
    EXPECT_EQ(int8.outputs[0].elem, ElemType::f32);
    const auto sample = graph::make_numbers(ElemType::f32, {1, -2, 3, 0.5});
    EXPECT_EQ(run(int8, {sample}), run(net.graph, {sample}));
    // what the host gets as integers stays u8, and what must have one type with it; the product before it is i8
    net.graph.outputs[0] = {"raw", r, ElemType::u8, {}, {}};
    graph::remove_unused(net.graph);
    const Graph raw = absorb_qdq(net.graph, {}).graph;
    EXPECT_EQ(raw.value(raw.outputs[0].value).elem, ElemType::u8);
    EXPECT_EQ(raw.value(raw.nodes[0].outputs[0]).elem, ElemType::i8);
    EXPECT_EQ(raw.value(raw.inputs[0].value).elem, ElemType::i8);
    EXPECT_EQ(run(raw, {sample}), run(net.graph, {sample}));
}

// conv -> (Q, softmax): the softmax reads the float, not its steps.
TEST(AbsorbQdq, WhatIsAlsoUsedAsAFloatStaysOne) {
    Network net;
    const ValueId x = net.input("x", {2, 4});
    const BoundQuant coarse = per_tensor(0.5, 0);
    const auto q = [&](ValueId value) {
        const ValueId i =
            net.graph.add_node("quantize", {value}, {}, {{"q", "Q"}, "q", ElemType::i8, coarse});
        return net.graph.add_node("dequantize", {i}, {}, {{"dq", "DQ"}, "dq", ElemType::f32, {}});
    };
    const ValueId s = net.op("sigmoid", {x});
    net.output(net.op("add", {q(s), s}));
    net.output(q(net.op("neg", {q(s)})));
    const QuantizeResult result = absorb_qdq(net.graph, {ElemType::f32, {}, {}, false});
    graph::check(result.graph);
    EXPECT_THAT(result.in_floats, ElementsAre("sigmoid_0 (sigmoid): the model gives no steps for it",
                                              "add_3 (add): the model gives no steps for it"));
    const auto sample = graph::make_numbers(ElemType::f32, testing::random_numbers(3, 8, 3));
    EXPECT_EQ(run(result.graph, {sample}), run(net.graph, {sample}));
    EXPECT_EQ(result.graph.value(testing::find(result.graph, "neg")->inputs[0]).elem, ElemType::i8);
}

TEST(AbsorbQdq, AResultWithoutStepsLeavesTheAccumulators) {
    const Network net = network(2);
    Graph qdq = QdqWriter(net.graph, ElemType::i8).write();
    // the output without its last pair
    const ValueId last = qdq.outputs[0].value;
    const ValueId q = qdq.nodes[static_cast<size_t>(graph::producers(qdq)[last])].inputs[0];
    qdq.outputs[0].value = qdq.nodes[static_cast<size_t>(graph::producers(qdq)[q])].inputs[0];
    graph::remove_unused(qdq);
    const Graph int8 = absorb_qdq(qdq, {}).graph;
    EXPECT_NE(testing::find(int8, "gemm.acc"), nullptr);
    const auto sample = samples_of(net.graph)->load(0);
    const auto wanted = run(qdq, sample), got = run(int8, sample);
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 0.02);
}

/// A cache of a language model: keys that the host has in steps, and a query that is rounded to others.
TEST(AbsorbQdq, WhatTheHostGivesInStepsIsMultipliedAsItIs) {
    Network net(5);
    const ValueId query = net.input("query", {3, 16});
    const auto floats = [&](ValueId steps) {
        return net.graph.add_node("dequantize", {steps}, {},
                                  {{"DQ", "DequantizeLinear"}, "dq", ElemType::f32, {}});
    };
    const auto rounded = [&](ValueId x, double scale) {
        return floats(net.graph.add_node("quantize", {x}, {},
                                         {{"Q", "QuantizeLinear"}, "q", ElemType::i8, per_tensor(scale, 2)}));
    };
    const ValueId keys = net.graph.add_input("keys", ElemType::i8, graph::dims({40, 16}));
    net.graph.value(keys).quant = per_tensor(0.03, -5);
    const ValueId across = net.op("transpose", {floats(keys)}, {graph::ints("perm", {1, 0})});
    net.output(rounded(
        net.op("gemm", {rounded(query, 0.02), across}, {graph::type("accum_type", ElemType::f32)}), 0.1));
    const QuantizeResult result = absorb_qdq(net.graph, {});
    graph::check(result.graph);
    EXPECT_FALSE(has_floats(result.graph));
    std::vector<double> steps;
    for (int i = 0; i < 40 * 16; ++i) steps.push_back(i * 37 % 256 - 128);
    const std::vector<Data> arrays = {
        graph::make_numbers(ElemType::f32, testing::random_numbers(1, 3 * 16, 2)),
        graph::make_numbers(ElemType::i8, steps)};
    const auto engine = values::make_fast_backend();
    const auto numbers = [&](const Graph& of) {
        const Data made = graph::run_on_host(of, *engine, arrays).at(0);
        return graph::numbers({"y", ElemType::f32, graph::dims({3, 40}), {}, made, {}});
    };
    const std::vector<double> wanted = numbers(net.graph), got = numbers(result.graph);
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 0.1001);
}

TEST(AbsorbQdq, DevicesWithoutInt8RunFloats) {
    const Network net = network(3);
    const Graph qdq = QdqWriter(net.graph, ElemType::u8).write();
    QuantizeOptions options;
    options.real = ElemType::f32;
    options.supports = [](std::string_view opcode, const std::vector<ElemType>& in,
                          const std::vector<ElemType>&) {
        return opcode == "quantize" || opcode == "dequantize" || in[0] != ElemType::i8;
    };
    const QuantizeResult result = absorb_qdq(qdq, options);
    graph::check(result.graph);
    EXPECT_EQ(result.in_floats.size(), net.graph.nodes.size());
    const auto sample = samples_of(net.graph)->load(0);
    const auto wanted = run(qdq, sample), got = run(result.graph, sample);
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-5);
}

}  // namespace
}  // namespace kpu::quantize
