// Inputs that L1 cannot hold while a stage runs come to L2 once for the stage, not from DDR with each
// iteration.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "tests/compiler/plan/maker.hpp"

namespace kpu::compiler {
namespace {

using namespace testing;

bool keeps_parts(const PlannedOp& op) {
    return std::find(op.tiling.keep.begin(), op.tiling.keep.end(), Keep::stage) != op.tiling.keep.end();
}

/// Many input channels, and rows that are many iterations: the sum is cut, each part of the weights is read by every iteration.
TEST(Kept, WeightsOfAStageComeFromDramOnce) {
    Maker maker(ElemType::f16, 5);
    const ValueId x = maker.input({1, 24, 24, 96});
    maker.output(maker.conv(x, 80, 3, 1, 1));
    const Result result = run(maker, "tile32", {{"engine.l1.size_bytes", "32768"}});
    const PlannedOp& op = result.lowered.plan.ops.at(0);
    ASSERT_TRUE(keeps_parts(op));
    uint64_t once = 0;
    for (const TileOperand& operand : op.op.operands) {
        const graph::Value& value = result.lowered.plan.graph->value(operand.value);
        once += packed_bytes(value.elem, value.elements());
    }
    EXPECT_LT(double(result.dram_bytes), 1.1 * double(once));
}

/// Operations follow each other, so that a place in L2 is another tensor's before and after; little L2, two
/// engines.
TEST(Kept, RandomNetworksKeepTheirValues) {
    int kept = 0;
    for (uint32_t seed = 0; seed < 30; ++seed) {
        Maker maker(seed % 2 == 0 ? ElemType::f16 : ElemType::i8, 700 + seed);
        ValueId x =
            maker.input({maker.pick(1, 2), maker.pick(10, 24), maker.pick(8, 20), maker.pick(20, 120)});
        for (int64_t layer = maker.pick(1, 2); layer > 0; --layer) {
            x = maker.conv(x, maker.pick(8, 90), maker.pick(1, 2) * 2 - 1, maker.pick(1, 2),
                           maker.pick(0, 1));
            if (maker.pick(0, 1) == 0) x = maker.unary("relu", x);
        }
        maker.output(x);
        const std::string l1 = std::to_string(int64_t{8192} << maker.pick(0, 2));
        const std::string l2 = std::to_string(int64_t{131072} << maker.pick(0, 3));
        platforms::Overrides device{{"engine.l1.size_bytes", l1}, {"l2.size_bytes", l2}};
        if (maker.pick(0, 3) == 0) device.emplace_back("engine.count", "2");
        const Result result = run(maker, maker.pick(0, 1) == 0 ? "tile32" : "swkpu-v1", device);
        for (const PlannedOp& op : result.lowered.plan.ops) kept += keeps_parts(op) ? 1 : 0;
    }
    EXPECT_GE(kept, 2);
}

}  // namespace
}  // namespace kpu::compiler
