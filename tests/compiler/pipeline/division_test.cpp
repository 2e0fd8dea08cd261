// Engines whose staging drives tensors to DRAM do not work, if fewer are faster: right values, no more cycles.
#include "compiler/pipeline/division.hpp"

#include "compiler/pipeline/compile.hpp"
#include "tests/compiler/plan/maker.hpp"

namespace kpu::pipeline {
namespace {

using namespace compiler::testing;

/// Convolutions of little work, one after the other, over pictures of 128 KB.
Maker network(uint32_t seed) {
    Maker maker(ElemType::i8, seed);
    ValueId x = maker.input({1, 64, 64, 32});
    for (int i = 0; i < 6; ++i) x = maker.conv(x, 32, 1, 1, 0);
    maker.output(x);
    return maker;
}

platforms::Platform device(const char* engines, const char* l2, const char* l1 = "262144") {
    return platforms::load("swkpu-v1", {{"engine.count", engines},
                                        {"engine.l1.size_bytes", l1},
                                        {"l2.size_bytes", l2},
                                        {"engine.array.rows", "32"},
                                        {"engine.array.cols", "32"},
                                        {"ddr.channels", "1"}});
}

double cycles_on(const compiler::Lowered& program, const platforms::Platform& platform) {
    runtime::SimulationOptions options;
    options.mode = runtime::Mode::timing;
    runtime::Simulation simulation(std::make_shared<const Module>(program.emitted.module), &platform,
                                   options);
    EXPECT_EQ(simulation.run(), execution::RunStatus::finished);
    return double(simulation.now());
}

TEST(Division, FourEnginesAreNotSlowerThanTwo) {
    Maker maker = network(1);
    const platforms::Platform four = device("4", "1048576"), two = device("2", "1048576");
    const compiler::Target of_four(four), of_two(two);
    const Division division = best_division(maker.graph(), of_four, {});
    EXPECT_TRUE(division.is_part);
    EXPECT_EQ(division.left_to_tensors, 0u);
    ASSERT_TRUE(division.cut.lowered);
    const double all = cycles_on(compiler::lower(compiler::plan(maker.graph(), of_four), of_four), four);
    const double half = cycles_on(compiler::lower(compiler::plan(maker.graph(), of_two), of_two), two);
    const double chosen = cycles_on(*division.cut.lowered, four);
    EXPECT_GT(all, 1.05 * half);  // else this network shows nothing
    EXPECT_LE(chosen, half);
}

TEST(Division, ALargerL1IsNotSlower) {
    Maker maker = network(5);
    const platforms::Platform large = device("2", "1048576", "524288"), small = device("2", "1048576");
    const Division of_large = best_division(maker.graph(), compiler::Target(large), {});
    const Division of_small = best_division(maker.graph(), compiler::Target(small), {});
    EXPECT_TRUE(of_large.is_part);
    EXPECT_EQ(of_large.left_to_tensors, 0u);
    EXPECT_LE(cycles_on(*of_large.cut.lowered, large), cycles_on(*of_small.cut.lowered, small));
    EXPECT_NE(division_text(of_large.cut.lowered->plan, of_large.target).find("L2, 1048576 bytes: "),
              std::string::npos);
}

TEST(Division, AMappingNamesAPart) {
    Maker maker = network(6);
    const compiler::Target target(device("4", "1048576"));
    compiler::Guide guide;
    guide.wishes = compiler::MappingWishes({}, {2, 131072});
    const Division part = best_division(maker.graph(), target, guide);
    EXPECT_TRUE(part.is_part);
    EXPECT_EQ(part.target.engines.size(), 2u);
    EXPECT_EQ(part.target.staging_bytes, 131072u);
    guide.wishes = compiler::MappingWishes({}, {5, std::nullopt});
    EXPECT_THAT([&] { best_division(maker.graph(), target, guide); },
                testing::ThrowsMessage<UserError>(testing::HasSubstr(
                    "`engines` of `__device` is 5, and the device has 4. Fix: give 1 to 4.")));
}

TEST(Division, ValuesStayRight) {
    Maker maker = network(2);
    const platforms::Platform four = device("4", "1048576");
    const compiler::Target target(four);
    Division division = best_division(maker.graph(), target, {});
    compiler::add_weights(*division.cut.lowered);
    std::vector<std::string> inputs;
    const std::vector<std::string> expected = expected_of(maker, 1, inputs);
    const auto module = std::make_shared<const Module>(division.cut.lowered->emitted.module);
    for (const runtime::Mode mode : {runtime::Mode::functional, runtime::Mode::values_timing}) {
        const auto simulation = simulated(maker.graph(), module, four, mode, 1, inputs);
        EXPECT_TRUE(simulation->output(maker.graph().outputs[0].name).data == expected[0]);
    }
}

TEST(Division, AllEnginesWorkWhereL2HasRoom) {
    Maker maker = network(3);
    const compiler::Target target(device("4", "4194304"));
    EXPECT_EQ(best_division(maker.graph(), target, {}).target.engines.size(), 4u);
}

TEST(Division, AWishIsForAllEngines) {
    Maker maker = network(4);
    const compiler::Target target(device("4", "1048576"));
    compiler::MappingWish wish;
    wish.pattern = "*";
    wish.in_flight = 2;
    compiler::Guide guide;
    guide.wishes = compiler::MappingWishes({wish});
    EXPECT_EQ(best_division(maker.graph(), target, guide).target.engines.size(), 4u);
}

}  // namespace
}  // namespace kpu::pipeline
