// Convolutions of 1x1 as products over all pixels.
#include "compiler/memory/flatten.hpp"

#include "tests/compiler/plan/maker.hpp"

namespace kpu::compiler {
namespace {

using namespace testing;

constexpr Case cases[] = {{ElemType::f32, "tile32"}, {ElemType::i8, "swkpu-v1"}, {ElemType::i8, "npm_mid"}};

/// Residuals and outputs of a 1x1 convolution are cut with it, along all pixels at once; a row of 13 pixels is no fill.
TEST(Flatten, PixelsAreOneAxis) {
    for (const auto& [elem, device] : cases) {
        Maker maker(elem, 6);
        const ValueId x = maker.input({3, 11, 13, 24}), residual = maker.input({3, 11, 13, 40});
        const ValueId y = maker.unary("relu", maker.binary("add", maker.conv(x, 40, 1, 1, 0), residual));
        maker.fuse(3);
        maker.output(y);
        const Result result = run(maker, device, {{"engine.l1.size_bytes", "32768"}});
        EXPECT_EQ(result.lowered.plan.ops.at(0).op.axes.at(2).extent, 3 * 11 * 13);
        const proto::Op& op = result.lowered.emitted.module.program.op(1);
        EXPECT_THAT(op.input_id(), ::testing::Contains("x1"));
        EXPECT_THAT(op.output_id(), ::testing::ElementsAre("y0"));
    }
}

/// A window of a picture has gaps between its rows, one of its channels has none.
TEST(Flatten, OnlyWhereRowsFollowEachOther) {
    for (const auto& [elem, device] : cases) {
        for (const int64_t axis : {2, 3}) {
            Maker maker(elem, 8);
            const ValueId x = maker.unary("relu", maker.input({1, 12, 14, 24}));
            NodeOptions options = maker.named("Slice");
            options.quant = maker.graph().value(x).quant;
            const ValueId part =
                maker.graph().add_node("slice", {x},
                                       attributes({ints("starts", {1}), ints("ends", {9}),
                                                   ints("axes", {axis}), ints("steps", {1})}),
                                       options);
            maker.output(maker.conv(part, 40, 1, 1, 0));
            const Result result = run(maker, device);
            EXPECT_EQ(result.lowered.plan.ops.at(1).op.axes.at(2).name, axis == 2 ? "x" : "pixels");
        }
    }
}

/// Checks that rows of tiles stay where the user fixes them.
TEST(Flatten, NotWhereAnAxisIsFixed) {
    Maker maker(ElemType::i8, 9);
    maker.output(maker.conv(maker.input({1, 12, 14, 24}), 40, 1, 1, 0));
    MappingWish wish;
    wish.pattern = "Conv0";
    wish.tile = {{"y", 4}};
    Guide guide;
    guide.wishes = MappingWishes({wish});
    const Lowered lowered = lower(maker.graph(), Target(platforms::load("swkpu-v1", {})), guide);
    EXPECT_EQ(lowered.plan.ops.at(0).op.axes.at(2).name, "x");
    EXPECT_EQ(lowered.plan.ops.at(0).tiling.tile.at(1), 4);
}

}  // namespace
}  // namespace kpu::compiler
