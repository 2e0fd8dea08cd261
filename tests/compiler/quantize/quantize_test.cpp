// Float networks become int8 ones: every node within half a step, exact where it can be.
#include "compiler/quantize/quantize.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "compiler/quantize/parameters.hpp"
#include "tests/compiler/quantize/networks.hpp"

namespace kpu::quantize {
namespace {

using graph::Node;
using ::testing::Contains;
using testing::Data;
using ::testing::ElementsAre;
using testing::Graph;
using ::testing::HasSubstr;
using testing::Network;
using testing::run;
using testing::samples_of;
using testing::Value;
using testing::ValueId;

Network random_network(uint64_t seed) {
    Network net(seed);
    ValueId x = net.input("image", {1, 8, 8, 3});
    x = net.op("relu", {net.conv(x, 8, seed % 2 == 0)});
    const ValueId other = net.conv(x, 8);
    x = net.op(seed % 3 == 0 ? "mul" : "add", {x, other});
    x = seed % 2 == 0 ? net.op("relu", {x}) : net.op("sigmoid", {x});
    x = net.pool(seed % 2 == 0 ? "maxpool" : "avgpool", x);
    const ValueId left = net.conv(x, 4),
                  right = net.op("clamp", {net.conv(x, 6)},
                                 {graph::real("min_val", 0), graph::real("max_val", 1)});
    x = net.op("concat", {left, right}, {graph::integer("axis", 3)});
    x = net.reshape(x, {1, 160});
    net.output(net.gemm(x, 10, seed % 3 != 0));
    return net;
}

/// Returns a float graph of one node, on the numbers that the operands of `node` stand for.
std::vector<double> float_result(const Graph& graph, const Node& node, const std::vector<Data>& data) {
    Graph twin;
    std::vector<ValueId> operands;
    const auto engine = values::make_fast_backend();
    for (const ValueId id : node.inputs) {
        Value value = graph.value(id);
        value.data = data[id] ? data[id] : value.data;
        std::vector<double> numbers = graph::numbers(value);
        const size_t channels = value.quant.scales.size();
        for (size_t i = 0; value.quant && i < numbers.size(); ++i) {
            const size_t channel = i % channels;
            numbers[i] = (numbers[i] - static_cast<double>(value.quant.zero_points[channel])) *
                         value.quant.scales[channel];
        }
        operands.push_back(
            twin.add_constant("c", ElemType::f32, value.shape, graph::make_numbers(ElemType::f32, numbers)));
    }
    BoundAttrs attrs = node.attrs;
    for (BoundAttr& attr : attrs.list) {
        if (attr.name == "accum_type") attr.type = ElemType::f32;
    }
    const ValueId out = twin.add_node(node.spec().name, operands, attrs, {{}, "y", ElemType::f32, {}});
    std::vector<Data> given;
    for (const ValueId id : operands) given.push_back(twin.value(id).data);
    Value result = twin.value(out);
    result.data = graph::execute_node(twin, twin.nodes[0], given, *engine)[0];
    return graph::numbers(result);
}

/// Checks every int8 node against floats on the same steps: only the rounding of its result may differ.
void expect_half_steps(const Graph& graph, const std::vector<Data>& inputs) {
    const auto engine = values::make_fast_backend();
    std::vector<Data> data(graph.values.size());
    graph::GraphExecutor(graph, *engine).run(inputs, [&](ValueId id, const values::Tensor& tensor) {
        const uint64_t size = graph::data_bytes(tensor.type, tensor.elements());
        data[id] = graph::make_data({tensor.data, tensor.data + size});
    });
    size_t checked = 0;
    for (const Node& node : graph.nodes) {
        Value made = graph.value(node.outputs[0]);
        if (!made.quant || made.elem != ElemType::i8 || node.spec().name == "quantize") continue;
        made.data = data[node.outputs[0]];
        const std::vector<double> steps = graph::numbers(made), wanted = float_result(graph, node, data);
        const double scale = made.quant.scales[0];
        const Range held = representable(made.quant);
        for (size_t i = 0; i < steps.size(); ++i) {
            const double got = (steps[i] - static_cast<double>(made.quant.zero_points[0])) * scale;
            const double want = std::min(std::max(wanted[i], held.low), held.high);
            ASSERT_LE(std::fabs(got - want), scale * 0.5 + 1e-5 * std::fabs(want) + 1e-5)
                << made.name << " element " << i;
        }
        ++checked;
    }
    EXPECT_GE(checked, 6U);
}

TEST(Quantize, EveryNodeOfRandomNetworksIsWithinHalfAStep) {
    for (uint64_t seed = 1; seed <= 12; ++seed) {
        const Network net = random_network(seed);
        const auto samples = samples_of(net.graph);
        const QuantizeResult result = quantize(net.graph, *samples, {});
        graph::check(result.graph);
        EXPECT_FALSE(result.calibrated);
        EXPECT_TRUE(result.in_floats.empty());
        std::vector<Data> inputs = {
            graph::from_host(result.graph, result.graph.inputs[0], samples->load(0)[0])};
        expect_half_steps(result.graph, inputs);
    }
}

TEST(Quantize, NetworksStayCloseToFloats) {
    for (uint64_t seed = 1; seed <= 12; ++seed) {
        const Network net = random_network(seed);
        const auto samples = samples_of(net.graph);
        const Graph int8 = quantize(net.graph, *samples, {}).graph;
        double error = 0, power = 0;
        for (size_t i = 0; i < samples->count(); ++i) {
            const auto wanted = run(net.graph, samples->load(i)), got = run(int8, samples->load(i));
            ASSERT_EQ(wanted.size(), got.size());
            for (size_t k = 0; k < wanted.size(); ++k) {
                error += (wanted[k] - got[k]) * (wanted[k] - got[k]);
                power += wanted[k] * wanted[k];
            }
        }
        EXPECT_LT(std::sqrt(error / power), 0.04) << "seed " << seed;
    }
}

TEST(Quantize, ZeroIsAStep) {
    for (const auto& [low, high] : std::vector<std::pair<double, double>>{
             {-1, 3}, {0.5, 2}, {-4, -1}, {0, 0}, {-1e-30, 1e-30}, {-1e6, 0}, {-0.3, 0.7}}) {
        Range range;
        range.include(low);
        range.include(high);
        const BoundQuant quant = activation_quant(range);
        EXPECT_GE(quant.zero_points[0], -128);
        EXPECT_LE(quant.zero_points[0], 127);
        const Range held = representable(quant);
        EXPECT_LE(held.low, low + 0.51 * quant.scales[0]);
        EXPECT_GE(held.high, high - 0.51 * quant.scales[0]);
        EXPECT_EQ(static_cast<double>(static_cast<float>(quant.scales[0])), quant.scales[0]);
    }
    Range positive;
    positive.include(5.0);
    EXPECT_EQ(activation_quant(positive).zero_points[0], -128);
}

TEST(Quantize, WeightsHaveAScalePerChannelAndBiasesTheirs) {
    Network net;
    const ValueId x = net.input("x", {1, 4, 4, 2});
    const ValueId y = net.conv(x, 3);
    net.output(net.gemm(net.reshape(net.op("relu", {y}), {1, 48}), 2));
    const Graph int8 = quantize(net.graph, *samples_of(net.graph), {}).graph;
    const Node& conv = *testing::find(int8, "conv2d");
    const Value &input = int8.value(conv.inputs[0]), &w = int8.value(conv.inputs[1]),
                &b = int8.value(conv.inputs[2]);
    EXPECT_EQ(w.elem, ElemType::i8);
    EXPECT_EQ(w.quant.axis, 3);
    ASSERT_EQ(w.quant.scales.size(), 3U);
    EXPECT_THAT(w.quant.zero_points, ElementsAre(0, 0, 0));
    const std::vector<double> steps = graph::numbers(w);
    const Value& floats = net.graph.value(net.graph.nodes[0].inputs[1]);
    const std::vector<double> reals = graph::numbers(floats);
    for (size_t c = 0; c < 3; ++c) {
        double largest = 0;
        for (size_t i = c; i < steps.size(); i += 3) {
            largest = std::max(largest, std::fabs(steps[i]));
            EXPECT_LE(std::fabs(steps[i] * w.quant.scales[c] - reals[i]), w.quant.scales[c] * 0.5000001);
        }
        EXPECT_EQ(largest, 127);  // the largest weight of each channel is its last step
        EXPECT_EQ(b.quant.scales[c], input.quant.scales[0] * w.quant.scales[c]);
    }
    EXPECT_EQ(b.elem, ElemType::i32);
}

TEST(Quantize, ReluBehindAProductIsItsSaturation) {
    Network net;
    const ValueId y = net.conv(net.input("x", {1, 4, 4, 2}), 3);
    net.output(net.gemm(net.reshape(net.op("relu", {y}), {1, 48}), 2));
    const Graph int8 = quantize(net.graph, *samples_of(net.graph), {}).graph;
    EXPECT_EQ(testing::find(int8, "relu"), nullptr);
    const Node& conv = *testing::find(int8, "conv2d");
    EXPECT_EQ(int8.value(conv.outputs[0]).quant.zero_points[0], -128);
    ASSERT_EQ(conv.absorbed.size(), 1U);
    EXPECT_EQ(conv.absorbed[0].name, "relu_1");
}

// [-1, 1] in 255 steps around 0 holds a little more than 1: the clamp is not the saturation.
TEST(Quantize, AClampThatSaturationDoesNotDoStays) {
    Network net;
    ValueId y = net.conv(net.input("x", {1, 4, 4, 2}), 3);
    y = net.op("clamp", {y}, {graph::real("min_val", -0.1), graph::real("max_val", 0.1)});
    net.output(net.gemm(net.reshape(y, {1, 48}), 2));
    const Graph int8 = quantize(net.graph, *samples_of(net.graph), {}).graph;
    const Node* clamp = testing::find(int8, "clamp");
    ASSERT_NE(clamp, nullptr);
    EXPECT_TRUE(equal(int8.value(clamp->inputs[0]).quant, int8.value(clamp->outputs[0]).quant));
    EXPECT_LT(int8.value(clamp->outputs[0]).quant.scales[0], 0.21 / 255);
}

TEST(Quantize, ConcatSharesTheScaleOfWhatOnlyItUses) {
    for (const bool used_elsewhere : {false, true}) {
        Network net;
        const ValueId x = net.input("x", {1, 4, 4, 2});
        const ValueId small = net.op("mul", {net.conv(x, 2), net.constant({}, {0.01})}),
                      large = net.conv(x, 3);
        ValueId all = net.op("concat", {small, large}, {graph::integer("axis", 3)});
        if (used_elsewhere) all = net.op("concat", {all, net.conv(small, 2)}, {graph::integer("axis", 3)});
        net.output(net.conv(all, 2));
        const Graph int8 = quantize(net.graph, *samples_of(net.graph), {}).graph;
        graph::check(int8);
        const Node& concat = *testing::find(int8, "concat");
        const BoundQuant& common = int8.value(concat.outputs[0]).quant;
        for (const ValueId id : concat.inputs) EXPECT_TRUE(equal(int8.value(id).quant, common));
        const BoundQuant& own = int8.value(testing::find(int8, "mul")->outputs[0]).quant;
        // a value that others use keeps its fine steps, and is requantized for the concat
        EXPECT_EQ(equal(own, common), !used_elsewhere);
        EXPECT_EQ(testing::find(int8, "clamp") != nullptr, used_elsewhere);
    }
}

TEST(Quantize, JoinedResultsOfDifferentRangesAreFloats) {
    for (const double factor : {1.0, 0.001}) {
        for (const bool is_result : {true, false}) {
            Network net;
            const ValueId x = net.input("x", {1, 4, 4, 2});
            const ValueId scaled = net.op("mul", {net.conv(x, 2), net.constant({}, {factor})});
            ValueId all = net.op("concat", {scaled, net.conv(x, 3)}, {graph::integer("axis", 3)});
            if (!is_result) all = net.conv(all, 2);
            net.output(all);
            const Graph int8 = quantize(net.graph, *samples_of(net.graph), {}).graph;
            graph::check(int8);
            const bool floats = factor < 1 && is_result;
            for (const char* node : {"mul", "concat"}) {
                const ElemType elem = int8.value(testing::find(int8, node)->outputs[0]).elem;
                EXPECT_EQ(is_float(elem), floats) << node << factor << is_result;
            }
        }
    }
}

TEST(Quantize, ViewsAndMaximaKeepTheSteps) {
    Network net;
    ValueId x = net.op("sigmoid", {net.conv(net.input("x", {1, 4, 4, 2}), 3)});
    x = net.pool("maxpool", x);
    x = net.op("transpose", {x}, {graph::ints("perm", {0, 3, 1, 2})});
    net.output(net.gemm(net.reshape(x, {1, 12}), 2));
    const Graph int8 = quantize(net.graph, *samples_of(net.graph), {}).graph;
    const BoundQuant& first = int8.value(testing::find(int8, "sigmoid")->outputs[0]).quant;
    for (const char* view : {"maxpool", "transpose", "reshape"})
        EXPECT_TRUE(equal(int8.value(testing::find(int8, view)->outputs[0]).quant, first)) << view;
}

TEST(Quantize, WhatNeedsFloatsRunsBetweenConversions) {
    Network net;
    ValueId x = net.gemm(net.input("x", {2, 8}), 8);
    x = net.op("softmax", {x}, {graph::integer("axis", 1)});
    net.output(net.gemm(x, 4));
    QuantizeOptions options;
    options.real = ElemType::bf16;
    const QuantizeResult result = quantize(net.graph, *samples_of(net.graph), options);
    graph::check(result.graph);
    EXPECT_THAT(result.in_floats, ElementsAre("softmax_1 (softmax): its function needs floats"));
    const Node& softmax = *testing::find(result.graph, "softmax");
    EXPECT_EQ(result.graph.value(softmax.outputs[0]).elem, ElemType::bf16);
    EXPECT_NE(testing::find(result.graph, "quantize"), nullptr);
    const auto sample = samples_of(net.graph)->load(0);
    const auto wanted = run(net.graph, sample), got = run(result.graph, sample);
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 0.03);
}

/// Attention: scores are int8, what weighs by probabilities is float where the device has that. An output that is made in
/// steps stays in them, though floats are made of it too.
TEST(Quantize, ProbabilitiesAreMultipliedInFloats) {
    Network net;
    const ValueId x = net.input("x", {4, 8});
    const ValueId q = net.gemm(x, 8), k = net.gemm(x, 4), v = net.gemm(x, 8);
    const BoundAttr sums = graph::type("accum_type", ElemType::f32);
    const ValueId keys = net.op("reshape", {k}, {graph::ints("target_shape", {8, 2})});
    const ValueId scores = net.op("gemm", {q, keys}, {sums});
    const ValueId paired = net.op("softmax", {scores}, {graph::integer("axis", 1)});
    const ValueId weighed = net.op("gemm", {net.reshape(paired, {2, 4}), v}, {sums});
    net.output(net.gemm(weighed, 3));
    net.output(v);
    for (const bool possible : {true, false}) {
        QuantizeOptions options;
        options.supports = [&](std::string_view opcode, const std::vector<ElemType>& in, const auto&) {
            return possible || opcode != "gemm" || in[0] != ElemType::f16;
        };
        const QuantizeResult result = quantize(net.graph, *samples_of(net.graph), options);
        graph::check(result.graph);
        size_t floats = 0;
        for (const Node& node : result.graph.nodes)
            floats +=
                graph::is_product(node.spec()) && is_float(result.graph.value(node.inputs[0]).elem) ? 1 : 0;
        EXPECT_EQ(floats, possible ? 1U : 0U);
        EXPECT_EQ(result.graph.value(result.graph.outputs[1].value).elem, ElemType::i8);
    }
}

/// Values that say where a picture is read are floats, those that go elsewhere too are not.
TEST(Quantize, PlacesAreFloats) {
    for (const bool shared : {false, true}) {
        Network net;
        const ValueId x = net.input("x", {6, 8});
        const ValueId places = net.op("tanh", {net.gemm(x, 2)});
        const ValueId picture = net.reshape(net.gemm(x, 5), {1, 1, 30});
        net.output(net.op("grid_sample", {picture, net.reshape(places, {1, 6, 2})},
                          {graph::integer("height", 5), graph::integer("width", 6), graph::integer("taps", 2),
                           graph::integer("outside", 0), graph::integer("corners", 0)}));
        if (shared) net.output(places);
        const QuantizeResult result = quantize(net.graph, *samples_of(net.graph), {});
        graph::check(result.graph);
        const auto count =
            std::count_if(result.in_floats.begin(), result.in_floats.end(), [](const std::string& line) {
                return line.find("its result says where others read") != std::string::npos;
            });
        EXPECT_EQ(count, shared ? 1 : 3);  // the reshape; with it the product and tanh
    }
}

/// int4: products with constant weights have scales of groups and f32 sums; depthwise ones, and devices without, have not.
TEST(Quantize, WeightsInGroups) {
    Network net;
    ValueId x = net.conv(net.input("image", {1, 6, 6, 10}), 8);
    x = net.op("relu", {x});
    net.output(net.gemm(net.reshape(x, {36, 8}), 5));
    QuantizeOptions options;
    options.group_size = 4;
    const Graph int4 = quantize(net.graph, *samples_of(net.graph), options).graph;
    graph::check(int4);
    const Node &conv = *testing::find(int4, "conv2d.group"), &gemm = *testing::find(int4, "gemm.group");
    EXPECT_EQ(int4.value(conv.inputs[1]).elem, ElemType::i4);
    EXPECT_EQ(int4.value(conv.inputs[2]).shape, graph::dims({3, 8}));
    EXPECT_EQ(int4.value(conv.outputs[0]).elem, ElemType::f32);
    EXPECT_EQ(int4.value(gemm.inputs[2]).shape, graph::dims({2, 5}));
    const auto sample = samples_of(net.graph)->load(0);
    const auto wanted = run(net.graph, sample), got = run(int4, sample);
    double signal = 0, noise = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
        signal += wanted[i] * wanted[i];
        noise += (wanted[i] - got[i]) * (wanted[i] - got[i]);
    }
    EXPECT_LT(noise, signal / 30);
    options.supports = [](std::string_view opcode, const auto&, const auto&) {
        return opcode.find(".group") == std::string_view::npos;
    };
    EXPECT_EQ(testing::find(quantize(net.graph, *samples_of(net.graph), options).graph, "gemm.group"),
              nullptr);
}

