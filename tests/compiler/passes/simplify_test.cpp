#include <gmock/gmock.h>

#include "tests/compiler/passes/random_graphs.hpp"

namespace kpu::passes {
namespace {

using namespace testing;
using graph::attributes;
using graph::ints;
using graph::real;
using ::testing::ElementsAre;

/// Returns a graph of one input [2,3]; `make` adds nodes and gives the output.
template <class Make>
Graph graph_of(Make make) {
    Builder b(1);
    const ValueId x = b.graph.add_input("x", ElemType::f32, graph::dims({2, 3}));
    output(b.graph, make(b, x));
    return std::move(b.graph);
}

/// Returns what is left, after checking that it computes the same bits.
template <class Make>
std::string simplified(Make make) {
    Graph graph = graph_of(make);
    Random random(5);
    const auto inputs = random_inputs(graph, random);
    const auto before = outputs_of(graph, inputs);
    fold_constants(graph, options());
    simplify(graph, options());
    EXPECT_EQ(difference(before, outputs_of(graph, inputs)), 0);
    return opcodes_of(graph);
}

BoundAttrs clamp(double low, double high) {
    return attributes({real("min_val", low), real("max_val", high)});
}

TEST(Simplify, KeepsWhatOnlyLooksLikeAnIdentity) {
    EXPECT_EQ(simplified([](Builder& b, ValueId x) {
                  return b.node("sub", {constant(b.graph, {}, {0}), x});
              }),
              "sub");
    // the zeros give it another shape
    EXPECT_EQ(simplified([](Builder& b, ValueId x) {
                  return b.node("add", {x, constant(b.graph, {2, 1, 1}, {0, 0})});
              }),
              "add");
    EXPECT_EQ(simplified([](Builder& b, ValueId x) {
                  return b.node("mul", {x, constant(b.graph, {3}, {1, 1, 2})});
              }),
              "mul");
    EXPECT_EQ(simplified([](Builder& b, ValueId x) {
                  return b.node("div", {constant(b.graph, {}, {1}), x});
              }),
              "div");
}

TEST(Simplify, FindsCheaperArithmetic) {
    EXPECT_EQ(simplified([](Builder& b, ValueId x) {
                  return b.node("div", {x, constant(b.graph, {}, {8})});
              }),
              "mul");
    EXPECT_EQ(simplified([](Builder& b, ValueId x) {
                  return b.node("div", {x, constant(b.graph, {}, {7})});
              }),
              "div");
    EXPECT_EQ(simplified([](Builder& b, ValueId x) {
                  return b.node("pow", {x, constant(b.graph, {}, {2})});
              }),
              "mul");
}

/// Merges scales as attention has them on queries and keys.
TEST(Simplify, MergesScalesOfFactors) {
    const auto scaled = [](Builder& b, ValueId x, float number) {
        return b.node("mul", {x, constant(b.graph, {}, {number})});
    };
    const auto turned = [](Builder& b, ValueId x) {
        return b.node("transpose", {x}, attributes({ints("perm", {1, 0})}));
    };
    const auto product = [](Builder& b, ValueId x, ValueId y) {
        return b.node("gemm", {x, y}, attributes({graph::type("accum_type", ElemType::f32)}));
    };
    EXPECT_EQ(simplified([&](Builder& b, ValueId x) {
                  return product(b, scaled(b, x, 0.5F), turned(b, scaled(b, b.node("neg", {x}), 0.25F)));
              }),
              "neg transpose mul gemm");
    // somebody else reads one of them; one is no number
    EXPECT_EQ(simplified([&](Builder& b, ValueId x) {
                  const ValueId half = scaled(b, x, 0.5F);
                  output(b.graph, b.node("neg", {half}));
                  return product(b, half, turned(b, scaled(b, x, 0.25F)));
              }),
              "mul neg mul transpose gemm");
    EXPECT_EQ(simplified([&](Builder& b, ValueId x) {
                  const ValueId each = b.node("mul", {x, constant(b.graph, {3}, {1, 2, 4})});
                  return product(b, each, turned(b, scaled(b, x, 0.25F)));
              }),
              "mul mul transpose gemm");
}

TEST(Simplify, MergesIntervals) {
    EXPECT_EQ(simplified([](Builder& b, ValueId x) { return b.node("relu", {b.node("relu", {x})}); }),
              "relu");
    EXPECT_EQ(simplified([](Builder& b, ValueId x) {
                  return b.node("max", {x, constant(b.graph, {}, {0})});
              }),
              "relu");
    EXPECT_EQ(simplified([](Builder& b, ValueId x) {
                  return b.node("min", {b.node("relu", {x}), constant(b.graph, {}, {0.5})});
              }),
              "clamp");
    Graph graph = graph_of([](Builder& b, ValueId x) {
        return b.node("clamp", {b.node("clamp", {x}, clamp(-0.25, 3))}, clamp(-1, 0.5));
    });
    simplify(graph, options());
    ASSERT_EQ(opcodes_of(graph), "clamp");
    EXPECT_EQ(graph.nodes[0].attrs.real("min_val", 9), -0.25);
    EXPECT_EQ(graph.nodes[0].attrs.real("max_val", 9), 0.5);
    EXPECT_THAT(absorbed(graph.nodes[0]), ElementsAre("clamp_0"));
    // disjoint: everything becomes the outer bound
    EXPECT_EQ(simplified([](Builder& b, ValueId x) {
                  return b.node("clamp", {b.node("clamp", {x}, clamp(-1, -0.5))}, clamp(0.25, 2));
              }),
              "clamp");
}

TEST(Simplify, KeepsRoundingsOfQuantisedNumbers) {
    Graph graph;
    BoundQuant quant;
    quant.kind = proto::Quant::PER_TENSOR;
    quant.scales = {0.5};
    quant.zero_points = {0};
    const ValueId x = graph.add_value("x", ElemType::i8, graph::dims({4}), quant);
    graph.inputs.push_back({"x", x, ElemType::i8, graph::HostType::same, {}});
    quant.scales = {0.25};
    graph::NodeOptions options_of = named("relu");
    options_of.quant = quant;
    const ValueId y = graph.add_node("relu", {x}, {}, options_of);
    output(graph, graph.add_node("relu", {y}, {}, options_of));
    simplify(graph, options());
    EXPECT_EQ(opcodes_of(graph), "relu relu");
}

TEST(Simplify, DropsCasts) {
    const auto cast = [](Builder& b, ValueId x, ElemType elem) {
        graph::NodeOptions how = b.next("cast");
        how.elem = elem;
        return b.graph.add_node("cast", {x}, {}, how);
    };
    EXPECT_EQ(simplified([&](Builder& b, ValueId x) { return cast(b, x, ElemType::f32); }), "");
    EXPECT_EQ(
        simplified([&](Builder& b, ValueId x) { return cast(b, cast(b, x, ElemType::f16), ElemType::f32); }),
        "cast cast");
    Graph graph;
    const ValueId h = graph.add_input("h", ElemType::f16, graph::dims({3}));
    graph::NodeOptions wide = named("wide"), back = named("back");
    wide.elem = ElemType::f32;
    back.elem = ElemType::f16;
    output(graph, graph.add_node("cast", {graph.add_node("cast", {h}, {}, wide)}, {}, back));
    simplify(graph, options());
    EXPECT_EQ(opcodes_of(graph), "");
    EXPECT_EQ(graph.outputs[0].value, graph.inputs[0].value);
}

TEST(Simplify, ComposesViews) {
    EXPECT_EQ(simplified([](Builder& b, ValueId x) {
                  return b.transpose(b.transpose(x, {1, 0}), {1, 0});
              }),
              "");
    EXPECT_EQ(simplified([](Builder& b, ValueId x) {
                  return b.reshape(b.reshape(x, {6}), {3, 2});
              }),
              "reshape");
    EXPECT_EQ(simplified([](Builder& b, ValueId x) { return b.reshape(b.reshape(x, {6}), {2, 3}); }), "");
    EXPECT_EQ(simplified([](Builder& b, ValueId x) {
                  return b.transpose(b.reshape(x, {1, 2, 3}), {1, 0, 2});
              }),
              "reshape");
    Graph graph = graph_of([](Builder& b, ValueId x) {
        return b.transpose(b.transpose(b.reshape(x, {1, 3, 2}), {2, 0, 1}), {1, 2, 0});
    });
    simplify(graph, options());
    EXPECT_EQ(opcodes_of(graph), "reshape");
}

TEST(Simplify, DropsViewsOfAll) {
    EXPECT_EQ(
        simplified([](Builder& b, ValueId x) {
            x = b.node("concat", {x}, attributes({graph::integer("axis", 0)}));
            x = b.node("split", {x}, attributes({graph::integer("axis", 1), ints("split_sizes", {3})}));
            return b.node("pad", {x}, attributes({ints("pads", {0, 0, 0, 0}), graph::word("mode", "edge")}));
        }),
        "");
    const auto slice = [](Builder& b, ValueId x, int64_t step) {
        return b.node("slice", {x},
                      attributes({ints("starts", {step > 0 ? 0 : -1}), ints("ends", {step > 0 ? 99 : -99}),
                                  ints("axes", {1}), ints("steps", {step})}));
    };
    EXPECT_EQ(simplified([&](Builder& b, ValueId x) { return slice(b, x, 1); }), "");
    EXPECT_EQ(simplified([&](Builder& b, ValueId x) { return slice(b, x, -1); }), "slice");
}

TEST(Simplify, MergesDoubledNodesAndDropsDeadOnes) {
    Graph graph = graph_of([](Builder& b, ValueId x) {
        b.node("exp", {x});
        return b.node("add", {b.node("tanh", {x}), b.node("tanh", {x})});
    });
    simplify(graph, options());
    EXPECT_EQ(opcodes_of(graph), "tanh add");
    EXPECT_THAT(absorbed(graph.nodes[0]), ElementsAre("tanh_2"));
    EXPECT_EQ(simplified([](Builder& b, ValueId x) {
                  const ValueId low = b.node("clamp", {x}, clamp(0, 0.1)),
                                high = b.node("clamp", {x}, clamp(0, 0.2));
                  return b.node("add", {low, high});
              }),
              "clamp clamp add");
}

TEST(Simplify, AnOutputMayBeAnInput) {
    Graph graph = graph_of([](Builder& b, ValueId x) { return b.reshape(x, {2, 3}); });
    simplify(graph, options());
    EXPECT_TRUE(graph.nodes.empty());
    EXPECT_EQ(graph.outputs[0].value, graph.inputs[0].value);
    check(graph);
}

TEST(FoldConstants, LeavesNoNodeOfConstants) {
    Graph graph = graph_of([](Builder& b, ValueId x) {
        const ValueId c = b.node("exp", {constant(b.graph, {3}, {0, 0, 0})});
        const ValueId d =
            b.transpose(b.reshape(b.node("mul", {c, constant(b.graph, {2, 1}, {1, 2})}), {3, 2}), {1, 0});
        return b.node("sub", {x, d});
    });
    Random random(1);
    const auto inputs = random_inputs(graph, random);
    const auto before = outputs_of(graph, inputs);
    fold_constants(graph, options());
    EXPECT_EQ(opcodes_of(graph), "sub");
    EXPECT_EQ(difference(before, outputs_of(graph, inputs)), 0);
}

TEST(FoldConstants, OutputsMayBeConstants) {
    Graph graph;
    output(graph, graph.add_node("exp", {constant(graph, {2}, {0, 0})}, {}, named("y")));
    fold_constants(graph, options());
    EXPECT_TRUE(graph.nodes.empty());
    EXPECT_THAT(outputs_of(graph, {})[0], ElementsAre(1, 1));
}

TEST(FoldConstants, DoesNotBlowUp) {
    Graph graph;
    const ValueId small = constant(graph, {1, 8}, std::vector<float>(8, 1));
    const ValueId column = constant(graph, {8, 1}, std::vector<float>(8, 2));
    const ValueId large = graph.add_node("add", {small, column}, {}, named("large"));  // 256 bytes of 64
    output(graph, graph.add_node("transpose", {large}, attributes({ints("perm", {1, 0})}), named("y")));
    Options how = options();
    how.largest_folded = 255;
    fold_constants(graph, how);
    EXPECT_EQ(opcodes_of(graph), "add transpose");
    how.largest_folded = 256;
    fold_constants(graph, how);
    EXPECT_EQ(opcodes_of(graph), "");
}

// ---- matrices that stand several times

/// Heads of queries that share heads of keys, as exporters write it: keys are repeated, then transposed, then multiplied.
struct Heads {
    int64_t batch, shared, times, rows, size, keys;
    bool turned, outer = false;
};

/// Opcodes that are left, after checking that the graph computes the same bits.
std::string simplified(const Heads& of) {
    Builder b(3);
    Random random(7);
    const auto dims = [](std::vector<int64_t> of_input) { return graph::dims(of_input); };
    const ValueId q =
        b.graph.add_input("q", ElemType::f32, dims({of.batch, of.shared * of.times, of.rows, of.size}));
    const std::vector<int64_t> matrix =
        of.turned ? std::vector<int64_t>{of.keys, of.size} : std::vector<int64_t>{of.size, of.keys};
    const ValueId k =
        b.graph.add_input("k", ElemType::f32, dims({of.batch, of.shared, matrix[0], matrix[1]}));
    const std::vector<int64_t> once = of.outer ? std::vector<int64_t>{of.batch, 1, of.shared}
                                               : std::vector<int64_t>{of.batch, of.shared, 1};
    const std::vector<int64_t> often =
        of.outer ? std::vector<int64_t>{1, of.times, 1, 1, 1} : std::vector<int64_t>{1, 1, of.times, 1, 1};
    ValueId x = b.reshape(k, {once[0], once[1], once[2], matrix[0], matrix[1]});
    x = b.node("add",
               {x, constant(b.graph, often, std::vector<float>(static_cast<size_t>(of.times), -0.0F))});
    x = b.reshape(x, {of.batch, of.shared * of.times, matrix[0], matrix[1]});
    if (of.turned) x = b.transpose(x, {0, 1, 3, 2});
    output(b.graph, b.node("gemm", {q, x}, accumulate()));
    const auto inputs = random_inputs(b.graph, random);
    const auto before = outputs_of(b.graph, inputs);
    simplify(b.graph, options());
    EXPECT_EQ(difference(before, outputs_of(b.graph, inputs)), 0);
    return opcodes_of(b.graph);
}

TEST(Simplify, HeadsThatShareAMatrixReadItWhereItStandsOnce) {
    Random random(11);
    for (int i = 0; i < 30; ++i) {
        const int64_t size = pick(random, 4, 24);
        Heads of{pick(random, 1, 3),  pick(random, 1, 4),     pick(random, 2, 5), pick(random, 1, size), size,
                 pick(random, 1, 30), pick(random, 0, 1) == 1};
        const std::string left = simplified(of);
        EXPECT_EQ(left.find("add"), std::string::npos) << left;
    }
}

// Masks join the product, and softmax follows it, where heads stand in two dimensions.
TEST(SinkReshapes, MasksOfGroupedHeads) {
    Random random(5);
    for (int i = 0; i < 12; ++i) {
        Builder b(3);
        const int64_t batch = pick(random, 1, 2), shared = pick(random, 1, 3), times = pick(random, 2, 4),
                      rows = pick(random, 9, 20), size = 8, keys = pick(random, 10, 30);
        const auto input = [&](const char* name, int64_t heads, int64_t of) {
            return b.graph.add_input(name, ElemType::f32, graph::dims({batch, heads, of, size}));
        };
        const auto repeated = [&](ValueId x) {
            const std::vector<int64_t> often{1, 1, times, 1, 1};
            const std::vector<float> zeros(static_cast<size_t>(times), -0.0F);
            x = b.node("add",
                       {b.reshape(x, {batch, shared, 1, keys, size}), constant(b.graph, often, zeros)});
            return b.reshape(x, {batch, shared * times, keys, size});
        };
        const ValueId q = input("q", shared * times, rows);
        const ValueId k = b.transpose(repeated(input("k", shared, keys)), {0, 1, 3, 2});
        ValueId x = b.node("gemm", {q, k}, accumulate());
        x = b.node("mul", {x, constant(b.graph, {1}, {0.25F})});
        const bool by_batch = batch > 1 && i % 2 == 0;
        x = b.node("add", {x, random_constant(b.graph, random, {by_batch ? batch : 1, 1, rows, keys})});
        x = b.node("softmax", {x}, attributes({graph::integer("axis", 3)}));
        output(b.graph, b.node("gemm", {x, repeated(input("v", shared, keys))}, accumulate()));
        const auto inputs = random_inputs(b.graph, random);
        const auto before = outputs_of(b.graph, inputs);
        run_passes(b.graph, options(), Stage::rewrite);
        EXPECT_LE(difference(before, outputs_of(b.graph, inputs)), 1e-6);
        size_t between = 0;  // the products, in the shape that they have
        for (const Node& node : b.graph.nodes) {
            const std::string_view name = node.spec().name;
            if (name == "mul" || name == "add" || name == "softmax")
                between += b.graph.value(node.outputs[0]).shape.rank == 5 ? 1 : 0;
        }
        EXPECT_EQ(between, 3u) << graph::to_text(b.graph);
    }
}

TEST(Simplify, OtherHeadsKeepTheirMatrices) {
    // the whole batch stands several times: its neighbours are others
    EXPECT_NE(simplified(Heads{1, 2, 4, 1, 16, 12, false, true}).find("add"), std::string::npos);
}

/// Returns a convolution between quantize and dequantize, its weights as an exporter writes them: O, I,
/// height, width.
Graph quantised_model() {
    Builder b(1);
    const ValueId x = b.graph.add_input("x", ElemType::f32, graph::dims({1, 2, 4, 4}));
    BoundQuant steps, channels;
    steps.kind = proto::Quant::PER_TENSOR;
    steps.scales = {0.1};
    steps.zero_points = {3};
    channels.kind = proto::Quant::PER_CHANNEL;
    channels.axis = 0;
    channels.scales = {0.1, 0.2, 0.3};
    channels.zero_points = {0, 0, 0};
    const auto convert = [&](const std::string& opcode, ValueId from, ElemType elem, BoundQuant quant) {
        graph::NodeOptions how = b.next(opcode);
        how.elem = elem;
        how.quant = std::move(quant);
        return b.graph.add_node(opcode, {from}, {}, how);
    };
    const ValueId seen =
        convert("dequantize", convert("quantize", x, ElemType::i8, steps), ElemType::f32, {});
    const ValueId weights =
        b.graph.add_constant("w", ElemType::i8, graph::dims({3, 2, 1, 1}),
                             graph::testing::data_of<int8_t>({1, 2, 3, 4, 5, 6}), channels);
    const ValueId w = b.transpose(convert("dequantize", weights, ElemType::f32, {}), {2, 3, 1, 0});
    const BoundAttrs window =
        attributes({ints("pads", {0, 0, 0, 0}), ints("strides", {1, 1}), ints("dilations", {1, 1}),
                    graph::integer("groups", 1), graph::type("accum_type", ElemType::f32)});
    const ValueId y = b.node("conv2d", {b.transpose(seen, {0, 2, 3, 1}), w}, window);
    output(b.graph, b.transpose(y, {0, 3, 1, 2}));
    return std::move(b.graph);
}

TEST(FoldConstants, QuantisedModelsKeepTheirIntegers) {
    Graph graph = quantised_model();
    Random random(1);
    const auto inputs = random_inputs(graph, random);
    const auto before = outputs_of(graph, inputs);
    run_passes(graph, options(), Stage::rewrite);
    EXPECT_EQ(opcodes_of(graph), "quantize dequantize dequantize conv2d");
    const graph::Value& weights = graph.value(graph.nodes[2].inputs[0]);
    ASSERT_TRUE(weights.constant());
    EXPECT_EQ(weights.elem, ElemType::i8);
    EXPECT_EQ(weights.shape, graph::dims({1, 1, 2, 3}));
    EXPECT_EQ(weights.quant.axis, 3);
    EXPECT_LE(difference(before, outputs_of(graph, inputs)), 1e-6);

    Graph floats = quantised_model();
    Options how = options();
    how.precision = ElemType::f32;
    run_passes(floats, how, Stage::rewrite);
    EXPECT_EQ(opcodes_of(floats), "quantize dequantize conv2d");
    EXPECT_LE(difference(before, outputs_of(floats, inputs)), 1e-6);
}

TEST(FoldConstants, WeightsStayWhereTheyAre) {
    Graph graph;
    const ValueId w = constant(graph, {4}, {1, 2, 3, 4});
    const uint8_t* bytes = graph.value(w).data.bytes;
    output(graph, graph.add_node("reshape", {w}, attributes({ints("target_shape", {2, 2})}), named("y")));
    fold_constants(graph, options());
    EXPECT_EQ(graph.value(graph.outputs[0].value).data.bytes, bytes);
}

}  // namespace
}  // namespace kpu::passes
