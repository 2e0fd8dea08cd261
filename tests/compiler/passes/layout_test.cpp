#include <gmock/gmock.h>

#include "compiler/passes/layouts/layouts.hpp"
#include "tests/compiler/passes/random_graphs.hpp"

namespace kpu::passes {
namespace {

using namespace testing;
using graph::attributes;
using graph::ints;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Runs the pass; the outputs on the host must not change by more than roundings.
void lay_out(Graph& graph, bool host_layout = true) {
    Random random(11);
    const auto inputs = random_inputs(graph, random);
    const auto before = outputs_of(graph, inputs);
    Options how = options();
    how.host_layout = host_layout;
    assign_layouts(graph, how);
    EXPECT_LE(difference(before, outputs_of(graph, inputs)), 1e-6) << to_text(graph);
}

TEST(Layout, ANetworkOfConvsHasNoTransposeLeft) {
    Builder b(1);
    const ValueId x = b.graph.add_input("image", ElemType::f32, graph::dims({1, 3, 8, 8}));
    ValueId y = b.node("relu", {b.conv(x, 4, 3, 1)});
    const ValueId before = y;
    y = b.pool(b.node("relu", {b.batch_norm(b.conv(b.node("add", {b.conv(y, 4, 3, 1), before}), 6, 3, 1))}),
               "maxpool");
    output(b.graph, b.conv(y, 2, 1, 1));
    lay_out(b.graph);
    EXPECT_EQ(count(b.graph, "transpose"), 0u) << to_text(b.graph);
    EXPECT_EQ(count(b.graph, "reshape"), 0u);
    EXPECT_THAT(b.graph.inputs[0].perm, ElementsAre(0, 3, 1, 2));
    EXPECT_THAT(b.graph.outputs[0].perm, ElementsAre(0, 3, 1, 2));
    EXPECT_EQ(host_shape(b.graph, b.graph.inputs[0]), graph::dims({1, 3, 8, 8}));
    EXPECT_EQ(b.graph.value(b.graph.inputs[0].value).shape, graph::dims({1, 8, 8, 3}));
}

TEST(Layout, TransposesOfTheHostStayWhenItKeepsItsOrder) {
    Builder b(1);
    const ValueId x = b.graph.add_input("image", ElemType::f32, graph::dims({1, 3, 8, 8}));
    output(b.graph, b.conv(b.node("relu", {b.conv(x, 4, 3, 1)}), 2, 1, 1));
    lay_out(b.graph, false);
    EXPECT_EQ(opcodes_of(b.graph), "transpose conv2d relu conv2d transpose");
    EXPECT_THAT(b.graph.inputs[0].perm, IsEmpty());
}

TEST(Layout, FollowsAxes) {
    Builder b(1);
    const ValueId x = b.graph.add_input("image", ElemType::f32, graph::dims({2, 3, 4, 6}));
    const ValueId y = b.conv(x, 4, 3, 1);
    ValueId z = b.node("concat", {y, b.node("tanh", {y})}, attributes({graph::integer("axis", 1)}));
    z = b.node("pad", {z},
               attributes({ints("pads", {0, 1, 2, 3, 0, 0, 0, 1}), graph::word("mode", "constant")}));
    z = b.node("slice", {z},
               attributes({ints("starts", {1, 0}), ints("ends", {9, 4}), ints("axes", {1, -1}),
                           ints("steps", {2, 1})}));
    z = b.node("softmax", {z}, attributes({graph::integer("axis", 1)}));
    z = b.node("reduce_sum", {z}, attributes({ints("axes", {2}), graph::integer("keepdims", 1)}));
    output(b.graph, b.conv(z, 2, 1, 1));
    lay_out(b.graph);
    EXPECT_EQ(count(b.graph, "transpose"), 0u) << to_text(b.graph);
    EXPECT_EQ(find(b.graph, "concat").attrs.integer("axis", 0), 3);
    EXPECT_EQ(find(b.graph, "softmax").attrs.integer("axis", 0), 3);
    EXPECT_THAT(find(b.graph, "pad").attrs.find("pads")->ints, ElementsAre(0, 2, 3, 1, 0, 0, 1, 0));
    EXPECT_THAT(find(b.graph, "slice").attrs.find("axes")->ints, ElementsAre(3, 2));
    EXPECT_THAT(find(b.graph, "reduce_sum").attrs.find("axes")->ints, ElementsAre(1));
}

TEST(Layout, ResizedPicturesFollow) {
    for (const char* mode : {"nearest", "linear"}) {
        Builder b(1);
        const ValueId x = b.graph.add_input("image", ElemType::f32, graph::dims({1, 3, 8, 6}));
        BoundAttr scales;
        scales.name = "scales";
        scales.reals = {1, 1, 2, 1.5};
        const ValueId y =
            b.node("resize", {b.conv(x, 4, 3, 1)},
                   attributes({ints("sizes", {1, 4, 16, 9}), graph::word("mode", mode), scales}));
        output(b.graph,
               b.conv(b.node("concat", {y, b.node("tanh", {y})}, attributes({graph::integer("axis", 1)})), 2,
                      3, 1));
        lay_out(b.graph);
        EXPECT_EQ(opcodes_of(b.graph), "conv2d resize tanh concat conv2d");
    }
}

TEST(Layout, TransposesPassReshapesOfNeighbours) {
    Builder b(1);
    std::vector<ValueId> heads;
    const ValueId x = b.graph.add_input("image", ElemType::f32, graph::dims({1, 3, 8, 6}));
    for (const int64_t pixels : {48, 12}) {
        const ValueId y = b.conv(pixels == 48 ? x : b.pool(x, "maxpool"), 12, 3, 1);
        heads.push_back(b.node("reshape", {y}, attributes({ints("target_shape", {1, 12, pixels})})));
    }
    ValueId y = b.node("concat", heads, attributes({graph::integer("axis", 2)}));
    y = b.node("reshape", {y}, attributes({ints("target_shape", {1, 3, 4, 60})}));
    y = b.node("softmax", {y}, attributes({graph::integer("axis", 2)}));
    y = b.node("reduce_sum", {b.node("mul", {y, y})},
               attributes({ints("axes", {2}), graph::integer("keepdims", 0)}));
    output(b.graph, b.node("tanh", {y}));
    lay_out(b.graph);
    EXPECT_EQ(count(b.graph, "transpose"), 0u) << to_text(b.graph);
    EXPECT_EQ(b.graph.value(b.graph.outputs[0].value).shape, graph::dims({1, 60, 3}));
    EXPECT_THAT(b.graph.outputs[0].perm, ElementsAre(0, 2, 1));
}

TEST(Layout, ActivationsOfJoinedProductsJoinTheProducts) {
    for (const bool shared : {false, true}) {
        Builder b(1);
        const ValueId x = b.graph.add_input("image", ElemType::f32, graph::dims({1, 3, 8, 6}));
        std::vector<ValueId> heads;
        for (const int64_t channels : {4, 12}) {
            const ValueId y = b.conv(x, channels, 3, 1);
            heads.push_back(b.node("reshape", {y}, attributes({ints("target_shape", {1, channels, 48})})));
        }
        const ValueId joined = b.node("concat", heads, attributes({graph::integer("axis", 1)}));
        output(b.graph, b.node("sigmoid", {joined}));
        if (shared) output(b.graph, b.node("tanh", {heads[0]}));  // the part has another reader
        Random random(11);
        const auto inputs = random_inputs(b.graph, random);
        const auto before = outputs_of(b.graph, inputs);
        run_passes(b.graph, options(), Stage::rewrite);
        EXPECT_LE(difference(before, outputs_of(b.graph, inputs)), 1e-6) << to_text(b.graph);
        EXPECT_EQ(count(b.graph, "sigmoid"), shared ? 1u : 2u) << to_text(b.graph);
    }
}

TEST(Layout, TransposesDoNotPassReshapesOfOthers) {
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{1, 32, 6}, {24, 8}}) {
        Builder b(1);
        const ValueId x = b.graph.add_input("image", ElemType::f32, graph::dims({1, 3, 8, 6}));
        const ValueId y = b.conv(x, 4, 3, 1);
        output(b.graph, b.node("tanh", {b.node("reshape", {y}, attributes({ints("target_shape", shape)}))}));
        lay_out(b.graph);
        EXPECT_EQ(count(b.graph, "transpose"), 1u) << to_text(b.graph);
    }
}

