// More of what helps, or less of what costs, makes no program slower beyond what docs/anomalies.md lists.
#include "tests/model/metamorphic.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "platforms/parameters.hpp"
#include "tests/model/device_fixture.hpp"

namespace kpu::model {
namespace {

class MetamorphicPrograms : public ::testing::TestWithParam<std::string> {};

// The first of the programs that the page was made of: nothing does worse than it says.
TEST_P(MetamorphicPrograms, NoAnomalyBeyondThePage) {
    Metamorphic runs(GetParam());
    for (uint64_t seed = 1; seed <= 25; ++seed) runs.run(seed);
    size_t changed = 0;
    for (const auto& [path, found] : runs.found()) {
        EXPECT_LE(found.worst, anomaly_bound(path) + 1e-9) << path << " at " << found.worst_at;
        changed += found.changed > 0 ? 1 : 0;
    }
    EXPECT_GE(changed, 40u) << "parameters that change the time of some program";
}

INSTANTIATE_TEST_SUITE_P(Devices, MetamorphicPrograms, ::testing::ValuesIn(metamorphic_platforms()));

// Every parameter of the schema is stepped, or is none to be stepped.
TEST(Metamorphic, EveryParameterIsStepped) {
    const auto& without = parameters_without_steps();
    const auto& steps = stepped_parameters();
    for (const platforms::ParameterInfo& row : platforms::parameters()) {
        const bool stepped =
            std::any_of(steps.begin(), steps.end(), [&](const auto& p) { return p.path == row.path; });
        const bool exempt = std::find(without.begin(), without.end(), row.path) != without.end();
        EXPECT_NE(stepped, exempt) << row.path;
    }
}

/// Runs relu of every second element of a block.
Outcome run_strided(const std::vector<Change>& changes, ElemType type = ElemType::f32) {
    using builder::tensor;
    const auto platform = platform_with("tile32", changes);
    builder::Program p("strided");
    constexpr int64_t side = 64;
    const int64_t bytes = side * side * bit_width(type) / 8;
    const auto buffer = p.l1_buffer("b", 0, 3 * bytes);
    const auto x = p.region("x", buffer, 0, tensor(type, {side, side}).strides({2 * side, 2}));
    const auto y = p.region("y", buffer, 2 * bytes, tensor(type, {side, side}));
    p.compute("relu", {x}, {y}, "r");
    return run(platform, bound(p, platform));
}

// The buffers of a unit hold as many elements of a strided operand as bytes fit: an element takes the port of L1 for a
// cycle however wide that is. Only the results, which are not strided, leave a little sooner through a wider one.
TEST(StridedOperands, TheWidthOfL1ChangesNextToNothing) {
    const auto base = static_cast<double>(run_strided({}).cycles);
    for (const char* width : {"32", "64", "256", "512", "1024", "4096"}) {
        const auto cycles = static_cast<double>(run_strided({{"engine.l1.bytes_per_cycle", width}}).cycles);
        EXPECT_NEAR(cycles, base, 40) << width;
    }
    EXPECT_LE(base, 64 * 64 + 40) << "an element a cycle";
}

// Read latency is hidden behind the elements that are in flight.
TEST(StridedOperands, LatencyOfL1IsHidden) {
    for (const ElemType type : {ElemType::f32, ElemType::i8}) {
        const Cycles base = run_strided({}, type).cycles;
        EXPECT_LE(run_strided({{"engine.l1.read_latency_cycles", "100"}}, type).cycles, base + 100 + 40);
    }
}

// No link is passed, so none is blamed: the port of L1 takes an element a cycle.
TEST(StridedOperands, TheWaitIsChargedToTheAccesses) {
    const Outcome r = run_strided({});
    EXPECT_GT(stat(r, "units.e0_cstl0.stalled.operand_sram_access"), 3000u);
    EXPECT_EQ(stat(r, "units.e0_cstl0.stalled.operand_interconnect"), 0u);
    EXPECT_EQ(cause_sum(r, "e0_cstl0"), r.cycles);
}

}  // namespace
}  // namespace kpu::model