/// The steps of a recurrent network: one form of their weights, fine enough for each bias.
TEST(Quantize, ProductsWithTheSameWeightsShareThem) {
    for (const int64_t group_size : {0, 4}) {
        Network net;
        const ValueId w = net.weights({8, 8}, 0.5);
        ValueId x = net.input("x", {3, 8});
        for (const bool bias : {true, false, true}) {
            std::vector<ValueId> operands{x, w};
            if (bias) operands.push_back(net.weights({8}, 50));
            x = net.op("tanh", {net.op("gemm", operands, {graph::type("accum_type", ElemType::f32)})});
        }
        net.output(x);
        QuantizeOptions options;
        options.group_size = group_size;
        const Graph made = quantize(net.graph, *samples_of(net.graph), options).graph;
        std::set<ValueId> weights;
        for (const Node& node : made.nodes) {
            if (node.spec().macs != nullptr) weights.insert(node.inputs[1]);
        }
        EXPECT_EQ(weights.size(), 1u) << group_size;
        EXPECT_EQ(made.value(*weights.begin()).elem, group_size == 0 ? ElemType::i8 : ElemType::i4);
    }
}

TEST(Quantize, FloatOutputsLeaveTheAccumulators) {
    Network net;
    net.output(net.gemm(net.input("x", {1, 16}), 4));
    const auto samples = samples_of(net.graph);
    const auto sample = samples->load(0);
    const auto with = [&](std::string_view missing, ElemType real = ElemType::f16) {
        QuantizeOptions options;
        options.real = real;
        options.supports = [missing](std::string_view opcode, const std::vector<ElemType>&,
                                     const std::vector<ElemType>& out) {
            return opcode != missing &&
                   (opcode != "dequantize" || missing.empty() || out[0] != ElemType::f32);
        };
        return quantize(net.graph, *samples, options).graph;
    };
    const Graph best = with("");
    ASSERT_EQ(best.nodes.size(), 2U);
    EXPECT_EQ(best.nodes[0].spec().name, "gemm.acc");
    EXPECT_EQ(best.nodes[1].spec().name, "dequantize");
    EXPECT_EQ(best.value(best.outputs[0].value).elem, ElemType::f32);
    const Graph on_host = with("dequantize");  // the host makes floats of the sums: the same numbers
    ASSERT_EQ(on_host.nodes.size(), 1U);
    EXPECT_EQ(on_host.value(on_host.outputs[0].value).elem, ElemType::i32);
    EXPECT_EQ(on_host.outputs[0].elem, ElemType::f32);
    EXPECT_EQ(run(on_host, sample), run(best, sample));
    EXPECT_EQ(with("none").value(0).elem, ElemType::i8);
    const Graph half = with("none");  // a device without f32
    EXPECT_EQ(half.value(half.outputs[0].value).elem, ElemType::f16);
    const Graph coarse = with("gemm.acc");
    ASSERT_EQ(coarse.nodes.size(), 1U);
    EXPECT_EQ(coarse.value(coarse.outputs[0].value).elem, ElemType::i8);
    const auto wanted = run(net.graph, sample), fine = run(best, sample);
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(fine[i], wanted[i], 0.05);
}

