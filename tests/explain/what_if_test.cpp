// No bound is above a simulation in which that resource is a thousand times faster.
#include <gtest/gtest.h>

#include "runtime/what_if/faster.hpp"
#include "tests/explain/run.hpp"

namespace kpu::explain {
namespace {

using test::example;
using test::random_module;
using test::traced_run;
using test::TracedRun;
using what_if::faster;

constexpr uint32_t factor = 1000;

void check_bounds(const std::shared_ptr<const Module>& module, const platforms::Platform& platform) {
    const TracedRun run = traced_run(module, platform);
    const RunGraph graph(run.recording, "run");
    const std::vector<Bound> bounds = explain::what_if(graph);
    ASSERT_FALSE(bounds.empty());
    EXPECT_EQ(bounds.front().part, "");
    EXPECT_LE(bounds.front().cycles, run.total());
    for (const Bound& bound : bounds) {
        const TracedRun fast = traced_run(module, faster(platform, bound.part, factor));
        EXPECT_LE(bound.cycles, fast.total())
            << bound.part << ", chain " << bound.path << ", work " << bound.work << " of " << bound.busiest;
        // a resource can only lower the bound
        EXPECT_LE(bound.cycles, bounds.front().cycles) << bound.part;
    }
}

// The examples, on the platform that they name.
TEST(WhatIf, IsNeverAboveTheSimulationOfAnExample) {
    for (const char* name : {"gemm_relu", "conv_pool", "gemm_rmsnorm"}) {
        SCOPED_TRACE(name);
        check_bounds(example(name), platforms::load("npm_lite"));
    }
}

// Random programs on devices with one and with several engines, DRAM with and without controllers.
// `explain_bounds` does the same with a thousand of them.
TEST(WhatIf, IsNeverAboveTheSimulationOfRandomPrograms) {
    constexpr uint64_t few_seeds = 16;
    const std::vector<platforms::Platform> devices{platforms::load("npm_lite"), platforms::load("npm_mid"),
                                                   platforms::load("edge16"),
                                                   platforms::load("npm_lite", {{"ddr.fidelity", "burst"}})};
    for (uint64_t seed = 1; seed <= few_seeds; ++seed) {
        SCOPED_TRACE(seed);
        const platforms::Platform& platform = devices[seed % devices.size()];
        check_bounds(random_module(platform, seed), platform);
    }
}

}  // namespace
}  // namespace kpu::explain