TEST(Layout, SplitsAndTheirPartsFollow) {
    Builder b(1);
    const ValueId x = b.graph.add_input("image", ElemType::f32, graph::dims({1, 3, 4, 4}));
    const ValueId y = b.conv(x, 6, 3, 1);
    const ValueId first =
        b.node("split", {y}, attributes({graph::integer("axis", 1), ints("split_sizes", {2, 4})}));
    output(b.graph, b.conv(first, 3, 1, 1));
    output(b.graph, b.conv(b.node("relu", {first + 1}), 3, 1, 1));
    lay_out(b.graph);
    EXPECT_EQ(count(b.graph, "transpose"), 0u) << to_text(b.graph);
    EXPECT_EQ(find(b.graph, "split").attrs.integer("axis", 0), 3);
}

TEST(Layout, ConstantsAreTransposedAtCompileTime) {
    Builder b(1);
    const ValueId x = b.graph.add_input("image", ElemType::f32, graph::dims({1, 3, 4, 6}));
    ValueId y = b.node("mul", {b.conv(x, 5, 3, 1), random_constant(b.graph, b.random, {5, 4, 6})});
    y = b.node("add", {random_constant(b.graph, b.random, {1, 5, 4, 6}), y});
    y = b.node("sub", {y, random_constant(b.graph, b.random, {5, 1, 1})});
    output(b.graph, b.conv(y, 2, 1, 1));
    lay_out(b.graph);
    EXPECT_EQ(opcodes_of(b.graph), "conv2d mul add sub conv2d");
    EXPECT_EQ(b.graph.value(find(b.graph, "mul").inputs[1]).shape, graph::dims({1, 4, 6, 5}));
    EXPECT_EQ(b.graph.value(find(b.graph, "sub").inputs[1]).shape, graph::dims({1, 1, 1, 5}));
}

