// Errors of outputs are measured by the parts that they are joined of.
#include "compiler/precision/yardstick.hpp"

#include <gtest/gtest.h>

#include "compiler/precision/parts.hpp"
#include "tests/compiler/quantize/networks.hpp"

namespace kpu::precision {
namespace {

using graph::Graph;
using graph::ValueId;
using quantize::testing::Network;
using Numbers = std::vector<double>;

/// Boxes of the size of 100 beside two numbers below 1, as the host sees them: [1, 3, 2]. `more`: added to boxes and to others.
Graph detector(double box_error, double other_error) {
    Network net;
    const ValueId x = net.input("x", {1, 2, 1});
    const ValueId boxes =
        net.op("add", {net.op("mul", {x, net.constant({1}, {100})}), net.constant({1}, {box_error})});
    const ValueId others = net.op("concat", {x, net.op("add", {x, net.constant({1}, {other_error})})},
                                  {graph::integer("axis", 2)});
    const ValueId joined =
        net.op("concat", {boxes, net.reshape(others, {1, 2, 2})}, {graph::integer("axis", 2)});
    net.output(joined);
    net.graph.outputs[0].perm = {0, 2, 1};
    return net.graph;
}

const std::vector<std::vector<graph::Data>> inputs(4, {graph::make_numbers(ElemType::f32, {0.5, 0.5})});

TEST(Parts, HaveTheNumberOfWhatConcatJoins) {
    const auto engine = values::make_fast_backend();
    const Graph graph = detector(0, 0);
    EXPECT_EQ(parts_of_output(graph, graph.outputs[0], *engine), (std::vector<size_t>{0, 0, 1, 1, 2, 2}));
}

TEST(Parts, WhatIsNotJoinedIsOne) {
    Network net;
    net.output(net.gemm(net.input("x", {1, 4}), 3));
    const auto engine = values::make_fast_backend();
    EXPECT_EQ(parts_of_output(net.graph, net.graph.outputs[0], *engine), (std::vector<size_t>{0, 0, 0}));
}

TEST(Yardstick, TheWorstPartCountsByItsOwnPower) {
    const Graph exact = detector(0, 0);
    const auto samples = quantize::given_samples(exact, inputs);
    const Yardstick yardstick(exact, *samples, 4);
    EXPECT_EQ(yardstick.noise(exact), 0);
    EXPECT_NEAR(yardstick.noise(detector(0.5, 0)), 0.25 / 2500, 1e-9);     // boxes are 50
    EXPECT_NEAR(yardstick.noise(detector(0, 0.05)), 0.0025 / 0.25, 1e-6);  // the others 0.5
    EXPECT_NEAR(yardstick.noise(detector(0.5, 0.05)), 0.0025 / 0.25, 1e-6);
}

/// A part of zeros has no power of its own: that of the whole output counts.
TEST(Yardstick, PartsOfZerosAreJudgedBesideTheOthers) {
    const auto made = [](double error) {
        Network net;
        const ValueId x = net.input("x", {1, 2});
        const ValueId zeros = net.op("mul", {x, net.constant({1}, {0})});
        net.output(net.op("concat", {x, net.op("add", {zeros, net.constant({1}, {error})})},
                          {graph::integer("axis", 1)}));
        return net.graph;
    };
    const Graph exact = made(0);
    const auto samples = quantize::given_samples(exact, inputs);
    EXPECT_NEAR(Yardstick(exact, *samples, 4).noise(made(0.1)), 0.02 / 0.5, 1e-6);
}

}  // namespace
}  // namespace kpu::precision
