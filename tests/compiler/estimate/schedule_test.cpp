// The estimate of a program comes near its simulation.
#include "compiler/estimate/schedule.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "compiler/front_ends.hpp"
#include "isa/builder.hpp"
#include "runtime/simulation.hpp"

namespace kpu::estimate {
namespace {

const std::string examples = std::string(KPUSIM_SOURCE_DIR) + "/examples/";

runtime::Simulation simulation_of(const std::shared_ptr<const Module>& module,
                                  const platforms::Platform& platform) {
    runtime::SimulationOptions options;
    options.mode = runtime::Mode::timing;
    runtime::Simulation simulation(module, &platform, options);
    EXPECT_EQ(simulation.run(), execution::RunStatus::finished);
    return simulation;
}

double simulated(const std::shared_ptr<const Module>& module, const platforms::Platform& platform) {
    return double(simulation_of(module, platform).now());
}

compiler::Input network(const std::string& platform, const std::string& precision) {
    Diagnostics notes;
    compiler::DeviceChoice device;
    device.platform = platform;
    GivenOptions options;
    options.emplace_back("precision", precision);
    if (precision == "int8") options.emplace_back("calibrate", "random:1");
    return compiler::load_for_device(compiler::Source::of_file(examples + "networks/digits_cnn.onnx"),
                                     options, device, notes);
}

using Device = std::pair<std::string, std::string>;
class Network : public ::testing::TestWithParam<Device> {};

TEST_P(Network, TotalIsNearTheSimulationAndTheSumOfOperations) {
    const compiler::Input input = network(GetParam().first, GetParam().second);
    const KPUProgram& program = input.module->program;
    const double total = double(program.estimated_total_cycles());
    EXPECT_NEAR(total / simulated(input.module, *input.platform), 1, 0.1);
    double sum = 0;
    for (const proto::Op& op : program.op()) sum += double(op.estimated_cycles());
    EXPECT_NEAR(sum, total, program.op_size());  // each is rounded
}

TEST_P(Network, EnergyIsNearTheSimulation) {
    const compiler::Input input = network(GetParam().first, GetParam().second);
    const KPUProgram& program = input.module->program;
    runtime::Simulation simulation = simulation_of(input.module, *input.platform);
    EXPECT_NEAR(program.estimated_total_energy_uj() / simulation.stats().real("energy.total_uj"), 1,
                0.08);  // a run of a few us
    double predicted = 0, dynamic = 0;
    for (const proto::Op& op : program.op()) predicted += op.estimated_energy_pj();
    for (const traces::OpRow& row : simulation.op_rows()) {
        if (row.id == "__background") continue;
        dynamic += row.energy_pj;
        if (row.macs == 0) continue;  // a few transfers: which find rows of DRAM open is not predicted
        EXPECT_NEAR(row.estimated_energy_pj / row.energy_pj, 1, 0.15) << row.id;
    }
    EXPECT_NEAR(predicted / dynamic, 1, 0.08);
}

// Beyond what the table describes there is no energy, predicted or not.
TEST(Energy, IsNotPredictedWhereItIsNotModelled) {
    Diagnostics notes;
    compiler::DeviceChoice device;
    device.platform = "swkpu-v1";
    device.overrides = {{"engine.l1.bytes_per_cycle", "65536"}};
    const compiler::Input input =
        compiler::load_for_device(compiler::Source::of_file(examples + "networks/digits_cnn.onnx"),
                                  {{"precision", "fp16"}}, device, notes);
    EXPECT_GT(input.module->program.estimated_total_cycles(), 0u);
    EXPECT_EQ(input.module->program.estimated_total_energy_uj(), 0);
}

/// No operation is through before its work is done at the peak of each resource.
TEST_P(Network, BoundsAreBelowTheSimulation) {
    const compiler::Input input = network(GetParam().first, GetParam().second);
    runtime::Simulation simulation = simulation_of(input.module, *input.platform);
    size_t bounded = 0;
    for (const traces::OpRow& row : simulation.op_rows()) {
        EXPECT_LE(row.bound_cycles, row.span_cycles) << row.id << " " << row.bound;
        bounded += row.bound_cycles > 0 ? 1 : 0;
    }
    EXPECT_GE(bounded, 5u);
}

INSTANTIATE_TEST_SUITE_P(Devices, Network,
                         ::testing::Values(Device("swkpu-v1", "int8"), Device("swkpu-v1", "fp16"),
                                           Device("swkpu-v2", "bf16"), Device("tile32", "f32"),
                                           Device("npm_lite", "int8"), Device("core128-hbm2", "bf16")));

// Tasks and loops of a text, not of the compiler.
TEST(Schedule, HandWrittenProgram) {
    compiler::DeviceChoice device;
    device.search_paths = {examples + "gemm_relu"};
    Diagnostics notes;
    const compiler::Input input =
        compiler::load_for_device(compiler::Source::of_file(examples + "gemm_relu/gemm_relu.nem"),
                                  GivenOptions(), compiler::DeviceChoice(), notes);
    const compiler::Target target(*input.platform);
    const BoundProgram program = bind(input.module, {}, target.limits);
    const Estimate of = estimate(program, target, {});
    EXPECT_NEAR(of.cycles / simulated(input.module, *input.platform), 1, 0.1);
    EXPECT_NEAR(std::accumulate(of.charged.begin(), of.charged.end(), 0.0), of.cycles, 1e-6 * of.cycles);
    const Estimate again = estimate(program, target, {});
    EXPECT_EQ(again.cycles, of.cycles);
    EXPECT_EQ(again.charged, of.charged);
}

/// Loads of rows that all lie in the same channels of DRAM: others are idle, and beside each other they are no faster.
TEST(Schedule, ChannelsThatGetAllTheWork) {
    const platforms::Platform platform = platforms::load("npm_pro");
    const compiler::Target target(platform);
    ASSERT_EQ(target.ddr_channels, 4);
    for (const int64_t width : {256, 512, 768, 1024}) {
        builder::Program p("rows");
        const auto x = p.buffer("x", Level::ddr, int64_t{4} << 20, 512);
        const auto y = p.buffer("y", Level::l2, 4 * 256 * width, 512);
        for (int64_t lane = 0; lane < 4; ++lane) {
            const auto type = builder::tensor(ElemType::u8, {256, width});
            p.transfer(
                "", p.region("", y, lane * 256 * width, type),
                p.region("", x, lane << 20, builder::tensor(ElemType::u8, {256, width}).strides({4096, 1})));
        }
        const auto module = std::make_shared<const Module>(std::move(p).build());
        const Estimate of = estimate(bind(module, {}, target.limits), target, {});
        EXPECT_NEAR(of.cycles / simulated(module, platform), 1, 0.3) << width;
    }
}

}  // namespace
}  // namespace kpu::estimate