TEST(Layout, FlattenedImagesGoIntoTheWeights) {
    Builder b(1);
    const ValueId x = b.graph.add_input("image", ElemType::f32, graph::dims({2, 1, 4, 6}));
    const ValueId y = b.node("relu", {b.conv(x, 3, 3, 1)});
    output(b.graph, b.linear(b.reshape(y, {2, -1}), 5));
    lay_out(b.graph);
    EXPECT_EQ(opcodes_of(b.graph), "conv2d relu reshape matmul add") << to_text(b.graph);
}

TEST(Layout, MeansOfPixelsNeedNoTranspose) {
    for (const bool keep : {true, false}) {
        Builder b(1);
        const ValueId x = b.graph.add_input("image", ElemType::f32, graph::dims({2, 3, 4, 6}));
        const ValueId pooled = b.mean_of_pixels(b.conv(x, 8, 3, 1), keep);
        output(b.graph, b.linear(keep ? b.reshape(pooled, {2, 8}) : pooled, 5));
        lay_out(b.graph);
        EXPECT_EQ(count(b.graph, "transpose"), 0u) << to_text(b.graph);
    }
}

TEST(Layout, MovesTransposesToWhereLessIsMoved) {
    Builder b(1);
    const ValueId x = b.graph.add_input("x", ElemType::f32, graph::dims({8, 8, 8, 8}));
    // [8,8,8,8] transposed, then a slice of one eighth, then something that does not move
    ValueId y = b.transpose(b.reshape(x, {4, 16, 8, 8}), {0, 3, 1, 2});
    y = b.node("slice", {y},
               attributes({ints("starts", {0}), ints("ends", {1}), ints("axes", {1}), ints("steps", {1})}));
    output(b.graph, b.reshape(b.node("exp", {y}), {4, 128}));
    EXPECT_EQ(moved(b.graph), 4096u);
    lay_out(b.graph, false);
    EXPECT_EQ(count(b.graph, "transpose"), 0u) << to_text(b.graph);  // one column: only sizes of 1 move
}