TEST(Quantize, AnAddendThatIsNoConstantIsAdded) {
    Network net;
    const ValueId x = net.input("x", {2, 8});
    const ValueId sum =
        net.op("gemm", {net.gemm(x, 8), net.weights({8, 8}), x}, {graph::type("accum_type", ElemType::f32)});
    net.output(net.gemm(sum, 4));
    const Graph int8 = quantize(net.graph, *samples_of(net.graph), {}).graph;
    graph::check(int8);
    ASSERT_NE(testing::find(int8, "add"), nullptr);
    const auto sample = samples_of(net.graph)->load(1);
    const auto wanted = run(net.graph, sample), got = run(int8, sample);
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 0.2);
}

// Minus infinity as a mask, and its stand-ins, would leave one step for all other numbers.
TEST(Quantize, HugeNumbersStayFloats) {
    for (const double masked : std::vector<double>{-INFINITY, -3e38}) {
        Network net;
        ValueId x = net.gemm(net.input("x", {2, 4}), 4);
        x = net.op("add", {x, net.constant({2, 4}, {0, masked, 0, 0, 0, 0, masked, 0})});
        x = net.op("softmax", {x}, {graph::integer("axis", 1)});
        net.output(net.gemm(x, 2));
        const QuantizeResult result = quantize(net.graph, *samples_of(net.graph), {});
        EXPECT_THAT(result.in_floats, Contains("add_1 (add): its numbers are too large, or not finite"));
        const auto sample = samples_of(net.graph)->load(0);
        const auto wanted = run(net.graph, sample), got = run(result.graph, sample);
        for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 0.03);
    }
}

