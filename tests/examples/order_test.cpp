// The examples leave the same bytes in whatever order ready tasks run and however many units there are.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/random.hpp"
#include "compiler/device_directive.hpp"
#include "compiler/front_ends.hpp"
#include "runtime/simulation.hpp"

namespace kpu {
namespace {

std::shared_ptr<const Module> example(const std::string& name) {
    Diagnostics diagnostics;
    const std::string path = std::string(KPUSIM_SOURCE_DIR) + "/examples/" + name + "/" + name + ".nem";
    return compiler::load_program(path, {}, diagnostics);
}

platforms::Overrides unit_counts(uint64_t seed) {
    SplitMix64 random(seed);
    platforms::Overrides counts;
    for (const char* path : {"engine.array.count", "engine.vector.cstl_count", "engine.vector.vpu_count",
                             "engine.dma.channels", "system_dma.channels"}) {
        counts.emplace_back(path, fmt::format("{}", 1 + random.next() % 4));
    }
    return counts;
}

/// Returns the outputs of a run on a device with as many units as `seed` says; 0: as the example's own
/// device.
std::string outputs(const std::shared_ptr<const Module>& module, runtime::SimulationOptions options,
                    uint64_t seed) {
    Diagnostics diagnostics;
    const auto platform = compiler::resolve_platform(
        *module, "", seed == 0 ? platforms::Overrides() : unit_counts(seed), {}, diagnostics);
    runtime::Simulation simulation(module, &*platform, options);
    simulation.fill_inputs_random(11);
    EXPECT_EQ(simulation.run(), runtime::RunStatus::finished);
    EXPECT_EQ(simulation.hazards().count(), 0u);
    std::string bytes;
    for (const auto& spec : simulation.output_specs()) bytes += simulation.output(spec.name).data;
    return bytes;
}

class ExampleOrders : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Examples, ExampleOrders,
                         testing::Values("digits", "gemm_relu", "gemm_rmsnorm", "conv_pool"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(ExampleOrders, HundredRandomOrdersGiveTheSameBytes) {
    const auto module = example(GetParam());
    runtime::SimulationOptions options;
    options.mode = runtime::Mode::functional;
    const std::string expected = outputs(module, options, 0);
    options.random_order = true;
    for (uint64_t seed = 1; seed <= 100; ++seed) {
        options.seed = seed;
        ASSERT_TRUE(outputs(module, options, seed) == expected) << "order and units of seed " << seed;
    }
}

TEST_P(ExampleOrders, UnitCountsChangeTheTimeOnly) {
    const auto module = example(GetParam());
    const std::string expected = outputs(module, {}, 0);
    for (uint64_t seed = 1; seed <= 3; ++seed)
        EXPECT_TRUE(outputs(module, {}, seed) == expected) << "units of seed " << seed;
}

}  // namespace
}  // namespace kpu
