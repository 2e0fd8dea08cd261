#include <gmock/gmock.h>

#include "tests/compiler/passes/random_graphs.hpp"

namespace kpu::passes {
namespace {

using namespace testing;

/// Returns a convolution of 7 x 10 pixels, NHWC; what the pass makes of it, checked by values.
Graph converted(int64_t channels, int64_t kernel, int64_t stride, int64_t pad) {
    Builder b(1);
    const ValueId x = b.graph.add_input("x", ElemType::f32, graph::dims({2, 7, 10, channels}));
    const ValueId w = random_constant(b.graph, b.random, {kernel, kernel, channels, 8});
    output(b.graph, b.node("conv2d", {x, w},
                           graph::attributes({graph::ints("pads", {pad, pad, pad, pad}),
                                              graph::ints("strides", {stride, stride}),
                                              graph::ints("dilations", {1, 1}), graph::integer("groups", 1),
                                              graph::type("accum_type", ElemType::f32)})));
    Random inputs_of(2);
    const auto inputs = random_inputs(b.graph, inputs_of);
    const auto before = outputs_of(b.graph, inputs);
    read_strided(b.graph, options());
    graph::check(b.graph);
    EXPECT_EQ(difference(before, outputs_of(b.graph, inputs)), 0);
    return std::move(b.graph);
}

TEST(StridedReads, TakeThePixelsThatAreUsed) {
    const Graph graph = converted(16, 1, 2, 0);
    ASSERT_EQ(opcodes_of(graph), "slice conv2d");
    EXPECT_THAT(find(graph, "conv2d").attrs.find("strides")->ints, ::testing::ElementsAre(1, 1));
    EXPECT_EQ(graph.value(find(graph, "conv2d").inputs[0]).shape, graph::dims({2, 4, 5, 16}));
    EXPECT_EQ(opcodes_of(converted(16, 1, 3, 0)), "slice conv2d");
}

TEST(StridedReads, StayWhereAllPixelsAreUsedOrRowsWouldBeShort) {
    EXPECT_EQ(opcodes_of(converted(16, 1, 1, 0)), "conv2d");
    EXPECT_EQ(opcodes_of(converted(16, 3, 2, 0)), "conv2d");
    EXPECT_EQ(opcodes_of(converted(16, 1, 2, 1)), "conv2d");
    EXPECT_EQ(opcodes_of(converted(15, 1, 2, 0)), "conv2d");
}

}  // namespace
}  // namespace kpu::passes