// A bias of many more steps than 31 bits hold makes the steps coarser, not the bias wrong.
TEST(Quantize, ALargeBiasOfTinyWeightsIsKept) {
    Network net;
    const ValueId x = net.input("x", {1, 4});
    const ValueId w = net.constant({4, 2}, {1e-12, 1, 1e-12, 1, 1e-12, 1, 1e-12, 1});
    const ValueId y =
        net.op("gemm", {x, w, net.constant({2}, {100, 0})}, {graph::type("accum_type", ElemType::f32)});
    net.output(y);
    const Graph int8 = quantize(net.graph, *samples_of(net.graph), {}).graph;
    EXPECT_NEAR(run(int8, samples_of(net.graph)->load(0))[0], 100, 1e-3);
}

TEST(Quantize, DevicesDecide) {
    Network net;
    const ValueId x = net.input("x", {1, 4, 4, 2});
    net.output(net.gemm(net.reshape(net.op("sigmoid", {net.conv(x, 3)}), {1, 48}), 2));
    QuantizeOptions options;
    options.supports = [](std::string_view opcode, const std::vector<ElemType>& in,
                          const std::vector<ElemType>&) {
        return opcode != "sigmoid" || in[0] != ElemType::i8;
    };
    const QuantizeResult result = quantize(net.graph, *samples_of(net.graph), options);
    EXPECT_THAT(result.in_floats, Contains("sigmoid_1 (sigmoid): the device has no int8 form of it"));
    EXPECT_EQ(result.graph.value(testing::find(result.graph, "sigmoid")->outputs[0]).elem, ElemType::f16);
    EXPECT_EQ(result.graph.value(testing::find(result.graph, "gemm.acc")->inputs[0]).elem, ElemType::i8);
}

