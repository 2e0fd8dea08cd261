// Nodes whose smallest tile is larger than a small L1 become several that fit and compute the same.
#include "compiler/passes/fit/fit_tiles.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "compiler/graph/data.hpp"
#include "isa/shapes.hpp"
#include "tests/compiler/passes/random_graphs.hpp"

namespace kpu::passes {
namespace {

using namespace testing;
using graph::attributes;
using graph::integer;
using graph::ints;
using graph::reals;
using graph::word;
using ::testing::HasSubstr;

constexpr uint64_t little = 16384;

/// One node on a random x, and what the pass makes of it for a little L1, checked by values: as texts of opcodes.
struct Single {
    Builder b{1};
    ValueId x;
    explicit Single(const std::vector<int64_t>& shape)
        : x(b.graph.add_input("x", ElemType::f32, graph::dims(shape))) {}

    std::string fitted(const std::string& opcode, BoundAttrs attrs, std::vector<ValueId> more = {},
                       double bound = 1e-5, uint64_t l1_bytes = little) {
        more.insert(more.begin(), x);
        output(b.graph, b.node(opcode, more, std::move(attrs)));
        Random inputs_of(2);
        const auto inputs = random_inputs(b.graph, inputs_of);
        const auto before = outputs_of(b.graph, inputs);
        Options with_l1 = options();
        with_l1.l1_bytes = l1_bytes;
        fit_tiles(b.graph, with_l1);
        graph::check(b.graph);
        EXPECT_LE(difference(before, outputs_of(b.graph, inputs)), bound) << opcode;
        return opcodes_of(b.graph);
    }
    ValueId vector(int64_t size) { return random_constant(b.graph, b.random, {size}); }
};

BoundAttrs over(std::vector<int64_t> axes, bool keep) {
    return attributes({ints("axes", std::move(axes)), integer("keepdims", keep ? 1 : 0)});
}

TEST(FitTiles, ReductionsReduceOneDimensionFirst) {
    for (const char* opcode :
         {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "reduce_l2"}) {
        for (const bool keep : {false, true}) {
            const std::string twice = std::string(opcode) + " " + opcode;
            EXPECT_EQ(Single({2, 60, 70, 3}).fitted(opcode, over({1, 2}, keep)), twice);
            EXPECT_EQ(Single({2, 3, 60, 70}).fitted(opcode, over({-1, -2}, keep)), twice);
            EXPECT_EQ(Single({12, 9, 8, 7}).fitted(opcode, over({0, 1, 2, 3}, keep)), twice);
            EXPECT_EQ(Single({3, 30, 20}).fitted(opcode, over({1, 2}, keep)), opcode);
        }
    }
}

TEST(FitTiles, OneLongDimensionIsReducedByParts) {
    EXPECT_EQ(Single({2, 9000}).fitted("reduce_sum", over({1}, true)), "reshape reduce_sum reduce_sum");
    EXPECT_EQ(Single({9000, 3}).fitted("reduce_mean", over({0}, false)), "reshape reduce_mean reduce_mean");
    for (const char* opcode :
         {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "reduce_l2"}) {
        Single prime({2, 9001});
        EXPECT_THAT(prime.fitted(opcode, over({1}, true)), HasSubstr("slice"));
        EXPECT_EQ(count(prime.b.graph, opcode), 4u);
        EXPECT_THAT(Single({3, 9001, 2}).fitted(opcode, over({0, 1}, false)), HasSubstr("concat"));
    }
}

TEST(FitTiles, PoolsOverWholeImagesPoolRowsFirst) {
    const auto whole = [](int64_t h, int64_t w) {
        return attributes(
            {ints("kernel_shape", {h, w}), ints("pads", {0, 0, 0, 0}), ints("strides", {1, 1})});
    };
    EXPECT_EQ(Single({2, 50, 60, 5}).fitted("avgpool", whole(50, 60)), "avgpool avgpool");
    EXPECT_EQ(Single({2, 50, 60, 5}).fitted("maxpool", whole(50, 60)), "maxpool maxpool");
    EXPECT_EQ(Single({2, 20, 30, 5}).fitted("avgpool", whole(20, 30)), "avgpool");
}

TEST(FitTiles, ResizesAreSeparable) {
    for (const char* coordinates : {"half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"}) {
        for (const char* mode : {"linear", "nearest"}) {
            const auto to = [&](int64_t h, int64_t w, int64_t channels = 3) {
                return attributes({ints("sizes", {1, h, w, channels}), word("mode", mode),
                                   word("coordinates", coordinates), word("nearest_mode", "floor")});
            };
            EXPECT_EQ(Single({1, 20, 30, 3}).fitted("resize", to(47, 71)), "resize resize") << coordinates;
            EXPECT_EQ(Single({1, 70, 50, 3}).fitted("resize", to(35, 25)), "resize resize") << coordinates;
            EXPECT_EQ(Single({1, 9, 8, 3}).fitted("resize", to(19, 21)), "resize");
            // one channel would fit, but as runs of four bytes
            EXPECT_EQ(Single({1, 9, 8, 16}).fitted("resize", to(19, 21, 16)), "resize resize");
        }
    }
    const BoundAttrs given =
        attributes({ints("sizes", {1, 45, 77, 3}), word("mode", "linear"), word("coordinates", "half_pixel"),
                    reals("scales", {1, 2.3, 2.6, 1})});
    EXPECT_EQ(Single({1, 20, 30, 3}).fitted("resize", given), "resize resize");
    const BoundAttrs repeated = attributes({ints("sizes", {1, 80, 90, 3}), word("mode", "nearest")});
    EXPECT_EQ(Single({1, 40, 30, 3}).fitted("resize", repeated), "resize");  // any part makes a part
}

TEST(FitTiles, TransposedConvolutionsBecomeEven) {
    const auto fitted = [](int64_t size, int64_t kernel, std::vector<int64_t> strides,
                           std::vector<int64_t> pads, std::vector<int64_t> more, int64_t dilation = 1) {
        Single of({2, size, size + 3, 6});
        const ValueId w = random_constant(of.b.graph, of.b.random, {kernel, kernel, 6, 5});
        return of.fitted(
            "conv_transpose2d",
            attributes({ints("pads", std::move(pads)), ints("strides", std::move(strides)),
                        ints("dilations", {dilation, dilation}), ints("output_padding", std::move(more)),
                        integer("groups", 1), graph::type("accum_type", ElemType::f32)}),
            {w, of.vector(5)});
    };
    EXPECT_EQ(fitted(20, 3, {2, 2}, {0, 0, 0, 0}, {0, 0}), "pad conv_transpose2d slice");
    EXPECT_EQ(fitted(20, 4, {2, 2}, {0, 1, 0, 1}, {0, 0}), "pad conv_transpose2d");
    EXPECT_EQ(fitted(20, 5, {3, 2}, {1, 4, 0, 2}, {1, 1}), "pad conv_transpose2d slice");
    EXPECT_EQ(fitted(20, 3, {2, 2}, {1, 1, 1, 1}, {0, 0}), "conv_transpose2d slice");
    EXPECT_EQ(fitted(20, 2, {3, 3}, {0, 0, 0, 0}, {0, 0}), "conv_transpose2d slice");
    EXPECT_EQ(fitted(20, 3, {2, 1}, {2, 0, 1, 2}, {0, 0}, 2), "pad conv_transpose2d");
    EXPECT_EQ(fitted(20, 4, {2, 2}, {1, 1, 1, 1}, {0, 0}), "conv_transpose2d");  // even
    EXPECT_EQ(fitted(5, 3, {2, 2}, {0, 0, 0, 0}, {0, 0}), "conv_transpose2d");   // fits
}

TEST(FitTiles, RowsOfLargeTablesAreCopied) {
    const auto looked_up = [](const std::vector<int64_t>& table, int64_t axis,
                              const std::vector<int64_t>& places, bool given = false) {
        Builder b{3};
        const ValueId x = given ? b.graph.add_input("table", ElemType::f32, graph::dims(table))
                                : random_constant(b.graph, b.random, table);
        std::vector<double> numbers;
        const int64_t rows = table[static_cast<size_t>(axis)];
        for (int64_t i = 0; i < graph::dims(places).product(); ++i)
            numbers.push_back(static_cast<double>(pick(b.random, -rows, rows - 1)));
        const ValueId index = b.graph.add_constant("index", ElemType::i32, graph::dims(places),
                                                   graph::make_numbers(ElemType::i32, numbers));
        output(b.graph, b.node("gather", {x, index}, attributes({integer("axis", axis)})));
        const auto inputs = random_inputs(b.graph, b.random);
        const auto before = outputs_of(b.graph, inputs);
        Options with_l1 = options();
        with_l1.l1_bytes = little;
        fit_tiles(b.graph, with_l1);
        graph::check(b.graph);
        EXPECT_EQ(difference(before, outputs_of(b.graph, inputs)), 0);
        return opcodes_of(b.graph);
    };
    const std::string copied = "reshape gather_rows reshape", flat = "gather_rows reshape";
    EXPECT_EQ(looked_up({5000, 64}, 0, {2, 3}), copied);
    EXPECT_EQ(looked_up({5000, 64}, 0, {2, 3}, true), copied);  // the host gives the table
    EXPECT_EQ(looked_up({5000, 3, 7}, 0, {4}), flat);
    EXPECT_EQ(looked_up({5000, 3, 7}, 0, {4}, true), copied);
    EXPECT_EQ(looked_up({1, 5000, 8}, 1, {4}), flat);
    EXPECT_EQ(looked_up({9001, 1}, 0, {50}), flat);
    EXPECT_EQ(looked_up({9001, 1}, 0, {9000}), flat);  // a column of it exceeds L1
    EXPECT_EQ(looked_up({70000}, 0, {5}), flat);
    EXPECT_EQ(looked_up({40, 9000}, 0, {3}),
              "reshape mul add reshape gather_rows reshape");  // rows exceed L1, too
    EXPECT_EQ(looked_up({40, 9001}, 0, {3}), "gather");        // and have no equal parts that fit
    EXPECT_EQ(looked_up({500, 64}, 0, {400}), "gather");       // the table whole is less than so many rows
    EXPECT_EQ(looked_up({3, 5000}, 1, {4}), "gather");         // columns
    EXPECT_EQ(looked_up({30, 50}, 0, {2}), flat);              // it fits L1, and is more than two rows cost
    EXPECT_EQ(looked_up({30, 50}, 0, {3}), "gather");
    EXPECT_EQ(looked_up({20, 4}, 0, {1}), "gather");
}

// 27 / (54 / 46) is a little below 23 in binary64.
TEST(FitTiles, WholePositionsOfNearestStayWhole) {
    const BoundAttrs attrs =
        attributes({ints("sizes", {54}), word("coordinates", "asymmetric"), reals("scales", {54.0 / 46})});
    const ResizeRule rule = resize_rule(graph::dims({46}), graph::dims({54}), attrs);
    for (int64_t i = 0; i < 54; ++i)
        EXPECT_EQ(static_cast<int64_t>(std::floor(rule.position(0, i, 46, 54))), i * 46 / 54) << i;
}

TEST(FitTiles, MirroredPaddingIsSeparable) {
    const auto pads = [](const char* mode) {
        return attributes({ints("pads", {0, 3, 1, 0, 0, 2, 4, 0}), word("mode", mode)});
    };
    EXPECT_EQ(Single({1, 40, 50, 3}).fitted("pad", pads("reflect"), {}, 0), "pad pad");
    EXPECT_EQ(Single({1, 10, 12, 3}).fitted("pad", pads("reflect"), {}, 0), "pad");
    // one channel would fit, but as runs of four bytes
    EXPECT_EQ(Single({1, 12, 14, 16}).fitted("pad", pads("reflect"), {}, 0), "pad pad");
    EXPECT_EQ(Single({1, 40, 50, 3}).fitted("pad", pads("edge"), {}, 0), "pad");
}

TEST(FitTiles, RunningSumsAreThoseOfParts) {
    for (const int64_t exclusive : {0, 1}) {
        for (const int64_t reverse : {0, 1}) {
            const auto along = [&](int64_t axis) {
                return attributes(
                    {integer("axis", axis), integer("exclusive", exclusive), integer("reverse", reverse)});
            };
            EXPECT_EQ(Single({2, 2500}).fitted("cumsum", along(1)),
                      "reshape cumsum reduce_sum cumsum add reshape");
            EXPECT_EQ(Single({2503, 3}).fitted("cumsum", along(0)),
                      "pad reshape cumsum reduce_sum cumsum add reshape slice");
            EXPECT_EQ(Single({4, 300}).fitted("cumsum", along(-1)), "cumsum");
        }
    }
}

TEST(FitTiles, LongRowsOfSoftmaxAreSpelledOut) {
    const auto along = [](int64_t axis) { return attributes({integer("axis", axis)}); };
    EXPECT_EQ(Single({3, 1700}).fitted("softmax", along(1)), "reduce_max sub exp reduce_sum div");
    EXPECT_EQ(Single({1700, 3}).fitted("softmax", along(0)),
              "reshape reduce_max reduce_max sub exp reshape reduce_sum reduce_sum div");
    EXPECT_EQ(Single({3, 1700}).fitted("log_softmax", along(-1)), "reduce_max sub exp reduce_sum log sub");
    EXPECT_EQ(Single({3, 500}).fitted("softmax", along(1)), "softmax");
    // more ones than f16 can count
    EXPECT_THAT(Single({2, 70000}).fitted("softmax", along(1), {}, 1e-5, 1048576),
                HasSubstr("exp mul reduce_sum"));
    EXPECT_THAT(Single({2, 70000}).fitted("log_softmax", along(1), {}, 1e-5, 1048576),
                HasSubstr("log sub sub"));
}

TEST(FitTiles, LongRowsOfNormsAreSpelledOut) {
    const char* spelled = "reduce_mean sub mul reduce_l2 concat reduce_l2 mul div";
    for (const double epsilon : {1e-5, 0.3}) {
        const BoundAttrs rows = attributes({integer("axis", 1), graph::real("epsilon", epsilon)});
        EXPECT_EQ(Single({3, 1700}).fitted("layernorm", rows), spelled);
        Single both({3, 1700});
        EXPECT_EQ(both.fitted("layernorm", rows, {both.vector(1700), both.vector(1700)}),
                  std::string(spelled) + " mul add");
        EXPECT_EQ(Single({3, 500}).fitted("layernorm", rows), "layernorm");
        for (const int64_t groups : {1, 4, 12}) {
            Single images({2, 13, 17, 12});
            const std::string got = images.fitted(
                "group_norm", attributes({integer("groups", groups), graph::real("epsilon", epsilon)}),
                {images.vector(12), images.vector(12)});
            EXPECT_EQ(got.substr(0, 8), "reshape ");
            EXPECT_EQ(got.substr(got.size() - 15), "reshape mul add");
        }
    }
    const BoundAttrs exact = attributes({integer("axis", 0), graph::real("epsilon", 0)});
    const char* in_halves = "reshape reduce_mean reduce_mean sub mul reshape reduce_l2 reduce_l2 mul div";
    EXPECT_EQ(Single({1700, 3}).fitted("layernorm", exact), in_halves);
    // one column would fit, but as runs of four bytes
    EXPECT_EQ(Single({600, 8}).fitted("layernorm", exact), in_halves);
    EXPECT_EQ(Single({200, 8}).fitted("layernorm", exact), "layernorm");
}

// Reductions that the norm of a very long row needs are cut again.
TEST(FitTiles, WhatIsAddedIsFittedToo) {
    const BoundAttrs rows = attributes({integer("axis", 1), graph::real("epsilon", 1e-5)});
    Single single({2, 9000});
    single.fitted("layernorm", rows);
    EXPECT_EQ(count(single.b.graph, "reduce_mean"), 2u);
    EXPECT_EQ(count(single.b.graph, "reduce_l2"), 3u);
}

BoundAttrs window(size_t rank, int64_t groups) {
    std::vector<int64_t> ones(rank, 1), pads(2 * rank, 1);
    return attributes({ints("pads", pads), ints("strides", ones), ints("dilations", ones),
                       integer("groups", groups), graph::type("accum_type", ElemType::f32)});
}

TEST(FitTiles, LargeGroupsOfChannelsHaveConvolutionsOfTheirOwn) {
    Single images({2, 5, 6, 36});
    const ValueId w = random_constant(images.b.graph, images.b.random, {3, 3, 12, 48});
    EXPECT_EQ(images.fitted("conv2d", window(2, 3), {w, images.vector(48)}, 0),
              "slice conv2d slice conv2d slice conv2d concat");
    Single lines({2, 9, 40});
    const ValueId taps = random_constant(lines.b.graph, lines.b.random, {3, 20, 80});
    EXPECT_EQ(lines.fitted("conv1d", window(1, 2), {taps}, 0), "slice conv1d slice conv1d concat");
    Single narrow({2, 5, 6, 36});
    const ValueId few = random_constant(narrow.b.graph, narrow.b.random, {3, 3, 3, 48});
    EXPECT_EQ(narrow.fitted("conv2d", window(2, 12), {few}, 0), "conv2d");
}

// Weights that are computed are cut as they are needed.
TEST(FitTiles, WeightsOfGroupsMayBeNoConstants) {
    Single images({1, 5, 6, 36});
    const ValueId w =
        images.b.node("relu", {images.b.graph.add_input("w", ElemType::f32, graph::dims({3, 3, 12, 48}))});
    EXPECT_EQ(images.fitted("conv2d", window(2, 3), {w}, 0),
              "relu slice slice conv2d slice slice conv2d slice slice conv2d concat");
}

// The activation joins the group of each part.
TEST(FitTiles, WhatFollowsGroupsWorksOnEach) {
    Single images({1, 5, 6, 36});
    const ValueId w = random_constant(images.b.graph, images.b.random, {3, 3, 12, 48});
    images.x = images.b.node("conv2d", {images.x, w}, window(2, 3));
    EXPECT_EQ(images.fitted("relu", {}, {}, 0),
              "slice conv2d relu slice conv2d relu slice conv2d relu concat");
}

// Integers keep the scales of their channels.
TEST(FitTiles, GroupsOfIntegersKeepTheirScales) {
    Single images({1, 5, 6, 36});
    graph::Graph& g = images.b.graph;
    BoundQuant steps, channels;
    steps.kind = proto::Quant::PER_TENSOR;
    steps.scales = {0.01};
    steps.zero_points = {0};
    channels.kind = proto::Quant::PER_CHANNEL;
    channels.axis = 3;
    channels.zero_points.assign(144, 0);
    for (int c = 0; c < 144; ++c) channels.scales.push_back(0.002 + 0.0001 * c);
    std::vector<double> numbers;
    for (int i = 0; i < 3 * 3 * 12 * 144; ++i)
        numbers.push_back(static_cast<double>(pick(images.b.random, -127, 127)));
    const ValueId w = g.add_constant("w", ElemType::i8, graph::dims({3, 3, 12, 144}),
                                     graph::make_numbers(ElemType::i8, numbers), channels);
    graph::NodeOptions quantized{{"q", "QuantizeLinear"}, {}, ElemType::i8, steps};
    images.x = g.add_node("quantize", {images.x}, {}, quantized);
    BoundAttrs attrs = window(2, 3);
    for (BoundAttr& attribute : attrs.list) {
        if (attribute.name == "accum_type") attribute.type = ElemType::i32;
    }
    BoundQuant wide = steps;
    wide.scales = {0.05};
    images.x = g.add_node("conv2d", {images.x, w}, attrs, {{"c", "Conv"}, {}, ElemType::i8, wide});
    graph::NodeOptions reals_of{{"d", "DequantizeLinear"}, {}, ElemType::f32, {}};
    images.x = g.add_node("dequantize", {images.x}, {}, reals_of);
    EXPECT_THAT(images.fitted("relu", {}, {}, 0), HasSubstr("slice conv2d slice conv2d slice conv2d concat"));
}

BoundAttrs backwards(int64_t axis, int64_t start, int64_t step) {
    return attributes(
        {ints("starts", {start}), ints("ends", {-100000}), ints("axes", {axis}), ints("steps", {step})});
}

// Rows backwards, and each of them; what is no whole row stands behind.
TEST(FitTiles, LongLinesGoBackwardsInRows) {
    const std::string rows = "reshape slice slice reshape";
    EXPECT_EQ(Single({2, 2500, 3}).fitted("slice", backwards(1, -1, -1), {}, 0), rows);
    EXPECT_EQ(Single({2, 2503, 3}).fitted("slice", backwards(1, -1, -1), {}, 0),
              "slice " + rows + " slice slice concat");
    EXPECT_EQ(Single({2, 7500}).fitted("slice", backwards(1, -1, -3), {}, 0), "slice " + rows);
    EXPECT_EQ(Single({2, 100, 3}).fitted("slice", backwards(1, -1, -1), {}, 0), "slice");
    Single({2, 100, 3}).fitted("slice", backwards(1, -1, -1), {}, 0, 1024);  // in which nothing fits: it ends
}

TEST(FitTiles, BordersOfLongLinesAreJoined) {
    const auto pads = [](const char* mode, int64_t before, int64_t behind) {
        return attributes({ints("pads", {0, before, 0, 0, behind, 0}), word("mode", mode),
                           graph::real("constant_value", 0)});
    };
    EXPECT_EQ(Single({2, 2500, 3}).fitted("pad", pads("reflect", 2, 3), {}, 0),
              "slice slice slice slice concat");
    EXPECT_EQ(Single({2, 2500, 3}).fitted("pad", pads("reflect", 0, 3), {}, 0), "slice slice concat");
    EXPECT_EQ(Single({2, 25, 3}).fitted("pad", pads("edge", 0, 512), {}, 0),
              "slice concat concat concat concat concat concat concat concat concat concat");
    EXPECT_EQ(Single({2, 25, 3}).fitted("pad", pads("edge", 2, 3), {}, 0), "pad");
}

// Positions are the same in each row; where they are not, nothing is cut.
TEST(FitTiles, LongLinesAreResizedInRows) {
    const auto to = [](int64_t size, const char* coordinates, const char* mode) {
        return attributes(
            {ints("sizes", {2, size, 3}), word("mode", mode), word("coordinates", coordinates)});
    };
    for (const char* mode : {"linear", "nearest"}) {
        for (const char* coordinates :
             {"half_pixel", "asymmetric", "pytorch_half_pixel", "half_pixel_symmetric"}) {
            for (const int64_t size : {1250, 1875, 3750}) {
                Single line({2, 2500, 3});
                EXPECT_THAT(line.fitted("resize", to(size, coordinates, mode)),
                            HasSubstr("reshape slice reshape slice concat resize slice reshape"))
                    << size << coordinates << mode;
            }
        }
    }
    EXPECT_EQ(Single({2, 2500, 3}).fitted("resize", to(5000, "align_corners", "linear")), "resize");
    EXPECT_EQ(Single({2, 2500, 3}).fitted("resize", to(2501, "half_pixel", "linear")), "resize");
}

TEST(FitTiles, PoolsOverLinesAndRootMeanSquares) {
    const auto over_all = [](int64_t height, int64_t width) {
        return attributes(
            {ints("kernel_shape", {height, width}), ints("strides", {1, 1}), ints("pads", {0, 0, 0, 0})});
    };
    EXPECT_EQ(Single({2, 1, 5000, 3}).fitted("avgpool", over_all(1, 5000)),
              "reshape reduce_mean reduce_mean");
    EXPECT_EQ(Single({2, 5000, 1, 3}).fitted("maxpool", over_all(5000, 1), {}, 0),
              "reshape reduce_max reduce_max");
    Single row({2, 5000});
    const ValueId scale = row.vector(5000);
    const std::string made =
        row.fitted("rmsnorm", attributes({integer("axis", 1), graph::real("epsilon", 1e-5)}), {scale});
    EXPECT_THAT(made, AllOf(HasSubstr("reduce_l2"), HasSubstr("div"), Not(HasSubstr("reduce_mean"))));
}

}  // namespace
}  // namespace kpu::passes