TEST(Layout, SumsKeepTheirOrder) {
    // rows before columns in the sum: the order [0,3,2,1] would sum up the other way round
    Builder b(1);
    const ValueId x = b.graph.add_input("x", ElemType::f32, graph::dims({2, 5, 6, 7}));
    const ValueId y = b.transpose(b.reshape(x, {2, 7, 6, 5}), {0, 3, 2, 1});
    output(b.graph, b.node("reduce_sum", {b.node("exp", {y})},
                           attributes({ints("axes", {1, 2, 3}), graph::integer("keepdims", 1)})));
    Random random(3);
    const auto inputs = random_inputs(b.graph, random);
    const auto before = outputs_of(b.graph, inputs);
    assign_layouts(b.graph, options());
    EXPECT_EQ(difference(before, outputs_of(b.graph, inputs)), 0);
}

TEST(Layout, ScalesOfChannelsMoveAlong) {
    Graph graph;
    BoundQuant channels;
    channels.kind = proto::Quant::PER_CHANNEL;
    channels.axis = 1;
    channels.scales = {1, 2, 4};
    channels.zero_points = {0, 0, 0};
    const ValueId x = graph.add_input("x", ElemType::f32, graph::dims({1, 4, 5, 3}));
    graph::NodeOptions step = named("t");
    const ValueId t = graph.add_node("transpose", {x}, attributes({ints("perm", {0, 3, 1, 2})}), step);
    step = named("q");
    step.elem = ElemType::i8;
    step.quant = channels;
    const ValueId q = graph.add_node("quantize", {t}, {}, step);
    step = named("d");
    step.elem = ElemType::f32;
    const ValueId d = graph.add_node("dequantize", {q}, {}, step);
    output(graph, graph.add_node("transpose", {d}, attributes({ints("perm", {0, 2, 3, 1})}), named("back")));
    output(graph, graph.add_node("reshape", {x}, attributes({ints("target_shape", {60})}), named("fixed")));
    lay_out(graph);
    EXPECT_EQ(count(graph, "transpose"), 0u) << to_text(graph);
    EXPECT_EQ(graph.value(find(graph, "quantize").outputs[0]).quant.axis, 3);
}

TEST(Layout, OneInputInTwoOrdersIsTransposedOnce) {
    Builder b(1);
    const ValueId x = b.graph.add_input("x", ElemType::f32, graph::dims({2, 3, 4, 5}));
    output(b.graph, b.conv(x, 2, 1, 1));
    output(b.graph, b.reshape(x, {120}));
    lay_out(b.graph);
    EXPECT_EQ(count(b.graph, "transpose"), 1u);
}

TEST(Layout, VanishedTransposesAreCharged) {
    Builder b(1);
    const ValueId x = b.graph.add_input("x", ElemType::f32, graph::dims({1, 3, 4, 4}));
    output(b.graph, b.conv(x, 2, 3, 1));
    lay_out(b.graph);
    ASSERT_EQ(opcodes_of(b.graph), "conv2d");
    EXPECT_THAT(absorbed(b.graph.nodes[0]), ElementsAre("transpose_0", "transpose_2"));
}

}  // namespace
}  // namespace kpu::passes
