// Batch norm and bias go into products.
#include <gmock/gmock.h>

#include "tests/compiler/passes/random_graphs.hpp"

namespace kpu::passes {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

Graph conv_bn_relu(uint64_t seed, bool depthwise) {
    Builder b(seed);
    const ValueId x = b.graph.add_input("x", ElemType::f32, graph::dims({1, 4, 6, 6}));
    output(b.graph, b.node("relu", {b.batch_norm(b.conv(x, 5, 3, 1, depthwise))}));
    return std::move(b.graph);
}

TEST(Passes, ConvBatchNormReluIsOneGroupWithOneConv) {
    for (const bool depthwise : {false, true}) {
        Graph graph = conv_bn_relu(4, depthwise);
        Random random(1);
        const auto inputs = random_inputs(graph, random);
        const auto before = outputs_of(graph, inputs);
        for (const Stage stage : {Stage::rewrite, Stage::types, Stage::schedule})
            run_passes(graph, options(), stage);
        ASSERT_EQ(opcodes_of(graph), depthwise ? "depthwise_conv2d relu" : "conv2d relu");
        EXPECT_EQ(graph.nodes[0].inputs.size(), 3u);
        EXPECT_EQ(graph.nodes[0].group, 1u);
        EXPECT_EQ(graph.nodes[1].group, 1u);
        EXPECT_TRUE(graph.nodes[0].anchor);
        EXPECT_FALSE(graph.nodes[1].anchor);
        EXPECT_EQ(graph.nodes[0].source.type, depthwise ? "depthwise_conv2d" : "conv2d");
        std::vector<std::string> gone = absorbed(graph.nodes[0]);
        for (const std::string& name : absorbed(graph.nodes[1])) gone.push_back(name);
        EXPECT_THAT(gone, UnorderedElementsAre("transpose_0", "transpose_2", "mul_3", "add_4"));
        EXPECT_LE(difference(before, outputs_of(graph, inputs)), 1e-6);
    }
}

TEST(Passes, MatMulAndAddAreOneGemm) {
    Builder b(2);
    const ValueId x = b.graph.add_input("x", ElemType::f32, graph::dims({2, 3, 8}));
    output(b.graph, b.linear(x, 5));
    Random random(1);
    const auto inputs = random_inputs(b.graph, random);
    const auto before = outputs_of(b.graph, inputs);
    for (const Stage stage : {Stage::rewrite, Stage::types, Stage::schedule})
        run_passes(b.graph, options(), stage);
    ASSERT_EQ(opcodes_of(b.graph), "reshape gemm reshape");
    EXPECT_EQ(b.graph.nodes[1].source.type, "matmul");
    EXPECT_THAT(absorbed(b.graph.nodes[1]), ElementsAre("add_3"));
    EXPECT_EQ(b.graph.value(b.graph.nodes[1].inputs[2]).shape, graph::dims({5}));
    EXPECT_EQ(difference(before, outputs_of(b.graph, inputs)), 0);  // of f32, the same roundings
}

/// Returns the text of a product [2,4] followed by what `make` adds.
template <class Make>
std::string behind_product(Make make) {
    Builder b(3);
    const ValueId x = b.graph.add_input("x", ElemType::f32, graph::dims({2, 3}));
    const ValueId y = b.node("matmul", {x, random_constant(b.graph, b.random, {3, 4})}, accumulate());
    output(b.graph, make(b, y));
    Random random(1);
    const auto inputs = random_inputs(b.graph, random);
    const auto before = outputs_of(b.graph, inputs);
    fold_batch_norm(b.graph, options());
    add_bias(b.graph, options());
    EXPECT_LE(difference(before, outputs_of(b.graph, inputs)), 1e-6);
    return opcodes_of(b.graph);
}

TEST(FoldBatchNorm, TakesWholeChains) {
    EXPECT_EQ(behind_product([](Builder& b, ValueId y) {
                  y = b.node("sub", {y, random_constant(b.graph, b.random, {4})});
                  y = b.node("div", {y, random_constant(b.graph, b.random, {1, 4}, 1, 2)});
                  y = b.node("mul", {random_constant(b.graph, b.random, {}), y});
                  y = b.node("sub", {random_constant(b.graph, b.random, {4}), y});
                  return b.node("add", {y, random_constant(b.graph, b.random, {1, 1})});
              }),
              "gemm");
}

TEST(FoldBatchNorm, LeavesOtherArithmetic) {
    const auto by_row = [](Builder& b, ValueId y) {
        return b.node("mul", {y, random_constant(b.graph, b.random, {2, 1})});
    };
    EXPECT_EQ(behind_product(by_row), "matmul mul");
    const auto inverse = [](Builder& b, ValueId y) { return b.node("div", {constant(b.graph, {}, {1}), y}); };
    EXPECT_EQ(behind_product(inverse), "matmul div");
    const auto larger = [](Builder& b, ValueId y) {
        return b.node("add", {y, random_constant(b.graph, b.random, {3, 1, 1})});
    };
    EXPECT_EQ(behind_product(larger), "matmul add");
    const auto read_twice = [](Builder& b, ValueId y) {
        const ValueId scaled = b.node("mul", {y, random_constant(b.graph, b.random, {4})});
        return b.node("add", {scaled, b.node("exp", {y})});
    };
    EXPECT_EQ(behind_product(read_twice), "matmul mul exp add");
    const auto itself = [](Builder& b, ValueId y) { return b.node("mul", {y, y}); };
    EXPECT_EQ(behind_product(itself), "matmul mul");
}

TEST(FoldBatchNorm, LeavesOutputsAndScalesThatAreNotFinite) {
    const auto output_between = [](Builder& b, ValueId y) {
        output(b.graph, y);
        return b.node("mul", {y, random_constant(b.graph, b.random, {4})});
    };
    EXPECT_EQ(behind_product(output_between), "matmul mul");
    Builder b(3);
    const ValueId x = b.graph.add_input("x", ElemType::f32, graph::dims({2, 3}));
    const ValueId y = b.node("matmul", {x, random_constant(b.graph, b.random, {3, 4})}, accumulate());
    output(b.graph, b.node("div", {y, constant(b.graph, {4}, {1, 0, 1, 1})}));
    fold_batch_norm(b.graph, options());
    EXPECT_EQ(opcodes_of(b.graph), "matmul div");
}

TEST(FoldBatchNorm, RoundsOnce) {
    // 1/3 is rounded in the weights; folded with 3 it must be what 3 * (1/3 as f32) rounds to
    Builder b(1);
    const ValueId x = b.graph.add_input("x", ElemType::f32, graph::dims({1, 1}));
    const ValueId y = b.node("matmul", {x, constant(b.graph, {1, 1}, {1.0F / 3})}, accumulate());
    const ValueId z = b.node("mul", {y, constant(b.graph, {1}, {3.3F})});
    output(b.graph, b.node("mul", {z, constant(b.graph, {1}, {1.7F})}));
    fold_batch_norm(b.graph, options());
    ASSERT_EQ(opcodes_of(b.graph), "gemm");
    const auto weight = numbers(b.graph.value(b.graph.nodes[0].inputs[1]))[0];
    EXPECT_EQ(weight, static_cast<float>(static_cast<double>(1.0F / 3) *
                                         (static_cast<double>(3.3F) * static_cast<double>(1.7F))));
}

TEST(AddBias, JoinsWithABiasThatIsThere) {
    Builder b(1);
    const ValueId x = b.graph.add_input("x", ElemType::f32, graph::dims({1, 2}));
    const ValueId w = constant(b.graph, {2, 2}, {1, 0, 0, 1});
    const ValueId y = b.node("gemm", {x, w, constant(b.graph, {1, 2}, {1, 2})}, accumulate());
    output(b.graph, b.node("sub", {y, constant(b.graph, {}, {0.5})}));
    add_bias(b.graph, options());
    ASSERT_EQ(opcodes_of(b.graph), "gemm");
    EXPECT_THAT(numbers(b.graph.value(b.graph.nodes[0].inputs[2])), ElementsAre(0.5, 1.5));
    EXPECT_THAT(outputs_of(b.graph, {graph::testing::data_of<float>({10, 20})})[0], ElementsAre(10.5, 21.5));
}

TEST(GlobalPool, MeansOfPixelsBecomePools) {
    for (const bool keep : {true, false}) {
        Builder b(1);
        const ValueId x = b.graph.add_input("x", ElemType::f32, graph::dims({2, 3, 4, 5}));
        output(b.graph, b.mean_of_pixels(b.node("relu", {b.conv(x, 4, 3, 1)}), keep));
        Random random(1);
        const auto inputs = random_inputs(b.graph, random);
        const auto before = outputs_of(b.graph, inputs);
        run_passes(b.graph, options(), Stage::rewrite);
        EXPECT_EQ(opcodes_of(b.graph), keep ? "conv2d relu avgpool" : "conv2d relu avgpool reshape");
        EXPECT_LE(difference(before, outputs_of(b.graph, inputs)), 1e-6);
    }
}

}  // namespace
}  // namespace kpu::passes
