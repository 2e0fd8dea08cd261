// Tiles between DDR and L1 stand in L2 with rows that begin as far from a burst's end as in DDR.
#include <algorithm>

#include "isa/bound_program.hpp"
#include "tests/compiler/plan/maker.hpp"

namespace kpu::compiler {
namespace {

using namespace testing;

class Staging : public ::testing::TestWithParam<Case> {};

bool has_gaps(const PlannedOp& op) {
    const std::vector<Dims>& staged = op.tiling.staged;
    return std::any_of(staged.begin(), staged.end(), [](const Dims& strides) { return strides.rank > 0; });
}

TEST_P(Staging, ProductsOfOddSides) {
    size_t with_gaps = 0;
    for (uint32_t seed = 0; seed < 6; ++seed) {
        Maker maker(GetParam().elem, seed);
        const ValueId x = maker.input({2 * maker.pick(30, 100) + 1, 2 * maker.pick(15, 50) + 1});
        maker.output(maker.gemm(x, 2 * maker.pick(200, 500) + 1));
        const Result result = run(maker, GetParam().device, {{"engine.l1.size_bytes", "65536"}});
        with_gaps += has_gaps(result.lowered.plan.ops.at(0)) ? 1 : 0;
    }
    EXPECT_GT(with_gaps, 0u);
}

TEST_P(Staging, ConvolutionsOfOddSides) {
    for (uint32_t seed = 0; seed < 4; ++seed) {
        Maker maker(GetParam().elem, 10 + seed);
        const ValueId x = maker.input({1, 37, 2 * maker.pick(15, 30) + 1, 2 * maker.pick(5, 20) + 1});
        maker.output(maker.conv(x, 2 * maker.pick(20, 60) + 1, 3, 1, 1));
        run(maker, GetParam().device, {{"engine.l1.size_bytes", "65536"}});
    }
}

/// Both ends of each of its transfers between DDR and L2, in the first iterations of their loops.
TEST(StagingOf, ResultsBeginAlikeOnBothSides) {
    Maker maker(ElemType::i8, 3);
    maker.output(maker.gemm(maker.input({126, 74}), 1201));
    const Result result = run(maker, "tile32");
    ASSERT_TRUE(has_gaps(result.lowered.plan.ops.at(0)));
    const platforms::Platform platform = platforms::load("tile32");
    const BoundProgram program = bind(std::make_shared<const Module>(result.lowered.emitted.module), {},
                                      platforms::limits_of(platform));
    size_t results = 0;
    for (const BoundTask& task : program.tasks) {
        if (!task.moves()) continue;
        const BoundRegion& from = program.regions[task.inputs[0]];
        const BoundRegion& to = program.regions[task.outputs[0]];
        if (from.level != Level::l2 || to.level != Level::ddr) continue;
        ++results;
        for (const int64_t iteration : {0, 1, 2}) {
            LoopValues loops;
            loops.push(iteration);
            EXPECT_EQ((from.address.eval(loops) - to.address.eval(loops)) % 256, 0);
        }
        EXPECT_EQ((from.strides[0] - to.strides[0]) % 256, 0);
    }
    EXPECT_GT(results, 0u);
}

INSTANTIATE_TEST_SUITE_P(Devices, Staging,
                         ::testing::Values(Case{ElemType::f32, "tile32"}, Case{ElemType::i8, "tile32"},
                                           Case{ElemType::f16, "tile32"}, Case{ElemType::f16, "npm_pro"}),
                         [](const auto& named) {
                             std::string name =
                                 std::string(name_of(named.param.elem)) + "_" + named.param.device;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

}  // namespace
}  // namespace kpu::compiler
