#include "model/timing/systolic.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "base/diagnostics.hpp"
#include "tests/reference/systolic_rows.hpp"

namespace kpu::timing {
namespace {

using Array = proto::SystolicArray;
using reference::number;

SystolicArray make(uint64_t rows, uint64_t cols, Array::Dataflow dataflow, Array::Timing timing,
                   double rate = 1) {
    return {rows, cols, dataflow, timing, rate};
}

void expect_reference_rows(const std::string& file, size_t expected_rows) {
    const auto rows = reference::systolic_rows(file);
    ASSERT_EQ(rows.size(), expected_rows);
    for (const Row& row : rows) {
        SCOPED_TRACE(row.at("net") + " " + row.at("layer") + " " + row.at("dataflow") + " " + row.at("R") +
                     "x" + row.at("C"));
        const SystolicArray array = reference::array_of(row, Array::compat);
        const GemmShape shape = reference::shape_of(row);
        const SystolicTime time = systolic_time(array, shape);
        EXPECT_EQ(time.total(), number(row, "total_cycles"));
        EXPECT_EQ(time.a_reads, number(row, "sram_ifmap_reads"));
        EXPECT_EQ(time.b_reads, number(row, "sram_filter_reads"));
        // the reference tool adds folds * (R + C) to the writes of output-stationary arrays, a known bug of
        // it
        if (array.dataflow != Array::os) {
            EXPECT_EQ(time.writes, number(row, "sram_ofmap_writes"));
        } else {
            EXPECT_EQ(time.writes, shape.m * shape.n);
        }
        EXPECT_NEAR(time.mapping_efficiency * 100, std::stod(row.at("mapping_eff_pct")), 1e-9);
    }
}

TEST(SystolicCompat, EqualsEveryGemmRowOfTheReferenceTable) {
    expect_reference_rows("gemm_nostall.csv", 517);
}
TEST(SystolicCompat, EqualsEveryConvolutionRowOfTheReferenceTable) {
    expect_reference_rows("conv_nostall.csv", 358);
}

// The last of commands of 16 vectors alone hides the next weights: streams of 7, 16 and 20, and rows of 28
// and 14 pixels.
TEST(SystolicPhysical, WeightsEnterBehindTheLastCommand) {
    SystolicArray array = make(16, 16, Array::ws, Array::physical);
    array.command_rows = 16;
    constexpr uint64_t folds = 4;
    const auto pace = [&](uint64_t m, uint64_t run) {
        GemmShape shape{m, 32, 32};
        shape.run = run;
        const SystolicTime time = systolic_time(array, shape);
        EXPECT_EQ(time.steady, folds * m);
        EXPECT_EQ(time.occupancy % folds, 0u);
        EXPECT_EQ(time.waits, (folds - 1) * (time.occupancy / folds - m));
        return time.occupancy / folds;
    };
    EXPECT_EQ(pace(7, 0), 16u);
    EXPECT_EQ(pace(16, 0), 16u);
    EXPECT_EQ(pace(20, 0), 16u + 16);          // 4 vectors in the last command
    EXPECT_EQ(pace(28 * 4, 28), 28u * 4 + 4);  // 12
    EXPECT_EQ(pace(14 * 14, 14), 14u * 14 + 2);
    EXPECT_EQ(pace(7 * 7, 7), 7u * 7 + 9);
    array.command_rows = 0;
    EXPECT_EQ(pace(20, 0), 20u);
    EXPECT_EQ(pace(7 * 7, 7), 49u);
}

// No command follows another sooner than command_cycles: rows of 2 and 4 pixels cost what they would with 8, and long ones what
// they do without it.
TEST(SystolicPhysical, CommandsTakeTheirIssue) {
    SystolicArray array = make(16, 16, Array::ws, Array::physical);
    array.command_rows = 16;
    array.command_cycles = 8;
    const auto steady = [&](uint64_t m, uint64_t run) {
        GemmShape shape{m, 16, 16};
        shape.run = run;
        return systolic_time(array, shape).steady;
    };
    EXPECT_EQ(steady(2 * 14, 2), 14u * 8);
    EXPECT_EQ(steady(4 * 28, 4), 28u * 8);
    EXPECT_EQ(steady(14 * 14, 14), 14u * 14);
    EXPECT_EQ(steady(20 * 3, 20), 3u * (16 + 8));
    EXPECT_EQ(steady(20, 0), 16u + 8);
    array.command_rows = 0;  // the whole stream is a command
    EXPECT_EQ(steady(4 * 28, 4), 4u * 28);
    EXPECT_EQ(steady(5, 0), 8u);
    array.dataflow = Array::os;
    EXPECT_EQ(steady(5, 0), 16u);  // streams the sum, without commands
}

// One fold of an output-stationary array takes 2R + C + K - 2 cycles to the last drained row.
TEST(SystolicPhysical, OneFoldTakesFillStreamAndDrain) {
    const auto time = systolic_time(make(8, 16, Array::os, Array::physical), {8, 16, 100});
    EXPECT_EQ(time.folds, 1u);
    EXPECT_EQ(time.total(), 2u * 8 + 16 + 100 - 2);
    EXPECT_EQ(time.fill, 8u + 16 - 2);
    EXPECT_EQ(time.steady, 100u);
    EXPECT_EQ(time.drain, 8u);
    EXPECT_EQ(time.padding, 0u);
}

// A long second fold hides the first one's drain completely; a short one (K < R) waits for it.
TEST(SystolicPhysical, NextFoldEntersWhileThisOneDrains) {
    const auto array = make(8, 16, Array::os, Array::physical);
    const auto one = systolic_time(array, {8, 16, 100}).total();
    EXPECT_EQ(systolic_time(array, {16, 16, 100}).total(), one + 100);
    const auto short_one = systolic_time(array, {8, 16, 3}).total();
    EXPECT_EQ(systolic_time(array, {16, 16, 3}).total(), short_one + 8);
}

// The second weight register hides the next weight load when the stream is longer than the array is tall.
TEST(SystolicPhysical, WeightLoadIsHiddenBehindTheStream) {
    const auto array = make(8, 16, Array::ws, Array::physical);
    const auto one = systolic_time(array, {50, 16, 8}).total();
    // 8 to load, the last input enters 49 later, 7 + 15 to the far corner, its cycle there, one to accumulate
    EXPECT_EQ(one, 8u + 49 + 7 + 15 + 1 + 1);
    EXPECT_EQ(systolic_time(array, {50, 32, 8}).total(), one + 50);
    EXPECT_EQ(systolic_time(array, {2, 32, 8}).total(), systolic_time(array, {2, 16, 8}).total() + 8);
}

// The terms of one fold: weights enter row by row, the skew fills the array, results are added below it.
TEST(SystolicPhysical, WeightLoadFillSteadyAndDrainAreSeparateTerms) {
    const auto time = systolic_time(make(8, 16, Array::ws, Array::physical), {50, 16, 8});
    EXPECT_EQ(time.weight_load, 8u);
    EXPECT_EQ(time.fill, 7u);
    EXPECT_EQ(time.steady, 50u);
    EXPECT_EQ(time.drain, 16u);
}

// Folds over K add to the partial sums of the fold before: each result is read back once per further fold.
TEST(SystolicPhysical, FoldsOverKReadPartialSumsBack) {
    const auto ws = systolic_time(make(8, 16, Array::ws, Array::physical), {50, 20, 17, 2});
    EXPECT_EQ(ws.writes, 2u * 50 * 20 * 3);
    EXPECT_EQ(ws.partial_reads, 2u * 50 * 20 * 2);
    EXPECT_EQ(systolic_time(make(8, 16, Array::os, Array::physical), {50, 20, 17}).partial_reads, 0u);
}

// Products that follow each other pay fill and drain once; a short one waits for the drain before it (os),
// or hides no weight load (ws).
TEST(SystolicPhysical, BackToBackProductsPayFillAndDrainOnce) {
    for (const auto dataflow : {Array::os, Array::ws, Array::is}) {
        const auto array = make(8, 8, dataflow, Array::physical);
        const auto one = systolic_time(array, {64, 64, 64});
        const auto three = back_to_back_cycles(array, {{64, 64, 64}, {64, 64, 64}, {64, 64, 64}});
        EXPECT_EQ(three, one.total() + 2 * one.steady);
    }
    const auto os = make(8, 8, Array::os, Array::physical);
    EXPECT_EQ(back_to_back_cycles(os, {{8, 8, 20}, {8, 8, 3}}), systolic_time(os, {8, 8, 20}).total() + 8);
    EXPECT_EQ(back_to_back_cycles(os, {{8, 8, 3}, {8, 8, 20}}), systolic_time(os, {8, 8, 20}).total() + 3);
    const auto ws = make(8, 8, Array::ws, Array::physical);
    EXPECT_EQ(back_to_back_cycles(ws, {{3, 8, 8}, {20, 8, 8}}), systolic_time(ws, {20, 8, 8}).total() + 8);
    EXPECT_EQ(back_to_back_cycles(ws, {{20, 8, 8}, {3, 8, 8}}), systolic_time(ws, {3, 8, 8}).total() + 20);
}

// A type with rate 1/2 doubles the steady state and nothing else; rate 4 divides it by 4.
TEST(SystolicPhysical, RateScalesTheSteadyStateOnly) {
    const auto base = systolic_time(make(32, 32, Array::os, Array::physical), {64, 64, 256});
    const auto half = systolic_time(make(32, 32, Array::os, Array::physical, 0.5), {64, 64, 256});
    const auto fast = systolic_time(make(32, 32, Array::os, Array::physical, 4), {64, 64, 256});
    EXPECT_EQ(half.steady, 2 * base.steady);
    EXPECT_EQ(fast.steady * 4, base.steady);
    EXPECT_EQ(half.fill, base.fill);
    EXPECT_EQ(fast.drain, base.drain);
}

// An edge fold pads: 33 rows on 32 take two folds, and all idle elements are counted as padding.
TEST(SystolicPhysical, EdgeFoldsCountAsPadding) {
    const auto time = systolic_time(make(32, 32, Array::os, Array::physical), {33, 32, 320});
    EXPECT_EQ(time.steady, 640u);
    EXPECT_EQ(time.padding, 640u - 330u);
}

// Ports of half a word: whole folds last twice as long; a port that is wide enough changes nothing.
TEST(SystolicStarvation, WholeFoldsLastAsLongAsTheirBytesTake) {
    const GemmShape whole{8, 8, 64, 1};  // 2 x 2 folds of 64 words
    for (const auto dataflow : {Array::os, Array::ws, Array::is}) {
        const SystolicArray array = make(4, 4, dataflow, Array::physical);
        EXPECT_EQ(starved_operands_in(array, whole, {32, 32, 8, 8}), std::nullopt);
    }
    const SystolicArray array = make(4, 4, Array::os, Array::physical);
    EXPECT_EQ(starved_operands_in(array, whole, {16, 32, 8, 8}), 4u * 64 * 2);
    EXPECT_EQ(starved_operands_in(array, whole, {16, 16, 8, 8}), 4u * 64 * 2);
    EXPECT_EQ(starved_operands_in(array, whole, {32, 32, 16, 8}), 4u * 64 * 2);
}

// An edge fold of one row leaves its port idle, but for the words that are read ahead for the next fold.
TEST(SystolicStarvation, LightEdgeFoldsDoNotMakeUpForWholeOnes) {
    const SystolicArray array = make(4, 4, Array::os, Array::physical);
    const GemmShape edge{5, 4, 64, 1};  // 64 words of 4 elements, then 64 of one
    EXPECT_EQ(starved_operands_in(array, edge, {16, 32, 8, 8}), 64u * 2 + 64);
    EXPECT_EQ(starved_operands_in(array, {5, 4, 64, 1}, {8, 32, 8, 8}), 64u * 4 + 64);
}

class SystolicProperties
    : public ::testing::TestWithParam<std::tuple<Array::Dataflow, Array::Timing, double>> {};

// Never faster than the peak, and never faster for a bigger product.
TEST_P(SystolicProperties, NeverBelowPeakAndMonotone) {
    const auto [dataflow, timing, rate] = GetParam();
    for (uint64_t rows : {2, 8, 16}) {
        for (uint64_t cols : {4, 8, 32}) {
            const auto array = make(rows, cols, dataflow, timing, rate);
            for (uint64_t m : {1, 2, 7, 8, 9, 16, 17, 40}) {
                for (uint64_t n : {1, 3, 8, 31, 32, 33, 65}) {
                    for (uint64_t k : {1, 2, 8, 15, 16, 17, 100}) {
                        const auto time = systolic_time(array, {m, n, k});
                        const double bound = double(m * n * k) / (double(rows * cols) * rate);
                        ASSERT_GE(double(time.total()), bound);
                        ASSERT_LE(time.total(), systolic_time(array, {m + 1, n, k}).total());
                        ASSERT_LE(time.total(), systolic_time(array, {m, n + 1, k}).total());
                        ASSERT_LE(time.total(), systolic_time(array, {m, n, k + 1}).total());
                        ASSERT_LE(time.total(), systolic_time(array, {m, n, k, 2}).total());
                        ASSERT_LE(time.padding, time.steady);
                        ASSERT_LE(time.first_result, time.total());
                    }
                }
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(All, SystolicProperties,
                         ::testing::Combine(::testing::Values(Array::os, Array::ws, Array::is),
                                            ::testing::Values(Array::compat, Array::physical),
                                            ::testing::Values(0.5, 1.0, 4.0)));

// 1,000 random layers, every dataflow, six arrays: never faster than MACs / peak, monotone in M, N and K, and
// the terms add up to what the array is busy for.
TEST(SystolicPhysical, RandomLayersKeepToThePeakAndAreMonotone) {
    std::mt19937_64 random(7);
    const auto size = [&] { return uint64_t{1} + random() % (uint64_t{1} << (1 + random() % 11)); };
    for (int i = 0; i < 1000; ++i) {
        const GemmShape s{size(), size(), size()};
        for (const auto dataflow : {Array::os, Array::ws, Array::is}) {
            for (const auto& [rows, cols] :
                 {std::pair{4, 4}, {8, 8}, {16, 32}, {32, 32}, {64, 128}, {128, 128}}) {
                const auto array =
                    make(static_cast<uint64_t>(rows), static_cast<uint64_t>(cols), dataflow, Array::physical);
                const SystolicTime time = systolic_time(array, s);
                ASSERT_GE(time.total() * array.rows * array.cols, s.macs());
                ASSERT_EQ(time.steady - time.padding, s.macs() / (array.rows * array.cols));
                ASSERT_LE(time.operands_in, time.total());
                ASSERT_LE(time.first_result, time.total());
                const uint64_t step = 1 + random() % 40;
                ASSERT_LE(time.total(), systolic_time(array, {s.m + step, s.n, s.k}).total());
                ASSERT_LE(time.total(), systolic_time(array, {s.m, s.n + step, s.k}).total());
                ASSERT_LE(time.total(), systolic_time(array, {s.m, s.n, s.k + step}).total());
            }
        }
    }
}

// A one-element array streams one MAC per cycle; compat reports one cycle less, as its formula says.
TEST(SystolicCompat, OneElementArrayFollowsTheFormula) {
    EXPECT_EQ(systolic_time(make(1, 1, Array::os, Array::compat), {2, 2, 3}).total(), 4u * 3 - 1);
    EXPECT_EQ(systolic_time(make(1, 1, Array::os, Array::physical), {2, 2, 3}).total(), 4u * 3 + 1);
}

// A transposed convolution is the product of X's pixels with all taps of the window: 2 x 3 x 3 pixels, 8 channels in
// 2 groups, window 4 x 4, 10 channels out. Its MACs are those of the product.
TEST(SystolicShapes, TransposedConvolutionsAreProducts) {
    BoundProgram program;
    for (const std::vector<int64_t>& sizes :
         {std::vector<int64_t>{2, 3, 3, 8}, {4, 4, 4, 10}, {2, 8, 8, 10}}) {
        BoundRegion region;
        for (const int64_t size : sizes) region.shape[region.shape.rank++] = size;
        program.regions.push_back(region);
    }
    BoundTask task;
    task.opcode = find_opcode("conv_transpose2d").value();
    task.inputs = {0, 1};
    task.outputs = {2};
    BoundAttr groups;
    groups.name = "groups";
    groups.integer = 2;
    task.attrs.list = {groups};
    const GemmShape shape = gemm_shape(program, task);
    EXPECT_EQ(shape.m, 2u * 3 * 3);
    EXPECT_EQ(shape.k, 4u);
    EXPECT_EQ(shape.n, 4u * 4 * 5);
    EXPECT_EQ(shape.groups, 2u);
    const OpcodeSpec& spec = opcode(task.opcode);
    EXPECT_EQ(spec.macs(program.regions[0].shape, program.regions[1].shape, 0, task.attrs), 18u * 4 * 80 * 2);
}

// Zeros beside the blocks of weights take time like other weights, and are padding.
TEST(SystolicArrayFor, CountsZerosBesideBlocksAsPadding) {
    SystolicArray array;
    array.rows = array.cols = 8;
    GemmShape shape{64, 4, 36, 3};
    const SystolicTime full = systolic_time(array, shape);
    shape.blocks = 4;
    const SystolicTime blocks = systolic_time(array, shape);
    EXPECT_EQ(blocks.total(), full.total());
    EXPECT_EQ(shape.macs(), 64u * 9 * 4 * 3);
    EXPECT_EQ(full.steady - full.padding, 64u * 4 * 36 * 3 / 64);
    EXPECT_EQ(blocks.steady - blocks.padding, 64u * 9 * 4 * 3 / 64);
    EXPECT_EQ(blocks.a_reads, full.a_reads);
    EXPECT_EQ(blocks.b_reads, full.b_reads);
}

// Operand types without a rate are refused by name.
TEST(SystolicArrayFor, RefusesTypesWithoutRate) {
    Array array;
    array.set_rows(4);
    array.set_cols(8);
    auto* rate = array.add_rate();
    rate->set_type("i8xi4");
    rate->set_relative(4);
    EXPECT_EQ(array_for(array, ElemType::i8, ElemType::i4).peak_q16(), (uint64_t{4} * 8 * 4) << 16);
    EXPECT_THROW(array_for(array, ElemType::f16, ElemType::f16), UserError);
}

}  // namespace
}  // namespace kpu::timing
