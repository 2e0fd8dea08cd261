// Every cycle of every unit has one cause.
#include <gtest/gtest.h>

#include "tests/model/device_fixture.hpp"

namespace kpu::model {
namespace {

using builder::Program;

class Pipelines : public ::testing::TestWithParam<std::tuple<const char*, int>> {
  protected:
    Outcome result() const {
        const auto [name, window] = GetParam();
        const auto platform = platform_with(name);
        Program p("pipeline");
        tiled_pipeline(p, 9, window);
        return run(platform, bound(p, platform));
    }
};

// The causes of a unit sum to cycles.total, nothing is unattributed, and the device's rows sum to it too.
TEST_P(Pipelines, CausesSumToTheTotal) {
    const Outcome r = result();
    ASSERT_EQ(r.stop, RunStatus::finished);
    for (const traces::UnitInfo& unit : r.units) EXPECT_EQ(cause_sum(r, unit.name), r.cycles) << unit.name;
    EXPECT_EQ(stat(r, "cycles.unattributed"), 0u);
    EXPECT_EQ(stat(r, "cycles.compute") + stat(r, "cycles.memory_stall") + stat(r, "cycles.other"), r.cycles);
    Cycles charged = 0;
    for (const traces::OpRow& row : r.ops) charged += row.charged_cycles;
    EXPECT_EQ(charged, r.cycles);
}

// The recorded causes are the statistics: each unit's intervals, summed by cause.
TEST_P(Pipelines, RecordedCausesAreTheStatistics) {
    const auto platform = platform_with(std::get<0>(GetParam()));
    EXPECT_EQ(recorded_causes_differ(result(), platforms::core_clock(platform)), "");
}

// MACs, bytes and useful cycles are those of the program: 9 products of 64^3, every tile moved once per
// level.
TEST_P(Pipelines, WorkIsConserved) {
    const Outcome r = result();
    constexpr uint64_t tile = 64 * 64;
    EXPECT_EQ(stat(r, "ops.macs"), 9u * 64 * 64 * 64);
    EXPECT_EQ(stat(r, "bytes.dram.read"), 10 * tile);
    EXPECT_EQ(stat(r, "bytes.dram.write"), 9 * tile);
    EXPECT_EQ(stat(r, "bytes.l2.write"), 10 * tile + 9 * tile);
    EXPECT_EQ(stat(r, "tasks.completed"), 2u + 9 * 6);
    uint64_t macs = 0;
    for (const traces::OpRow& row : r.ops) macs += row.macs;
    EXPECT_EQ(macs, stat(r, "ops.macs"));
}

INSTANTIATE_TEST_SUITE_P(Shipped, Pipelines,
                         ::testing::Combine(::testing::Values("tile32", "npm_lite"),
                                            ::testing::Values(1, 2, 3)));

// A cause's interval is charged to what really held the unit: an array that waits for its operand is charged
// the transfer's limiter, and a store that waits for the array a dependency.
TEST(Accounting, WaitsAreChargedToWhatTheyWaitFor) {
    const auto platform = platform_with("tile32");
    Program p("pipeline");
    tiled_pipeline(p, 1, 1);
    const Outcome r = run(platform, bound(p, platform));
    EXPECT_GT(stat(r, "units.e0_nmu0.stalled.operand_dram_latency"), 0u);
    EXPECT_GT(stat(r, "units.e0_nmu0.stalled.operand_dram_bandwidth") +
                  stat(r, "units.e0_nmu0.stalled.operand_dram_latency"),
              40u);
    // while the array works (94 cycles of fill and drain, 256 of products), the vector unit waits for it
    EXPECT_GE(stat(r, "units.e0_cstl0.stalled.dependency"), 350u);
    EXPECT_EQ(stat(r, "units.e0_vpu0.idle.no_work"), r.cycles);
    EXPECT_GT(stat(r, "units.e0_nmu0.idle.finished"), 0u);
}

// With a window of one iteration, work that the window holds back is charged to the window.
TEST(Accounting, TheLoopWindowIsACause) {
    const auto platform = platform_with("tile32");
    Program p("pipeline");
    tiled_pipeline(p, 4, 1);
    const Outcome r = run(platform, bound(p, platform));
    EXPECT_GT(stat(r, "units.e0_nmu0.stalled.issue_window"), 0u);
}

// A run cut off at a limit still gives every cycle a cause.
TEST(Accounting, CutOffRunsAddUp) {
    const auto platform = platform_with("tile32");
    Program p("pipeline");
    tiled_pipeline(p, 4, 2);
    const BoundProgram program = bound(p, platform);
    for (const Cycles limit : {1u, 17u, 400u, 900u, 1500u}) {
        DeviceOptions options;
        options.hazards = false;
        Device device(platform, program, nullptr, options);
        EXPECT_EQ(device.run(limit), RunStatus::paused);
        EXPECT_EQ(device.now(), limit);
        Outcome r;
        device.finish(r.stats);
        for (const traces::UnitInfo& unit : device.units())
            EXPECT_EQ(cause_sum(r, unit.name), limit) << unit.name;
    }
}

}  // namespace
}  // namespace kpu::model
