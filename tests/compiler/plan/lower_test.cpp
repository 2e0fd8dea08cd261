// Lowered programs give the values of the graph, on every path and device, without a hazard.
#include <algorithm>

#include "base/diagnostics.hpp"
#include "compiler/graph/data.hpp"
#include "tests/compiler/plan/maker.hpp"

namespace kpu::compiler {
namespace {

using namespace testing;

class Lower : public ::testing::TestWithParam<Case> {};

TEST_P(Lower, ConvolutionsWithEpilogues) {
    for (uint32_t seed = 0; seed < 6; ++seed) {
        Maker maker(GetParam().elem, seed);
        const int64_t channels = maker.pick(1, 24), height = maker.pick(5, 40), width = maker.pick(5, 40);
        const ValueId x = maker.input({maker.pick(1, 2), height, width, channels});
        const int64_t kernel = maker.pick(1, 3), stride = maker.pick(1, 2);
        ValueId y = maker.conv(x, maker.pick(1, 80), kernel, stride, kernel / 2);
        y = maker.unary("relu", y);
        maker.fuse(2);
        const ValueId z = maker.conv(y, maker.pick(1, 40), 3, 1, 1);
        const ValueId shortcut = maker.conv(y, maker.graph().value(z).shape[3], 1, 1, 0);
        maker.output(maker.binary("add", z, shortcut));
        run(maker, GetParam().device);
    }
}

TEST(LowerNames, OperationsOfOneSourceHaveNamesOfTheirOwn) {
    Maker maker(ElemType::f32, 1);
    ValueId x = maker.input({4, 40});
    for (int i = 0; i < 3; ++i) {
        x = maker.gemm(x, 40);
        maker.graph().nodes.back().source = {"cell", "LSTM"};
    }
    maker.output(x);
    const Target target(platforms::load("tile32"));
    MappingWish wish;
    wish.pattern = "cell:2";
    wish.output = Home::ddr;
    wish.tile["n"] = 8;
    Guide guide;
    guide.wishes = MappingWishes({wish});
    const Lowered lowered = lower(maker.graph(), target, guide);
    ASSERT_EQ(lowered.plan.ops.size(), 3u);
    const char* names[] = {"cell", "cell:2", "cell:3"};
    for (size_t i = 0; i < 3; ++i) {
        const TileOp& op = lowered.plan.ops[i].op;
        EXPECT_EQ(op.name, names[i]);
        EXPECT_EQ(lowered.emitted.module.program.op(static_cast<int>(lowered.plan.ops[i].number)).id(),
                  names[i]);
        for (size_t a = 0; a < op.axes.size(); ++a) {
            if (op.axes[a].name != "n") continue;
            EXPECT_EQ(lowered.plan.ops[i].tiling.tile[a] == 8, i == 1);
        }
        for (size_t o = 0; o < op.operands.size(); ++o) {
            if (op.operands[o].place != Place::output || i == 2) continue;
            EXPECT_EQ(lowered.plan.ops[i].homes[o] == Home::ddr, i == 1);
        }
    }
    wish.pattern = "cell:4";
    guide.wishes = MappingWishes({wish});
    EXPECT_THROW(lower(maker.graph(), target, guide), UserError);
}

TEST_P(Lower, RowsOfPaddingAlone) {
    Maker maker(GetParam().elem, 5);
    const ValueId x = maker.input({2, 40, 40, 24});
    maker.output(maker.conv(x, 40, 1, 1, 2));
    run(maker, GetParam().device, {{"engine.l1.size_bytes", "32768"}});
}

TEST_P(Lower, GroupsOfChannels) {
    Maker maker(GetParam().elem, 3);
    const ValueId x = maker.input({1, 9, 11, 12});
    maker.output(maker.conv(x, 24, 3, 1, 1, 3));
    run(maker, GetParam().device);
}

TEST_P(Lower, ProductsPoolsAndViews) {
    for (uint32_t seed = 0; seed < 4; ++seed) {
        Maker maker(GetParam().elem, 100 + seed);
        const ValueId x = maker.input({2, 12, 14, 6});
        const ValueId pooled = maker.pool("maxpool", x, 3, 2, 1);
        const ValueId flat = maker.reshape(pooled, {2, 6 * 7 * 6});
        const ValueId hidden = maker.unary("relu", maker.gemm(flat, maker.pick(10, 70)));
        maker.fuse(2);
        maker.output(maker.gemm(hidden, 10));
        maker.output(maker.pool("avgpool", x, 2, 2, 0));
        run(maker, GetParam().device);
    }
}

TEST_P(Lower, ResizedPicturesAreCutAlongTheirChannels) {
    Maker maker(GetParam().elem, 11);
    const ValueId x = maker.input({1, 24, 24, 64});
    NodeOptions options = maker.named("Resize");
    options.quant = maker.graph().value(x).quant;
    maker.output(
        maker.graph().add_node("resize", {x}, attributes({ints("sizes", {1, 48, 48, 64})}), options));
    const Result result = run(maker, GetParam().device, {{"engine.l1.size_bytes", "65536"}});
    EXPECT_NE(result.lowered.plan.ops.at(0).tiling.tile, (std::vector<int64_t>{1, 64}));
}

// A slice that walks backwards over a dimension leaves its size, not its places.
TEST_P(Lower, TurnedDimensionsStayWhole) {
    Maker maker(GetParam().elem, 12);
    const ValueId x = maker.input({6, 16, 16, 8});
    NodeOptions options = maker.named("Turn");
    options.quant = maker.graph().value(x).quant;
    const BoundAttrs backwards =
        attributes({ints("starts", {-1}), ints("ends", {-7}), ints("axes", {0}), ints("steps", {-1})});
    maker.output(maker.graph().add_node("slice", {x}, backwards, options));
    const Result result = run(maker, GetParam().device, {{"engine.l1.size_bytes", "32768"}});
    EXPECT_GT(result.cycles, 0u);
}

// npm_lite has no reshape of f32; of one that renames the bytes of a float result, it needs none.
TEST(LowerF16, RenamedBytesNeedNoVariant) {
    Maker maker(ElemType::f16, 13);
    const ValueId x = maker.input({8, 32});
    const ValueId w = maker.constant({32, 24}, ElemType::f16, {});
    NodeOptions sums = maker.named("Sums");
    sums.elem = ElemType::f32;
    const ValueId y = maker.graph().add_node("gemm.acc", {x, w},
                                             attributes({graph::type("accum_type", ElemType::f32)}), sums);
    maker.output(maker.reshape(y, {4, 2, 24}));
    run(maker, "npm_lite");
}

TEST_P(Lower, LargeProductsCutTheirSum) {
    Maker maker(GetParam().elem, 7);
    const ValueId x = maker.input({40, 9000});
    maker.output(maker.gemm(x, 50));
    const Result result = run(maker, GetParam().device);
    EXPECT_GT(result.cycles, 0u);
}

TEST_P(Lower, SumsAreCutWhereTheTableHasNoRoomForTheirAddend) {
    Maker maker(GetParam().elem, 71);
    const ValueId x = maker.input({6, 3000});
    maker.output(maker.gemm(x, 2100));
    const Result result =
        run(maker, GetParam().device, {{"engine.l1.size_bytes", "32768"}, {"l2.size_bytes", "65536"}});
    const PlannedOp& op = result.lowered.plan.ops.at(0);
    EXPECT_TRUE(op.tiling.cuts_sum(op.op));
    EXPECT_EQ(op.homes.at(op.op.nodes.at(0).inputs.at(2)), Home::ddr);
}

/// Tensors have all of L2 but the staging room and the constants that there are.
TEST(LowerInt8, TensorsHaveTheRoomThatTheTableLeaves) {
    Maker maker(ElemType::i8, 5);
    const platforms::Platform platform = platforms::load("swkpu-v1");
    const Target target(platform);
    const int64_t bytes = static_cast<int64_t>(target.l2_bytes - target.l1_bytes);
    const ValueId x = maker.input({16, bytes / 16});
    maker.output(maker.unary("exp", maker.unary("relu", x)));
    const Lowered lowered = lower(maker.graph(), target);
    const View& view = lowered.plan.memory.views[lowered.plan.graph->nodes[0].outputs[0]];
    EXPECT_EQ(lowered.plan.memory.storages[view.storage].home, Home::l2);
}

/// The host sees channels second, the device last: scales follow them.
TEST(LowerInt8, ScalesOfAnOutputFollowItsOrderOfDimensions) {
    Maker maker(ElemType::i8, 72);
    const ValueId x = maker.input({1, 6, 6, 8});
    NodeOptions sums = maker.named("Sums");
    sums.elem = ElemType::i32;
    sums.quant = maker.channels(3, 4);
    const ValueId w = maker.constant({1, 1, 8, 4}, ElemType::i8, sums.quant);
    const ValueId y = maker.graph().add_node(
        "conv2d.acc", {x, w},
        attributes({ints("pads", {0, 0, 0, 0}), ints("strides", {1, 1}), ints("dilations", {1, 1}),
                    integer("groups", 1), graph::type("accum_type", ElemType::i32)}),
        sums);
    maker.graph().outputs.push_back({"y", y, ElemType::i32, graph::HostType::same, {0, 3, 1, 2}});
    const Lowered lowered = lower(maker.graph(), Target(platforms::load("swkpu-v1", {})));
    const auto& tensors = lowered.emitted.module.program.tensor();
    const auto output = std::find_if(tensors.begin(), tensors.end(), [](const proto::Tensor& tensor) {
        return tensor.role() == proto::Tensor::OUTPUT;
    });
    ASSERT_NE(output, tensors.end());
    EXPECT_EQ(output->quant().axis(), 1);
}

TEST(LowerInt8, CutSumsKeepTheirScales) {
    Maker maker(ElemType::i8, 8);
    const ValueId x = maker.input({20, 9000});
    const ValueId w = maker.constant({9000, 40}, ElemType::i8, maker.channels(1, 40));
    NodeOptions sums = maker.named("Sums");
    sums.elem = ElemType::i32;
    sums.quant = maker.channels(1, 40);
    const ValueId y = maker.graph().add_node("gemm.acc", {x, w},
                                             attributes({graph::type("accum_type", ElemType::i32)}), sums);
    NodeOptions reals;
    reals.source = {"Reals", "DequantizeLinear"};
    reals.elem = ElemType::f32;
    maker.output(maker.graph().add_node("dequantize", {y}, {}, reals));
    maker.fuse(2);
    const Result result = run(maker, "swkpu-v1");
    EXPECT_TRUE(result.lowered.plan.ops.at(0).tiling.cuts_sum(result.lowered.plan.ops.at(0).op));
}

TEST_P(Lower, SmallMemoriesMakeSmallTiles) {
    Maker maker(GetParam().elem, 9);
    const ValueId x = maker.input({1, 30, 30, 16});
    const ValueId y = maker.unary("relu", maker.conv(x, 32, 3, 1, 1));
    maker.fuse(2);
    maker.output(maker.pool("maxpool", maker.conv(y, 16, 3, 2, 1), 2, 2, 0));
    run(maker, GetParam().device, {{"engine.l1.size_bytes", "32768"}, {"l2.size_bytes", "131072"}});
}

TEST_P(Lower, ConcatenationsSplitsAndSlices) {
    Maker maker(GetParam().elem, 21);
    Graph& graph = maker.graph();
    const ValueId x = maker.input({1, 8, 8, 10});
    NodeOptions options = maker.named("Split");
    options.quant = graph.value(x).quant;
    const ValueId first =
        graph.add_node("split", {x}, attributes({integer("axis", 3), ints("split_sizes", {4, 6})}), options);
    const ValueId second = graph.nodes.back().outputs[1];
    options.source = {"relu_a", "Relu"};
    const ValueId a = graph.add_node("relu", {first}, {}, options);
    options.source = {"relu_b", "Relu"};
    const ValueId b = graph.add_node("relu", {second}, {}, options);
    options.source = {"cat", "Concat"};
    const ValueId joined = graph.add_node("concat", {b, a, x}, attributes({integer("axis", 3)}), options);
    options.source = {"slice", "Slice"};
    const ValueId part = graph.add_node("slice", {joined},
                                        attributes({ints("starts", {1, 3}), ints("ends", {7, 19}),
                                                    ints("axes", {1, 3}), ints("steps", {2, 3})}),
                                        options);
    maker.output(maker.reshape(part, {3, 8 * 6}));
    maker.output(joined);
    options.source = {"turn", "Transpose"};
    maker.output(graph.add_node("transpose", {joined}, attributes({ints("perm", {0, 3, 1, 2})}), options));
    run(maker, GetParam().device);
}

/// Tensors that exceed L1 by far, of opcodes whose tiles need attributes of their own.
const platforms::Overrides little_l1{{"engine.l1.size_bytes", "16384"}};

TEST_P(Lower, ReshapedPicturesAreMadeWhereTheyAreJoined) {
    for (const bool cut : {false, true}) {
        Maker maker(GetParam().elem, 17);
        const BoundQuant quant = maker.quant(8, 0);
        std::vector<ValueId> parts;
        for (const auto& [h, w] : {std::pair<int64_t, int64_t>{9, 10}, {5, 4}}) {
            const ValueId y = maker.conv(maker.input({1, h, w, 8}), 12, 3, 1, 1);
            maker.graph().value(y).quant = quant;
            const std::vector<int64_t> pixels = {1, h * w, 12}, cut_pixels = {1, h * w, 3, 4};
            parts.push_back(maker.reshape(y, cut ? cut_pixels : pixels));
        }
        NodeOptions options = maker.named("Concat");
        options.quant = quant;
        const ValueId joined =
            maker.graph().add_node("concat", parts, attributes({integer("axis", 1)}), options);
        maker.output(maker.unary("relu", joined));
        const Result result = run(maker, GetParam().device);
        EXPECT_EQ(result.lowered.plan.ops.size(), cut ? 5u : 3u);  // channels that are cut must be copied
    }
}

/// The states of a recurrent network are joined, and read by the next step; one is shown twice, one joined twice.
TEST_P(Lower, StatesAreMadeWhereTheyAreJoined) {
    Maker maker(GetParam().elem, 19);
    const auto joined = [&](const std::vector<ValueId>& parts) {
        NodeOptions options = maker.named("Concat");
        options.quant = maker.graph().value(parts[0]).quant;
        for (const ValueId part : parts) maker.graph().value(part).quant = options.quant;
        return maker.graph().add_node("concat", parts, attributes({integer("axis", 0)}), options);
    };
    ValueId state = maker.input({2, 24});
    std::vector<ValueId> states, parts;
    for (int step = 0; step < 3; ++step) {
        state = maker.unary("relu", maker.binary("add", state, state));
        states.push_back(state);
        parts.push_back(maker.reshape(state, {1, 2, 24}));
    }
    maker.output(maker.unary("relu", joined(parts)));
    EXPECT_EQ(run(maker, GetParam().device).lowered.plan.ops.size(), 7u);  // nothing is copied
    maker.output(
        maker.unary("relu", joined({states[0], maker.reshape(parts[0], {2, 24}), states[1], states[1]})));
    run(maker, GetParam().device);
}

TEST_P(Lower, PaddingIsCut) {
    for (const char* mode : {"constant", "edge"}) {
        Maker maker(GetParam().elem, 31);
        const ValueId x = maker.input({1, 40, 50, 24});
        NodeOptions options = maker.named("Pad");
        options.quant = maker.graph().value(x).quant;
        maker.output(maker.graph().add_node(
            "pad", {x}, attributes({ints("pads", {0, 3, 1, 0, 0, 2, 4, 5}), graph::word("mode", mode)}),
            options));
        run(maker, GetParam().device, little_l1);
    }
}

TEST_P(Lower, ReversedDimensionsStayWhole) {
    Maker maker(GetParam().elem, 35);
    const ValueId x = maker.input({8, 20, 50});
    NodeOptions options = maker.named("Slice");
    options.quant = maker.graph().value(x).quant;
    maker.output(maker.graph().add_node(
        "slice", {x},
        attributes({ints("starts", {-1}), ints("ends", {INT32_MIN}), ints("axes", {0}), ints("steps", {-1})}),
        options));
    run(maker, GetParam().device, little_l1);
}

TEST_P(Lower, ResizingIsCut) {
    for (const int64_t times : {2, 3}) {
        Maker maker(GetParam().elem, 32);
        const ValueId x = maker.input({1, 20, 30, 24});
        NodeOptions options = maker.named("Resize");
        options.quant = maker.graph().value(x).quant;
        maker.output(maker.graph().add_node(
            "resize", {x},
            attributes({ints("sizes", {1, 20 * times, 30 * times, 24}), graph::word("mode", "nearest")}),
            options));
        run(maker, GetParam().device, little_l1);
    }
}

TEST_P(Lower, PoolsBeyondTheBorderAreCut) {
    for (const char* opcode : {"maxpool", "avgpool"}) {
        for (const bool counted : {false, true}) {
            if (counted && opcode == std::string("maxpool")) continue;
            for (const bool up : {false, true}) {
                Maker maker(GetParam().elem, 33);
                const ValueId x = maker.input({1, 40, 41, 24});
                std::vector<BoundAttr> list{ints("kernel_shape", {3, 3}), ints("pads", {1, 1, 1, 1}),
                                            ints("strides", {2, 3})};
                if (up) list.push_back(integer("ceil_mode", 1));
                if (counted) list.push_back(integer("count_include_pad", 1));
                NodeOptions options = maker.named("Pool");
                options.quant = maker.graph().value(x).quant;
                maker.output(maker.graph().add_node(opcode, {x}, attributes(std::move(list)), options));
                run(maker, GetParam().device, little_l1);
            }
        }
    }
}

TEST_P(Lower, TransposedConvolutionsAreCut) {
    for (const int64_t kernel : {2, 3}) {
        Maker maker(GetParam().elem, 34);
        const ValueId x = maker.input({2, kernel == 2 ? 24 : 6, 20, 24});
        const ValueId w = maker.constant({kernel, kernel, 24, 40}, GetParam().elem, maker.channels(3, 40));
        maker.output(maker.graph().add_node(
            "conv_transpose2d", {x, w},
            attributes({ints("pads", {0, 0, 0, 0}), ints("strides", {2, 2}), ints("dilations", {1, 1}),
                        integer("groups", 1), graph::type("accum_type", maker.sums())}),
            maker.named("ConvTranspose", 8)));
        run(maker, GetParam().device, {{"engine.l1.size_bytes", "32768"}});
    }
}

// Windows that overlap, of any stride, padding and dilation, in rows and columns that tiles cut.
TEST_P(Lower, OverlappingTransposedConvolutionsAreCut) {
    for (uint32_t seed = 0; seed < 12; ++seed) {
        Maker maker(GetParam().elem, 340 + seed);
        const int64_t step = maker.pick(1, 3), kernel = maker.pick(1, 5), dilation = maker.pick(1, 2);
        const int64_t reach = dilation * (kernel - 1) + 1, more = maker.pick(0, std::max(step, dilation) - 1);
        const int64_t cut =
            std::max<int64_t>(0, reach + more - step);  // so that Y has `step` times the rows of X
        if (reach + more < step) continue;
        const int64_t before = maker.pick(0, cut), groups = maker.pick(1, 2);
        const ValueId x = maker.input({1, maker.pick(6, 24), maker.pick(6, 20), 16});
        const ValueId w =
            maker.constant({kernel, kernel, 16 / groups, 24}, GetParam().elem, maker.channels(3, 24));
        const ValueId y = maker.graph().add_node(
            "conv_transpose2d", {x, w},
            attributes({ints("pads", {before, before, cut - before, cut - before}),
                        ints("strides", {step, step}), ints("dilations", {dilation, dilation}),
                        ints("output_padding", {more, more}), integer("groups", groups),
                        graph::type("accum_type", maker.sums())}),
            maker.named("ConvTranspose", 8));
        ASSERT_EQ(maker.graph().value(y).shape[1], maker.graph().value(x).shape[1] * step);
        maker.output(y);
        const Result result = run(maker, GetParam().device, {{"engine.l1.size_bytes", "24576"}});
        EXPECT_EQ(result.lowered.plan.ops.at(0).op.axes.size(), 4u);  // n, y, x and o or g
    }
}

// L2 keeps tiles of the same input for each product in turn, cut differently, at the same place.
TEST_P(Lower, ProductsThatCutOneInputDifferentlyAreOrdered) {
    for (uint32_t seed = 0; seed < 3; ++seed) {
        Maker maker(GetParam().elem, 80 + seed);
        const int64_t rows = maker.pick(40, 100), depth = 64 * maker.pick(4, 14);
        const ValueId x = maker.input({rows, depth});
        for (int i = 0; i < 3; ++i) {
            ValueId y = maker.gemm(x, maker.pick(20, 400));
            if (maker.pick(0, 1) == 0) y = maker.unary("relu", y), maker.fuse(2);
            maker.output(y);
        }
        run(maker, GetParam().device, {{"engine.l1.size_bytes", maker.pick(0, 1) == 0 ? "131072" : "65536"}});
    }
}

TEST_P(Lower, BlocksOfPixelsAreCut) {
    for (const char* opcode : {"depth_to_space", "space_to_depth"}) {
        for (const char* mode : {"DCR", "CRD"}) {
            Maker maker(GetParam().elem, 36);
            const bool to_space = opcode == std::string("depth_to_space");
            const ValueId x = to_space ? maker.input({2, 20, 30, 36}) : maker.input({2, 60, 90, 4});
            NodeOptions options = maker.named("Blocks");
            options.quant = maker.graph().value(x).quant;
            maker.output(maker.graph().add_node(
                opcode, {x}, attributes({integer("block", 3), graph::word("mode", mode)}), options));
            run(maker, GetParam().device, little_l1);
        }
    }
}

TEST_P(Lower, IndicesOfElementsAreCut) {
    for (const int64_t axis : {0, 1, 2}) {
        Maker maker(GetParam().elem, 38);
        std::vector<int64_t> shape{12, 40, 30}, places = shape;
        places[static_cast<size_t>(axis)] += 25;
        places[static_cast<size_t>((axis + 1) % 3)] -= 3;  // of the others, the first ones
        const ValueId x = maker.input(shape);
        std::vector<double> indices;
        for (int64_t i = 0; i < dims(places).product(); ++i)
            indices.push_back(double(maker.pick(0, shape[static_cast<size_t>(axis)] - 1)));
        const ValueId index = maker.graph().add_constant("index", ElemType::i32, dims(places),
                                                         graph::make_numbers(ElemType::i32, indices));
        NodeOptions options = maker.named("Pick");
        options.quant = maker.graph().value(x).quant;
        maker.output(maker.graph().add_node("gather_elements", {x, index},
                                            attributes({integer("axis", axis)}), options));
        run(maker, GetParam().device, little_l1);
    }
}

// The table alone is larger than L1; indices count from the end, too.
TEST_P(Lower, RowsAreCopiedFromWhereTheyAre) {
    for (const auto& [rows, width, count] : {std::tuple<int64_t, int64_t, int64_t>{3000, 40, 77},
                                             {20000, 3, 5},
                                             {700, 500, 130},
                                             {90000, 1, 40}}) {
        Maker maker(GetParam().elem, 37);
        NodeOptions options = maker.named("Lookup");
        const bool given = count % 2 == 0;  // by the host
        const ValueId table = given ? maker.input({rows, width})
                                    : maker.constant({rows, width}, GetParam().elem, options.quant);
        options.quant = maker.graph().value(table).quant;
        std::vector<double> places;
        for (int64_t i = 0; i < count; ++i) places.push_back(double(maker.pick(-rows, rows - 1)));
        const ValueId index = maker.graph().add_constant("index", ElemType::i32, dims({count}),
                                                         graph::make_numbers(ElemType::i32, places));
        const ValueId y = maker.graph().add_node("gather_rows", {table, index}, {}, options);
        maker.output(y);
        maker.output(maker.unary("relu", y));
        const Result result = run(maker, GetParam().device, little_l1);
        EXPECT_FALSE(result.lowered.emitted.needs_values);
        EXPECT_EQ(result.lowered.plan.ops.at(0).homes.at(0), Home::in_place);
    }
}

TEST_P(Lower, AccumulatorsWithAnAddendAreCutAlongTheirSum) {
    Maker maker(GetParam().elem, 73);
    const ValueId x = maker.input({1, 9, 9, 800});
    NodeOptions sums = maker.named("Sums");
    sums.elem = maker.sums();
    if (!is_float(GetParam().elem)) sums.quant = maker.channels(3, 40);
    const ValueId w = maker.constant({3, 3, 800, 40}, GetParam().elem, sums.quant);
    const ValueId bias = maker.constant({40}, sums.elem, {});
    const ValueId y = maker.graph().add_node(
        "conv2d.acc", {x, w, bias},
        attributes({ints("pads", {1, 1, 1, 1}), ints("strides", {1, 1}), ints("dilations", {1, 1}),
                    integer("groups", 1), graph::type("accum_type", sums.elem)}),
        sums);
    maker.output(y);
    run(maker, GetParam().device, {{"engine.l1.size_bytes", "32768"}});
}

INSTANTIATE_TEST_SUITE_P(Devices, Lower,
                         ::testing::Values(Case{ElemType::f32, "tile32"}, Case{ElemType::f16, "swkpu-v1"},
                                           Case{ElemType::i8, "swkpu-v1"}, Case{ElemType::i8, "edge16"},
                                           Case{ElemType::i8, "npm_mid"}, Case{ElemType::f16, "npm_pro"}),
                         [](const auto& named) {
                             std::string name =
                                 std::string(name_of(named.param.elem)) + "_" + named.param.device;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

}  // namespace
}  // namespace kpu::compiler
