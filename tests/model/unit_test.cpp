// Time of single tasks against hand-computed sums.
#include <gtest/gtest.h>

#include "model/timing/systolic.hpp"
#include "tests/model/device_fixture.hpp"

namespace kpu::model {
namespace {

using builder::Program;
using builder::tensor;

Outcome run_gemm(const proto::Platform& platform, int64_t m, int64_t n, int64_t k,
                 ElemType type = ElemType::i8) {
    Program p("gemm");
    l1_gemm(p, m, n, k, type);
    return run_by_task(platform, bound(p, platform));
}

uint64_t busy(const Outcome& r, const std::string& unit) {
    return stat(r, "units." + unit + ".busy.useful") + stat(r, "units." + unit + ".busy.fill_drain") +
           stat(r, "units." + unit + ".busy.padding");
}

// A gemm from L1 is busy for exactly its formula's time, and ends a write latency after it at most.
TEST(ArrayUnit, BusyForTheFormulasTime) {
    const auto platform = platform_with("tile32");
    const Outcome r = run_gemm(platform, 64, 64, 64);
    EXPECT_EQ(stat(r, "units.e0_nmu0.busy.fill_drain"), 32u + 32 - 2 + 32);
    EXPECT_EQ(stat(r, "units.e0_nmu0.busy.useful"), 4u * 64);
    EXPECT_EQ(stat(r, "units.e0_nmu0.busy.padding"), 0u);
    EXPECT_GE(r.cycles, 2u * 32 + 32 + 64 - 2 + 3 * 64);
    EXPECT_LE(r.cycles, 2u * 32 + 32 + 64 - 2 + 3 * 64 + 8);
}

// In compat mode the busy time is the reference tool's, and the idle elements of an edge fold are padding.
TEST(ArrayUnit, CompatBusyTimeIsTheReferenceTools) {
    for (const char* dataflow : {"os", "ws", "is"}) {
        const auto platform =
            platform_with("tile32", {{"engine.array.timing", "compat"}, {"engine.array.dataflow", dataflow}});
        const Outcome r = run_gemm(platform, 40, 33, 70);
        const auto array = timing::array_for(platform.engine(0).array(), ElemType::i8, ElemType::i8);
        EXPECT_EQ(busy(r, "e0_nmu0"), timing::systolic_time(array, {40, 33, 70}).total()) << dataflow;
        EXPECT_EQ(stat(r, "units.e0_nmu0.busy.useful"), 40u * 33 * 70 / 1024);
    }
}

// Ports wider than a burst feed wide arrays: f32 on 32 rows and bf16 on 128 rows work at the formula's rate.
TEST(ArrayUnit, WideOperandsFeedTheArray) {
    const Outcome f32 = run_gemm(platform_with("tile32"), 64, 64, 256, ElemType::f32);
    EXPECT_LE(f32.cycles, 94u + 4 * 256 + 30);
    const Outcome bf16 = run_gemm(platform_with("core128-hbm2"), 256, 256, 512, ElemType::bf16);
    EXPECT_LE(bf16.cycles, 3u * 128 - 2 + 4 * 512 + 60);
}

// A bigger array, another dataflow, another timing and a slower type all change the time.
TEST(ArrayUnit, EveryParameterChangesTheTime) {
    const Cycles base = run_gemm(platform_with("tile32"), 40, 64, 256).cycles;
    for (const Change& change : std::vector<Change>{{"engine.array.rows", "16"},
                                                    {"engine.array.cols", "64"},
                                                    {"engine.array.dataflow", "ws"},
                                                    {"engine.array.timing", "compat"},
                                                    {"engine.array.operand_bytes_per_cycle", "8"},
                                                    {"engine.array.result_bytes_per_cycle", "1"}}) {
        EXPECT_NE(run_gemm(platform_with("tile32", {change}), 40, 64, 256).cycles, base) << change.first;
    }
    auto half = platform_with("tile32");
    for (auto& rate : *half.mutable_engine(0)->mutable_array()->mutable_rate()) rate.set_relative(0.5);
    EXPECT_EQ(run_gemm(half, 40, 64, 256).cycles, base + 4 * 256);
}

// Operands that the L1 cannot deliver in time starve the array; the starved cycles are not busy.
TEST(ArrayUnit, NarrowOperandPortStarves) {
    const Outcome r =
        run_gemm(platform_with("tile32", {{"engine.array.operand_bytes_per_cycle", "8"}}), 64, 64, 256);
    EXPECT_EQ(busy(r, "e0_nmu0"), 4u * 256 + 94);
    EXPECT_GT(stat(r, "units.e0_nmu0.stalled.operand_interconnect") +
                  stat(r, "units.e0_nmu0.stalled.operand_bank_conflict"),
              2000u);
    EXPECT_EQ(cause_sum(r, "e0_nmu0"), r.cycles);
}

// An array at half the core's clock that starves in its edge folds takes twice the core cycles.
TEST(ArrayUnit, NarrowOperandPortStarvesInCyclesOfTheArray) {
    const auto cycles = [](const std::vector<Change>& clock) {
        std::vector<Change> changes = {{"engine.array.operand_bytes_per_cycle", "24"}};
        changes.insert(changes.end(), clock.begin(), clock.end());
        return run_gemm(platform_with("tile32", changes), 33, 33, 256).cycles;
    };
    const Cycles whole = cycles({}), half = cycles({{"clock.array_mhz", "500"}});
    EXPECT_NEAR(static_cast<double>(half), 2.0 * static_cast<double>(whole), 20);
}

Outcome run_relu(const proto::Platform& platform, int64_t elements) {
    Program p("relu");
    const auto buffer = p.l1_buffer("b", 0, 2 * elements);
    const auto x = p.region("x", buffer, 0, tensor(ElemType::i8, {elements}));
    const auto y = p.region("y", buffer, elements, tensor(ElemType::i8, {elements}));
    p.compute("relu", {x}, {y}, "r");
    return run_by_task(platform, bound(p, platform));
}

// relu of n elements: n / lanes cycles of work, the pipeline latency as drain, and the latencies of L1 beside
// them.
TEST(VectorUnit, BusyForElementsPerLane) {
    const Outcome r = run_relu(platform_with("tile32"), 1000);
    EXPECT_EQ(busy(r, "e0_cstl0"), 32u + 8);  // ceil(1000 / 32) + 8
    EXPECT_EQ(stat(r, "units.e0_cstl0.busy.useful"), 1000u / 32);
    EXPECT_GE(r.cycles, 40u);
    EXPECT_LE(r.cycles, 40u + 4 + 2 + 4);
}

TEST(VectorUnit, EveryParameterChangesTheTime) {
    const Cycles base = run_relu(platform_with("tile32"), 4096).cycles;
    for (const Change& change : std::vector<Change>{{"engine.vector.lanes", "64"},
                                                    {"engine.vector.pipeline_latency_cycles", "9"},
                                                    {"engine.vector.operand_bytes_per_cycle", "16"},
                                                    {"engine.vector.result_bytes_per_cycle", "16"}}) {
        EXPECT_NE(run_relu(platform_with("tile32", {change}), 4096).cycles, base) << change.first;
    }
    auto costly = platform_with("tile32");
    auto* cost = costly.mutable_engine(0)->mutable_vector()->add_cost();
    cost->set_opcode("relu");
    cost->set_cycles_per_element(2);
    cost->set_passes(1);
    EXPECT_GT(run_relu(costly, 4096).cycles, base);
    cost->set_passes(3);
    EXPECT_GT(run_relu(costly, 4096).cycles, base + 4096 / 32);
}

Outcome run_copy(const proto::Platform& platform, Level from, Level to, int64_t rows, int64_t row_bytes) {
    Program p("copy");
    const auto make = [&](const char* name, Level level) {
        return level == Level::l1 ? p.l1_buffer(name, 0, rows * row_bytes * 2)
                                  : p.buffer(name, level, rows * row_bytes * 2);
    };
    const auto s = make("S", from), d = make("D", to);
    const auto type = tensor(ElemType::i8, {rows, row_bytes}).strides({row_bytes * 2, 1});
    p.transfer("t", p.region("d", d, 0, tensor(ElemType::i8, {rows, row_bytes})), p.region("s", s, 0, type));
    return run_by_task(platform, bound(p, platform));
}

// An engine DMA moves 64 bytes a cycle: useful cycles = bytes / 64; each further descriptor or row cycle
// delays it by one.
TEST(DmaUnit, PortRateDescriptorAndRowCosts) {
    const auto platform = platform_with("tile32");
    const Outcome r = run_copy(platform, Level::l2, Level::l1, 16, 1024);
    EXPECT_EQ(stat(r, "units.e0_dma0.busy.useful"), 16u * 1024 / 64);
    EXPECT_GE(r.cycles, 16u + 16 * 1024 / 64);
    const auto slower = platform_with("tile32", {{"engine.dma.descriptor_cycles", "26"}});
    EXPECT_EQ(run_copy(slower, Level::l2, Level::l1, 16, 1024).cycles, r.cycles + 10);
    const auto rows = platform_with("tile32", {{"engine.dma.row_cycles", "4"}});
    EXPECT_EQ(run_copy(rows, Level::l2, Level::l1, 16, 1024).cycles, r.cycles + 16 * 3);
    const auto narrow = platform_with("tile32", {{"engine.dma.bytes_per_cycle", "16"}});
    EXPECT_GE(run_copy(narrow, Level::l2, Level::l1, 16, 1024).cycles, r.cycles + 3 * 16 * 1024 / 64 - 64);
    const auto serial = platform_with("tile32", {{"engine.dma.max_outstanding_bursts", "1"}});
    EXPECT_GT(run_copy(serial, Level::l2, Level::l1, 16, 1024).cycles, 2 * r.cycles);
}

// DDR to L1 occupies a system DMA and a DMA of the engine for the same time.
TEST(DmaUnit, DirectTransferOccupiesBothDmas) {
    const Outcome r = run_copy(platform_with("tile32"), Level::ddr, Level::l1, 4, 1024);
    EXPECT_EQ(stat(r, "units.sdma0.busy.useful"), 4u * 1024 / 64);
    EXPECT_EQ(stat(r, "units.e0_dma0.busy.useful"), 4u * 1024 / 64);
    EXPECT_EQ(cause_sum(r, "e0_dma0"), r.cycles);
}

// Independent tasks leave a sequencer one per dispatch_cycles; system DMA channels work side by side.
TEST(Sequencer, OneDispatchPerInterval) {
    const auto copies = [](const proto::Platform& platform) {
        Program p("copies");
        const auto s = p.buffer("S", Level::l2, 64 * 4), d = p.l1_buffer("D", 0, 64 * 4);
        for (int i = 0; i < 2; ++i) {
            const auto type = tensor(ElemType::i8, {64});
            const std::string n = std::to_string(i);
            p.transfer("t" + n, p.region("d" + n, d, i * 64, type), p.region("s" + n, s, i * 64, type));
        }
        return run_by_task(platform, bound(p, platform));
    };
    const Outcome slow = copies(platform_with("tile32", {{"sequencer.dispatch_cycles", "100"}}));
    ASSERT_EQ(slow.tasks.size(), 2u);
    EXPECT_EQ(slow.tasks[1].start, slow.tasks[0].start + 100);
    const Outcome fast = copies(platform_with("tile32", {{"sequencer.dispatch_cycles", "1"}}));
    EXPECT_EQ(fast.tasks[1].start, fast.tasks[0].start + 1);
    const Outcome one = copies(platform_with("tile32", {{"engine.dma.channels", "1"}}));
    EXPECT_GE(one.tasks[1].start, one.tasks[0].end);
}

}  // namespace
}  // namespace kpu::model
