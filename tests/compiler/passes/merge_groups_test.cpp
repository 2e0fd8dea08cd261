// Small groups of convolutions, side by side in one: the same bits, in fewer cycles of an array.
#include <gmock/gmock.h>

#include "compiler/graph/data.hpp"
#include "isa/shapes.hpp"
#include "tests/compiler/passes/random_graphs.hpp"

namespace kpu::passes {
namespace {

using namespace testing;
using graph::attributes;
using graph::integer;
using graph::ints;

uint64_t macs_of(const Graph& graph) {
    uint64_t sum = 0;
    for (const Node& node : graph.nodes) {
        if (node.spec().macs != nullptr)
            sum += node.spec().macs(graph.value(node.inputs[0]).shape, graph.value(node.inputs[1]).shape,
                                    graph.value(node.outputs[0]).elements(), node.attrs);
    }
    return sum;
}

/// A convolution with a bias; groups 0: of a depthwise one.
struct Case {
    const char* opcode;
    std::vector<int64_t> x, w;
    int64_t groups;
};

/// Returns what the pass makes of it: values and work are checked.
Node merged(const Case& of, const Options& how) {
    Builder b{3};
    const size_t spatial = of.x.size() - 2;
    const ValueId x = b.graph.add_input("x", ElemType::f32, graph::dims(of.x));
    const ValueId w = random_constant(b.graph, b.random, of.w),
                  bias = random_constant(b.graph, b.random, {of.w.back()});
    BoundAttrs attrs = attributes({ints("pads", std::vector<int64_t>(2 * spatial, 1)),
                                   ints("strides", std::vector<int64_t>(spatial, 2)),
                                   ints("dilations", std::vector<int64_t>(spatial, 1)),
                                   graph::type("accum_type", ElemType::f32)});
    if (of.groups > 0) attrs.list.push_back(integer("groups", of.groups));
    output(b.graph, b.node(of.opcode, {x, w, bias}, attrs));
    Random inputs_of(5);
    const auto inputs = random_inputs(b.graph, inputs_of);
    const auto before = outputs_of(b.graph, inputs);
    const uint64_t macs = macs_of(b.graph);
    merge_groups(b.graph, how);
    graph::check(b.graph);
    EXPECT_EQ(macs_of(b.graph), macs) << "zeros are no work";
    EXPECT_EQ(difference(before, outputs_of(b.graph, inputs)), 0);
    return b.graph.nodes[0];
}

void expect_merged(const Case& of, const Options& how, int64_t groups, int64_t blocks) {
    const Node node = merged(of, how);
    EXPECT_EQ(blocks > 1 ? node.attrs.integer("groups", 1) : groups, groups) << of.opcode;
    EXPECT_EQ(node.attrs.integer("blocks", 1), blocks) << of.opcode;
}

// Nine taps of a group fill nine of 32 rows: four groups fill them all, and more are no faster.
TEST(MergeGroups, TakesTheFewestThatFillTheArray) {
    const Case depthwise{"depthwise_conv2d", {1, 16, 16, 24}, {3, 3, 1, 24}, 0};
    expect_merged(depthwise, options_of_array(32), 6, 4);
    expect_merged(depthwise, options_of_array(128), 1, 24);  // 216 cycles, two of 12 take 128 each
    expect_merged(depthwise, options_of_array(8), 24, 1);
    EXPECT_EQ(merged(depthwise, options_of_array(8)).spec().name, "depthwise_conv2d");
    EXPECT_EQ(merged(depthwise, options_of_array(32)).spec().name, "conv2d");
}

TEST(MergeGroups, OfAnyRankAndMultiplier) {
    expect_merged({"conv2d", {2, 9, 7, 24}, {3, 3, 2, 36}, 12}, options_of_array(64), 3, 4);
    expect_merged({"depthwise_conv2d", {1, 9, 9, 6}, {3, 3, 1, 18}, 0}, options_of_array(64), 1, 6);
    expect_merged({"conv1d", {1, 40, 16}, {4, 1, 16}, 16}, options_of_array(32), 2, 8);
    expect_merged({"conv3d", {1, 5, 5, 5, 8}, {2, 2, 2, 1, 8}, 8}, options_of_array(32), 2, 4);
    expect_merged({"conv2d", {1, 9, 9, 24}, {3, 3, 24, 8}, 1}, options_of_array(64), 1, 1);
}

// 29 channels have no divisor: five times five groups, and four.
TEST(MergeGroups, WhatIsLeftIsAConvolutionOfItsOwn) {
    for (const char* opcode : {"depthwise_conv2d", "conv2d"}) {
        Builder b{7};
        const bool depthwise = std::string_view(opcode) == "depthwise_conv2d";
        const ValueId x = b.graph.add_input("x", ElemType::f32, graph::dims({2, 9, 7, 29}));
        const ValueId w = random_constant(b.graph, b.random, {3, 3, 1, 58}),
                      bias = random_constant(b.graph, b.random, {58});
        BoundAttrs attrs = attributes({ints("pads", {1, 1, 1, 1}), ints("strides", {1, 1}),
                                       ints("dilations", {1, 1}), graph::type("accum_type", ElemType::f32)});
        if (!depthwise) attrs.list.push_back(integer("groups", 29));
        output(b.graph, b.node("relu", {b.node(opcode, {x, w, bias}, attrs)}));
        Random inputs_of(5);
        const auto inputs = random_inputs(b.graph, inputs_of);
        const auto before = outputs_of(b.graph, inputs);
        const uint64_t macs = macs_of(b.graph);
        merge_groups(b.graph, options_of_array(32));
        EXPECT_EQ(macs_of(b.graph), macs);
        EXPECT_EQ(difference(before, outputs_of(b.graph, inputs)), 0);
        EXPECT_EQ(opcodes_of(b.graph), "slice conv2d slice conv2d concat relu");
        EXPECT_EQ(b.graph.nodes[1].attrs.integer("blocks", 1), 5);
        EXPECT_EQ(b.graph.nodes[1].attrs.integer("groups", 1), 5);
        EXPECT_EQ(b.graph.nodes[3].attrs.integer("blocks", 1), 4);
    }
}

// Zeros have weight: with a slow memory fewer groups, or none.
TEST(MergeGroups, WeighsTheBytesOfZeros) {
    const Case small{"depthwise_conv2d", {1, 4, 4, 64}, {3, 3, 1, 64}, 0};
    Options slow = options_of_array(128);
    expect_merged(small, slow, 4, 16);
    slow.ddr_bytes_per_cycle = 0.1;
    expect_merged(small, slow, 64, 1);
}

// A device without the other opcode in these types keeps what it has, and one that is not known too.
TEST(MergeGroups, NeedsTheDevice) {
    const Case depthwise{"depthwise_conv2d", {1, 16, 16, 24}, {3, 3, 1, 24}, 0};
    Options how = options_of_array(32);
    how.supports = [](std::string_view opcode, auto&&...) { return opcode != "conv2d"; };
    EXPECT_EQ(merged(depthwise, how).spec().name, "depthwise_conv2d");
    EXPECT_EQ(merged(depthwise, options()).spec().name, "depthwise_conv2d");
}

// Weights that are computed, and such whose zero is another number, are left alone.
TEST(MergeGroups, NeedsConstantsWithPlainZeros) {
    for (const int zero : {0, 3}) {
        Builder b{4};
        Graph& g = b.graph;
        BoundQuant steps, channels;
        steps.kind = proto::Quant::PER_TENSOR;
        steps.scales = {0.01};
        steps.zero_points = {7};
        channels.kind = proto::Quant::PER_CHANNEL;
        channels.axis = 3;
        channels.zero_points.assign(12, zero);
        std::vector<double> numbers;
        for (int i = 0; i < 3 * 3 * 12; ++i)
            numbers.push_back(static_cast<double>(pick(b.random, -127, 127)));
        for (int c = 0; c < 12; ++c) channels.scales.push_back(0.002 + 0.0001 * c);
        const ValueId x = g.add_input("x", ElemType::f32, graph::dims({1, 9, 8, 12}));
        const ValueId q = g.add_node("quantize", {x}, {}, {{"q", "QuantizeLinear"}, {}, ElemType::i8, steps});
        const ValueId w = g.add_constant("w", ElemType::i8, graph::dims({3, 3, 1, 12}),
                                         graph::make_numbers(ElemType::i8, numbers), channels);
        const BoundAttrs attrs =
            attributes({ints("pads", {1, 1, 1, 1}), ints("strides", {1, 1}), ints("dilations", {1, 1}),
                        integer("groups", 12), graph::type("accum_type", ElemType::i32)});
        const ValueId y = g.add_node("conv2d", {q, w}, attrs, {{"c", "Conv"}, {}, ElemType::i8, steps});
        output(g, g.add_node("dequantize", {y}, {}, {{"d", "DequantizeLinear"}, {}, ElemType::f32, {}}));
        Random inputs_of(5);
        const auto inputs = random_inputs(g, inputs_of);
        const auto before = outputs_of(g, inputs);
        merge_groups(g, options_of_array(32));
        EXPECT_EQ(difference(before, outputs_of(g, inputs)), 0);
        EXPECT_EQ(g.nodes[1].attrs.integer("blocks", 1), zero == 0 ? 4 : 1);
        EXPECT_EQ(graph::numbers(g.value(g.nodes[1].inputs[1])).size(), zero == 0 ? 3u * 3 * 4 * 12 : 108u);
    }
    Builder b{6};
    const ValueId x = b.graph.add_input("x", ElemType::f32, graph::dims({1, 9, 8, 12}));
    const ValueId w = b.node("relu", {b.graph.add_input("w", ElemType::f32, graph::dims({3, 3, 1, 12}))});
    output(b.graph,
           b.node("conv2d", {x, w},
                  attributes({ints("pads", {1, 1, 1, 1}), ints("strides", {1, 1}), ints("dilations", {1, 1}),
                              integer("groups", 12), graph::type("accum_type", ElemType::f32)})));
    merge_groups(b.graph, options_of_array(32));
    EXPECT_EQ(b.graph.nodes[1].attrs.integer("blocks", 1), 1);
}

}  // namespace
}  // namespace kpu::passes