TEST(Quantize, TheBoundaryIsTheHostsOrTheDevices) {
    Network net;
    net.output(net.op("sigmoid", {net.conv(net.input("x", {1, 4, 4, 2}), 3)}));
    QuantizeOptions options;
    options.supports = [](std::string_view opcode, const std::vector<ElemType>&,
                          const std::vector<ElemType>&) { return opcode != "conv2d.acc"; };
    const Graph host = quantize(net.graph, *samples_of(net.graph), options).graph;
    EXPECT_EQ(host.value(host.inputs[0].value).elem, ElemType::i8);
    EXPECT_EQ(host.inputs[0].elem, ElemType::f32);
    EXPECT_EQ(host.value(host.outputs[0].value).elem, ElemType::i8);
    EXPECT_EQ(host.outputs[0].elem, ElemType::f32);
    options.boundary_on_device = true;
    options.real = ElemType::f32;
    const Graph device = quantize(net.graph, *samples_of(net.graph), options).graph;
    EXPECT_EQ(device.value(device.inputs[0].value).elem, ElemType::f32);
    EXPECT_EQ(device.nodes.front().spec().name, "quantize");
    EXPECT_EQ(device.nodes.back().spec().name, "dequantize");
    const auto sample = samples_of(net.graph)->load(0);
    EXPECT_EQ(run(host, sample), run(device, sample));  // the same arithmetic on either side
}

TEST(Quantize, AQuantizedGraphIsRefused) {
    Network net;
    net.output(net.gemm(net.input("x", {1, 4}), 2));
    const Graph once = quantize(net.graph, *samples_of(net.graph), {}).graph;
    try {
        quantize(once, *samples_of(once), {});
        FAIL() << "accepted";
    } catch (const UserError& error) {
        EXPECT_THAT(error.what(), HasSubstr("is quantized already. Fix: compile the model as it is"));
    }
}

}  // namespace
}  // namespace kpu::quantize
