#include <gmock/gmock.h>

#include "tests/compiler/passes/random_graphs.hpp"

namespace kpu::passes {
namespace {

using namespace testing;
using ::testing::ElementsAre;

TEST(Precision, FloatsBecomeThoseOfTheDevice) {
    for (const ElemType elem : {ElemType::f16, ElemType::bf16}) {
        Builder b(1);
        const ValueId x = b.graph.add_input("x", ElemType::f32, graph::dims({2, 3}));
        const ValueId i =
            b.graph.add_constant("i", ElemType::i32, graph::dims({1}), graph::testing::data_of<int32_t>({1}));
        const ValueId row =
            b.node("gather", {b.node("exp", {x}), i}, graph::attributes({graph::integer("axis", 0)}));
        output(b.graph, b.node("mul", {row, constant(b.graph, {1}, {1.0F / 3})}));
        convert(b.graph, elem);
        graph::check(b.graph);
        for (const graph::Value& value : b.graph.values)
            EXPECT_EQ(value.elem, value.name == "i" ? ElemType::i32 : elem);
        EXPECT_EQ(b.graph.inputs[0].elem, ElemType::f32);
        EXPECT_EQ(b.graph.outputs[0].elem, ElemType::f32);
        const double third = numbers(b.graph.value(find(b.graph, "mul").inputs[1]))[0];
        EXPECT_EQ(third, elem == ElemType::f16 ? 0x1.554p-2 : 0x1.56p-2);  // rounded to nearest
        EXPECT_EQ(outputs_of(b.graph, {graph::testing::data_of<float>({0, 0, 0, 0, 0, 0})})[0].size(), 3u);
    }
}

TEST(Precision, ConstantsStayFinite) {
    Builder b(1);
    const ValueId x = b.graph.add_input("x", ElemType::f32, graph::dims({3}));
    const float inf = std::numeric_limits<float>::infinity();
    output(b.graph, b.node("add", {x, constant(b.graph, {3}, {-3.4e38F, -inf, 1e6F})}));
    convert(b.graph, ElemType::f16);
    EXPECT_THAT(numbers(b.graph.value(find(b.graph, "add").inputs[1])), ElementsAre(-65504, -inf, 65504));
}

TEST(Precision, CastsBetweenFloatsGo) {
    Builder b(1);
    const ValueId x = b.graph.add_input("x", ElemType::f16, graph::dims({3}));
    graph::NodeOptions wide = b.next("cast"), narrow = b.next("cast"), whole = b.next("cast");
    wide.elem = ElemType::f32;
    narrow.elem = ElemType::f16;
    whole.elem = ElemType::i32;
    ValueId y = b.node("exp", {b.graph.add_node("cast", {x}, {}, wide)});
    y = b.graph.add_node("cast", {y}, {}, narrow);
    output(b.graph, b.graph.add_node("cast", {y}, {}, whole));
    convert(b.graph, ElemType::bf16);
    EXPECT_EQ(opcodes_of(b.graph), "exp cast");
    EXPECT_EQ(b.graph.inputs[0].elem, ElemType::f16);
    EXPECT_EQ(b.graph.value(b.graph.inputs[0].value).elem, ElemType::bf16);
}

/// matmul + bias, seen through a reshape.
Graph classifier(bool relu, bool read_twice) {
    Builder b(1);
    const ValueId x = b.graph.add_input("x", ElemType::f32, graph::dims({2, 3}));
    ValueId y = b.node(
        "gemm",
        {x, random_constant(b.graph, b.random, {3, 4}), constant(b.graph, {4}, {0.1F, 0.2F, 0.3F, 0.4F})},
        graph::attributes({graph::type("accum_type", ElemType::f32)}));
    if (read_twice) output(b.graph, b.node("exp", {y}));
    if (relu) y = b.node("relu", {y});
    output(b.graph, b.reshape(y, {1, 2, 4}));
    return std::move(b.graph);
}

TEST(Precision, OutputsLeaveTheAccumulatorsAsTheyAre) {
    Graph graph = classifier(false, false);
    convert(graph, ElemType::f16);
    graph::check(graph);
    ASSERT_EQ(opcodes_of(graph), "gemm.acc reshape");
    EXPECT_EQ(graph.value(graph.outputs[0].value).elem, ElemType::f32);
    EXPECT_EQ(graph.value(graph.nodes[0].outputs[0]).elem, ElemType::f32);
    EXPECT_EQ(graph.value(graph.nodes[0].inputs[0]).elem, ElemType::f16);
    EXPECT_EQ(graph.value(graph.nodes[0].inputs[2]).elem, ElemType::f32);
    EXPECT_EQ(numbers(graph.value(graph.nodes[0].inputs[2]))[0], 0.1F);  // not rounded on the way
    Random random(1);
    const auto inputs = random_inputs(graph, random);
    EXPECT_LE(difference(outputs_of(classifier(false, false), inputs), outputs_of(graph, inputs)), 2e-3);
}

TEST(Precision, OutputsAreRoundedWhereTheHostWantsThat) {
    for (const ElemType host : {ElemType::f16, ElemType::bf16}) {
        Graph graph = classifier(false, false);
        graph.outputs[0].elem = host;
        convert(graph, ElemType::f16);
        graph::check(graph);
        const bool same = host == ElemType::f16;
        EXPECT_EQ(graph.value(graph.outputs[0].value).elem, same ? ElemType::f16 : ElemType::f32);
        EXPECT_EQ(graph.outputs[0].elem, host);
    }
}

TEST(Precision, OtherProductsAreRounded) {
    for (int i = 0; i < 2; ++i) {
        Graph graph = classifier(i == 0, i == 1);
        convert(graph, ElemType::f16);
        graph::check(graph);
        EXPECT_EQ(count(graph, "gemm"), 1u);
        EXPECT_EQ(graph.value(graph.outputs[0].value).elem, ElemType::f16);
    }
    Graph graph = classifier(false, false);
    convert(graph, ElemType::f16, false);
    EXPECT_EQ(opcodes_of(graph), "gemm reshape");
}

TEST(Precision, ConvsToo) {
    Builder b(2);
    const ValueId x = b.graph.add_input("x", ElemType::f32, graph::dims({1, 3, 4, 4}));
    output(b.graph, b.conv(x, 2, 3, 1));
    Graph wide = b.graph;
    run_passes(b.graph, options(), Stage::rewrite);
    convert(b.graph, ElemType::bf16);
    EXPECT_EQ(opcodes_of(b.graph), "conv2d.acc");
    Random random(1);
    const auto inputs = random_inputs(b.graph, random);
    EXPECT_LE(difference(outputs_of(wide, inputs), outputs_of(b.graph, inputs)), 2e-2);
}

TEST(Precision, RefusesOtherTypes) {
    Graph graph = classifier(false, false);
    EXPECT_THROW(convert(graph, ElemType::i8), InternalError);
}

TEST(Precision, KeptNodesComputeInTheirTypeBetweenCasts) {
    Builder b(1);
    const ValueId x = b.graph.add_input("x", ElemType::f32, graph::dims({2, 3}));
    const ValueId third = constant(b.graph, {3}, {1.0F / 3, 1.0F / 3, 1.0F / 3});
    const ValueId first = b.node("mul", {x, third});
    const ValueId kept = b.node("exp", {first});
    const ValueId also = b.node("mul", {kept, third});
    output(b.graph, b.node("add", {also, first}));
    b.graph.nodes[1].kept = b.graph.nodes[2].kept = ElemType::f32;
    convert(b.graph, ElemType::f16);
    graph::check(b.graph);
    EXPECT_EQ(opcodes_of(b.graph), "mul cast exp mul cast add");
    const auto type = [&](size_t n) { return b.graph.value(b.graph.nodes[n].outputs[0]).elem; };
    EXPECT_EQ(type(0), ElemType::f16);
    EXPECT_EQ(type(2), ElemType::f32);
    EXPECT_EQ(type(3), ElemType::f32);
    EXPECT_EQ(type(5), ElemType::f16);
    // each reads the constant in its own type, rounded from what the model has
    EXPECT_EQ(numbers(b.graph.value(b.graph.nodes[0].inputs[1]))[0], 0x1.554p-2);
    EXPECT_EQ(numbers(b.graph.value(b.graph.nodes[3].inputs[1]))[0], double(1.0F / 3));
}

TEST(Precision, ATypeThatTheDeviceLacksIsRefused) {
    Builder b(1);
    const ValueId x = b.graph.add_input("x", ElemType::f32, graph::dims({3}));
    output(b.graph, b.node("exp", {x}));
    b.graph.nodes[0].kept = ElemType::f32;
    const graph::Supports halves = [](std::string_view, const std::vector<ElemType>& inputs, const auto&) {
        return inputs[0] == ElemType::f16;
    };
    EXPECT_THROW(convert(b.graph, ElemType::f16, true, halves), UserError);
}

/// (x - mean) / sqrt(max(mean of squares, epsilon)) * scale, of x f32[2,4].
Graph norm_of_no_opcode() {
    Builder b(1);
    const BoundAttrs rows = graph::attributes({graph::ints("axes", {1}), graph::integer("keepdims", 1)});
    const ValueId x = b.graph.add_input("x", ElemType::f32, graph::dims({2, 4}));
    const ValueId d = b.node("sub", {x, b.node("reduce_mean", {x}, rows)});
    const ValueId variance = b.node("reduce_mean", {b.node("mul", {d, d})}, rows);
    const ValueId root = b.node("sqrt", {b.node("max", {variance, constant(b.graph, {}, {1e-6F})})});
    output(b.graph, b.node("mul", {b.node("div", {d, root}), random_constant(b.graph, b.random, {4})}));
    return std::move(b.graph);
}

// Its squares are beyond f16; only what is inside becomes wider.
TEST(Precision, NormsOfNoOpcodeAreWideInside) {
    const std::vector<Data> inputs{graph::testing::data_of<float>({-900, 100, 2000, 700, 1, 2, 3, 4})};
    const auto exact = outputs_of(norm_of_no_opcode(), inputs);
    for (const bool wide : {false, true}) {
        Graph graph = norm_of_no_opcode();
        if (wide) keep_norms_wide(graph, ElemType::f16, {});
        convert(graph, ElemType::f16);
        graph::check(graph);
        const double error = difference(exact, outputs_of(graph, inputs));
        EXPECT_EQ(error < 2e-3, wide) << error;
        EXPECT_EQ(error > 0.1, !wide) << error;
        const Node& scale = graph.nodes[static_cast<size_t>(graph::producers(graph)[graph.outputs[0].value])];
        EXPECT_EQ(graph.value(scale.outputs[0]).elem, ElemType::f16);
    }
    // a device without wide sums keeps nothing
    const auto narrow = [](std::string_view, const auto& inputs_of, const auto&) {
        return inputs_of[0] != ElemType::f32;
    };
    Graph graph = norm_of_no_opcode();
    keep_norms_wide(graph, ElemType::f16, narrow);
    for (const Node& node : graph.nodes) EXPECT_EQ(node.kept, ElemType::none);
}

// A mean of squares that no root is drawn of is no norm.
TEST(Precision, OtherSumsOfSquaresStayNarrow) {
    Builder b(1);
    const BoundAttrs rows = graph::attributes({graph::ints("axes", {1}), graph::integer("keepdims", 1)});
    const ValueId x = b.graph.add_input("x", ElemType::f32, graph::dims({2, 4}));
    output(b.graph, b.node("add", {x, b.node("reduce_mean", {b.node("mul", {x, x})}, rows)}));
    keep_norms_wide(b.graph, ElemType::f16, {});
    for (const Node& node : b.graph.nodes) EXPECT_EQ(node.kept, ElemType::none);
}

}  // namespace
}  // namespace kpu::passes
