// Biases take back the shift of means that rounding makes; nodes that are kept stay floats among int8 ones.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/compiler/quantize/networks.hpp"

namespace kpu::quantize {
namespace {

using testing::Data;
using testing::Graph;
using testing::Network;
using testing::ValueId;

constexpr int64_t classes = 10;

/// Its activations have means far from 0, so that rounded weights shift what comes of them.
Network classifier(uint64_t seed) {
    Network net(seed);
    ValueId x = net.input("image", {1, 8, 8, 3});
    x = net.op("relu", {net.conv(x, 16)});
    x = net.op("relu", {net.conv(x, 16)});
    x = net.reshape(net.pool("maxpool", x), {1, 256});
    net.output(net.gemm(x, classes));
    return net;
}

std::vector<std::vector<Data>> pictures(uint64_t seed, size_t count) {
    std::vector<std::vector<Data>> list;
    for (size_t i = 0; i < count; ++i) {
        std::vector<double> numbers = testing::random_numbers(seed + i, 192);
        for (double& number : numbers) number += 0.7;
        list.push_back({graph::make_numbers(ElemType::f32, numbers)});
    }
    return list;
}

std::vector<float> outputs(const Graph& graph, const std::vector<Data>& arrays) {
    const auto engine = values::make_fast_backend();
    const Data made = graph::run_on_host(graph, *engine, arrays)[0];
    const auto* numbers = reinterpret_cast<const float*>(made.bytes);
    return {numbers, numbers + made.size / sizeof(float)};
}

/// Returns the square of the mean error of each output over many pictures.
double shift(const Graph& exact, const Graph& int8) {
    std::vector<double> means(classes, 0);
    const auto others = pictures(1000, 64);
    for (const auto& arrays : others) {
        const std::vector<float> want = outputs(exact, arrays), got = outputs(int8, arrays);
        for (size_t c = 0; c < means.size(); ++c)
            means[c] += (got[c] - want[c]) / static_cast<double>(others.size());
    }
    double sum = 0;
    for (const double mean : means) sum += mean * mean;
    return sum;
}

TEST(CorrectBias, MeansOfOtherPicturesShiftLess) {
    double before = 0, after = 0;
    for (uint64_t seed = 1; seed <= 6; ++seed) {
        const Network net = classifier(seed);
        const auto samples = given_samples(net.graph, pictures(10 * seed, 8));
        const auto ranges = checked_ranges(net.graph, *samples, {});
        before += shift(net.graph, quantize(net.graph, ranges, {}).graph);
        after += shift(net.graph, quantize(net.graph, ranges, {}, samples.get()).graph);
    }
    EXPECT_LT(after, before / 4);
    EXPECT_GT(after, 0);
}

TEST(CorrectBias, RandomSamplesCorrectNothing) {
    const Network net = classifier(1);
    const auto samples = testing::samples_of(net.graph);
    const auto ranges = checked_ranges(net.graph, *samples, {});
    EXPECT_EQ(shift(net.graph, quantize(net.graph, ranges, {}).graph),
              shift(net.graph, quantize(net.graph, ranges, {}, samples.get()).graph));
}

TEST(Keep, NodesThatAreKeptHaveTheirTypeBetweenConversions) {
    Network net = classifier(3);
    const size_t second = 2;
    ASSERT_EQ(net.graph.nodes[second].spec().name, "conv2d");
    net.graph.nodes[second].kept = ElemType::f32;
    const auto samples = given_samples(net.graph, pictures(1, 8));
    const Graph mixed = quantize(net.graph, *samples, {}).graph;
    graph::check(mixed);
    std::string types;
    for (const graph::Node& node : mixed.nodes) {
        if (node.spec().name == "conv2d" || node.spec().op_class == OpcodeClass::convert)
            types += std::string(node.spec().name) + ":" +
                     std::string(name_of(mixed.value(node.outputs[0]).elem)) + " ";
    }
    EXPECT_EQ(types.substr(0, types.find("quantize:i8")), "conv2d:i8 dequantize:f32 conv2d:f32 cast:f16 ");
    net.graph.nodes[second].kept = ElemType::none;
    const Graph int8 = quantize(net.graph, *samples, {}).graph;
    EXPECT_LT(shift(net.graph, mixed), 1);
    double narrow = 0, wide = 0;
    for (const auto& arrays : pictures(500, 8)) {
        const auto want = outputs(net.graph, arrays), got = outputs(int8, arrays),
                   kept = outputs(mixed, arrays);
        for (size_t c = 0; c < want.size(); ++c) {
            narrow += std::pow(got[c] - want[c], 2);
            wide += std::pow(kept[c] - want[c], 2);
        }
    }
    EXPECT_LT(wide, narrow);
}

}  // namespace
}  // namespace kpu::quantize
