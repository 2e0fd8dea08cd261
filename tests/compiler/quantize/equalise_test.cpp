// Channels that share a tensor's scale get like ranges: the floats stay, the steps of small channels get finer.
#include "compiler/quantize/equalise.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "compiler/quantize/channel_classes.hpp"
#include "tests/compiler/quantize/networks.hpp"

namespace kpu::quantize {
namespace {

using testing::Data;
using testing::Graph;
using testing::Network;
using testing::ValueId;
using Numbers = std::vector<double>;

Numbers numbers_of(const Graph& graph, ValueId id) { return graph::numbers(graph.value(id)); }

void set(Graph& graph, ValueId id, const Numbers& numbers) {
    graph.value(id).data = graph::make_numbers(graph.value(id).elem, numbers);
}

ValueId operand(const Graph& graph, size_t node, size_t input) { return graph.nodes[node].inputs[input]; }

/// Multiplies output channel c of the weights and bias of `maker` by 2^-(c % 8), which every reader takes
/// back.
void make_uneven(Graph& graph, size_t maker, const std::vector<size_t>& readers) {
    const auto part = [](size_t c) { return std::exp2(-double(c % 8)); };
    const ValueId weights = operand(graph, maker, 1), bias = operand(graph, maker, 2);
    const auto channels = size_t(graph.value(bias).elements());
    for (const ValueId id : {weights, bias}) {
        Numbers numbers = numbers_of(graph, id);
        for (size_t i = 0; i < numbers.size(); ++i) numbers[i] *= part(i % channels);
        set(graph, id, numbers);
    }
    for (const size_t reader : readers) {
        const ValueId id = operand(graph, reader, 1);
        const Dims& shape = graph.value(id).shape;
        const auto outputs = size_t(shape[shape.rank - 1U]), inputs = size_t(shape[shape.rank - 2U]);
        const bool depthwise = inputs == 1;
        Numbers numbers = numbers_of(graph, id);
        for (size_t i = 0; i < numbers.size(); ++i)
            numbers[i] /= part((depthwise ? i % outputs : i / outputs % inputs) % channels);
        set(graph, id, numbers);
    }
}

ValueId depthwise(Network& net, ValueId x) {
    const int64_t channels = net.channels(x);
    return net.op(
        "conv2d", {x, net.weights({3, 3, 1, channels}, 0.5), net.weights({channels}, 0.3)},
        {graph::ints("pads", {1, 1, 1, 1}), graph::ints("strides", {1, 1}), graph::ints("dilations", {1, 1}),
         graph::integer("groups", channels), graph::type("accum_type", ElemType::f32)});
}

ValueId relu6(Network& net, ValueId x) {
    return net.op("clamp", {x}, {graph::real("min_val", 0), graph::real("max_val", 6)});
}

/// Nodes: 0 conv, 1 relu, 2 conv, 3 leaky_relu, 4 conv, 5 add, 6 maxpool, 7 reshape, 8 gemm.
Network residual() {
    Network net(5);
    ValueId x = net.op("relu", {net.conv(net.input("image", {1, 8, 8, 3}), 16)});
    const ValueId skip = net.op("leaky_relu", {net.conv(x, 16)}, {graph::real("alpha", 0.1)});
    x = net.op("add", {skip, net.conv(skip, 16)});
    net.output(net.gemm(net.reshape(net.pool("maxpool", x), {1, 256}), 10));
    make_uneven(net.graph, 0, {2});
    return net;
}

/// Nodes: 0 conv, 1 clamp, 2 depthwise, 3 clamp, 4 conv, 5 relu, 6 conv; clamps are reached in some channels.
Network mobile() {
    Network net(9);
    ValueId x = relu6(net, net.conv(net.input("image", {1, 8, 8, 3}), 24));
    x = relu6(net, depthwise(net, x));
    net.output(net.conv(net.op("relu", {net.conv(x, 8)}), 4));
    for (const ValueId id : {operand(net.graph, 0, 1), operand(net.graph, 2, 1)}) {
        Numbers numbers = numbers_of(net.graph, id);
        for (double& number : numbers) number *= 4;
        set(net.graph, id, numbers);
    }
    make_uneven(net.graph, 0, {2});
    make_uneven(net.graph, 2, {4});
    return net;
}

std::vector<std::vector<Data>> images(uint64_t seed, size_t count, double size = 1) {
    std::vector<std::vector<Data>> list;
    for (size_t i = 0; i < count; ++i)
        list.push_back({graph::make_numbers(ElemType::f32, testing::random_numbers(seed + i, 192, size))});
    return list;
}

Graph equalised(const Graph& graph) {
    auto made = equalise_channels(graph, *given_samples(graph, images(1, 8)));
    EXPECT_TRUE(made.has_value());
    graph::check(*made);
    return made.value_or(graph);
}

/// Returns the noise of the outputs on pictures that no sample was.
double noise_db(const Graph& exact, const Graph& other) {
    double noise = 0, signal = 0;
    for (const auto& arrays : images(1000, 16)) {
        const Numbers want = testing::run(exact, arrays), got = testing::run(other, arrays);
        for (size_t i = 0; i < want.size(); ++i) {
            noise += std::pow(got[i] - want[i], 2);
            signal += std::pow(want[i], 2);
        }
    }
    return 10 * std::log10(signal / noise);
}

Graph int8_of(const Graph& graph) { return quantize(graph, *given_samples(graph, images(1, 8)), {}).graph; }

std::vector<std::string> opcodes(const Graph& graph) {
    std::vector<std::string> names;
    for (const graph::Node& node : graph.nodes) names.emplace_back(node.spec().name);
    return names;
}

TEST(Equalise, FloatsStayWhateverTheInput) {
    for (const Network& net : {residual(), mobile()}) {
        const Graph other = equalised(net.graph);
        for (const double size : {0.1, 1.0, 30.0}) {  // the largest reach bounds that no sample does
            for (const auto& arrays : images(77, 4, size)) {
                const Numbers want = testing::run(net.graph, arrays), got = testing::run(other, arrays);
                double most = 0;
                for (const double number : want) most = std::max(most, std::fabs(number));
                for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 2e-6 * most);
            }
        }
    }
}

TEST(Equalise, StepsOfSmallChannelsAreFiner) {
    for (const Network& net : {residual(), mobile()}) {
        const double before = noise_db(net.graph, int8_of(net.graph)),
                     after = noise_db(net.graph, int8_of(equalised(net.graph)));
        EXPECT_GT(after, before + 3);
    }
}

TEST(Equalise, Int8HasTheSameNodes) {
    for (const Network& net : {residual(), mobile()}) {
        const Graph before = int8_of(net.graph), after = int8_of(equalised(net.graph));
        EXPECT_EQ(opcodes(after), opcodes(before));
        for (size_t n = 0; n < after.nodes.size(); ++n) {
            std::vector<std::string> had, has;
            for (const auto& source : before.nodes[n].absorbed) had.push_back(source.name);
            for (const auto& source : after.nodes[n].absorbed) has.push_back(source.name);
            EXPECT_EQ(has, had);
        }
    }
    EXPECT_EQ(testing::find(int8_of(mobile().graph), "clamp"), nullptr);
}

/// Four channels of a depthwise convolution, whose weights have a scale for each channel: only ranges count. The input
/// is 1, so channel c of the first product is its weight, and a relu's range goes to 8.
TEST(Equalise, FactorsAreTwiceThePartOfTheRange) {
    Network net;
    const ValueId first = net.constant({1, 1, 1, 4}, {8, 1, 0.008, 6}),
                  bias = net.constant({4}, {0, 0, 0, 0});
    const auto conv = [&](ValueId x, ValueId weights, ValueId addend, int64_t groups) {
        return net.op("conv2d", {x, weights, addend},
                      {graph::ints("pads", {0, 0, 0, 0}), graph::ints("strides", {1, 1}),
                       graph::ints("dilations", {1, 1}), graph::integer("groups", groups),
                       graph::type("accum_type", ElemType::f32)});
    };
    const ValueId x = net.op("relu", {conv(net.input("image", {1, 2, 2, 1}), first, bias, 1)});
    const ValueId second = net.constant({1, 1, 1, 4}, {0.5, 0.5, 0.5, 0.5});
    net.output(conv(x, second, net.constant({4}, {1, 1, 1, 1}), 4));
    const std::vector<std::vector<Data>> ones(4, {graph::make_numbers(ElemType::f32, Numbers(4, 1))});
    const auto made = equalise_channels(net.graph, *given_samples(net.graph, ones));
    ASSERT_TRUE(made.has_value());
    // parts 1, 1/8, 1/1000, 3/4 of the range: factors 1, 1/4, 1/64 (the least), 1
    EXPECT_EQ(numbers_of(*made, first), (Numbers{8, 4, double(float(0.008)) * 64, 6}));
    EXPECT_EQ(numbers_of(*made, second), (Numbers{0.5, 0.125, 0.5 / 64, 0.5}));
    EXPECT_EQ(numbers_of(*made, operand(net.graph, 2, 2)), Numbers(4, 1));
}

TEST(Equalise, EvenChannelsStay) {
    Network net(3);
    const ValueId x = net.op("relu", {net.conv(net.input("image", {1, 8, 8, 3}), 4, false)});
    net.output(net.conv(x, 4));
    Numbers weights = numbers_of(net.graph, operand(net.graph, 0, 1));
    for (size_t i = 0; i < weights.size(); ++i)
        weights[i] = weights[i / 4 * 4];  // all four channels are the same
    set(net.graph, operand(net.graph, 0, 1), weights);
    EXPECT_FALSE(equalise_channels(net.graph, *given_samples(net.graph, images(1, 8))).has_value());
}

TEST(Equalise, ChannelsAreScaledTogetherAsFarAsFactorsPass) {
    const auto found = channel_classes(residual().graph);
    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(found[0].makers, (std::vector<graph::NodeId>{0}));
    EXPECT_EQ(found[0].readers, (std::vector<graph::NodeId>{2}));
    EXPECT_EQ(found[0].channels, 16);
    // both branches of the sum, through the pool, to the rows of the matrix
    EXPECT_EQ(found[1].makers, (std::vector<graph::NodeId>{2, 4}));
    EXPECT_EQ(found[1].readers, (std::vector<graph::NodeId>{4, 8}));
    EXPECT_EQ(found[1].channels, 16);
}

TEST(Equalise, WhatIsNotHomogeneousOrKeptOrReadOutsideStays) {
    for (const char* const what : {"silu", "softmax", "kept", "output", "clamp"}) {
        Network net(4);
        ValueId x = net.conv(net.input("image", {1, 8, 8, 3}), 16);
        const std::string name = what;
        if (name == "silu") x = net.op("silu", {x});
        if (name == "softmax") x = net.op("softmax", {x}, {graph::integer("axis", 3)});
        if (name == "clamp")  // a bound below 0 moves with the channel
            x = net.op("clamp", {x}, {graph::real("min_val", -1), graph::real("max_val", 1)});
        if (name == "output") net.output(x);
        net.output(net.conv(x, 4));
        if (name == "kept") net.graph.nodes.back().kept = ElemType::f16;
        EXPECT_TRUE(channel_classes(net.graph).empty()) << name;
    }
}

TEST(Equalise, SumsOfIntegersAreNoneOfAClass) {
    Network net(6);
    const ValueId ids = net.graph.add_input("ids", ElemType::i32, graph::dims({1, 4}));
    net.graph.outputs.push_back(
        {"next",
         net.graph.add_node("add", {ids, ids}, {}, {{"sum", "add"}, "sum", ElemType::i32, {}}),
         ElemType::i32,
         {},
         {}});
    EXPECT_TRUE(channel_classes(net.graph).empty());
}

TEST(Equalise, BoundsNeedTheDevicesMin) {
    const graph::Supports no_min = [](std::string_view opcode, const auto&, const auto&) {
        return opcode != "min";
    };
    const Network net = mobile();
    const auto made = equalise_channels(net.graph, *given_samples(net.graph, images(1, 8)), no_min);
    EXPECT_EQ(testing::find(made.value_or(net.graph), "min"), nullptr);
    EXPECT_NE(testing::find(made.value_or(net.graph), "clamp"), nullptr);
}

}  // namespace
}  // namespace kpu::quantize
