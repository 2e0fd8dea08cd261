// Matrix products come near the bounds of the device, in prediction and in simulation.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "compiler/emit/emit.hpp"
#include "runtime/simulation.hpp"

namespace kpu::compiler {
namespace {

struct Sides {
    int64_t m, n, k;
};

/// Returns a product of a host's matrix and constant weights; the host gets the sums.
graph::Graph product(const Sides& sides, ElemType elem) {
    const bool integers = elem == ElemType::i8;
    graph::Graph graph;
    graph.name = "product";
    const graph::ValueId a = graph.add_input("a", elem, graph::dims({sides.m, sides.k}));
    const auto bytes = static_cast<size_t>(sides.k * sides.n * bit_width(elem) / 8);
    BoundQuant quant;
    if (integers) {
        quant.kind = proto::Quant::PER_TENSOR;
        quant.scales = {1};
        quant.zero_points = {0};
    }
    graph.value(a).quant = quant;
    const graph::ValueId b = graph.add_constant("b", elem, graph::dims({sides.k, sides.n}),
                                                graph::make_data(std::vector<uint8_t>(bytes)), quant);
    graph::NodeOptions options;
    options.source = {"product", "MatMul"};
    options.elem = integers ? ElemType::i32 : ElemType::f32;
    const graph::ValueId y = graph.add_node(
        "gemm.acc", {a, b}, graph::attributes({graph::type("accum_type", options.elem)}), options);
    graph.outputs.push_back({"y", y, options.elem, graph::HostType::same, {}});
    return graph;
}

struct Times {
    double predicted = 0, simulated = 0;
};

/// Images of [batch, side, side, channels] through windows of 3x3, as many channels on.
graph::Graph convolution(int64_t batch, int64_t side, int64_t channels) {
    graph::Graph graph;
    graph.name = "convolution";
    const graph::ValueId x = graph.add_input("x", ElemType::bf16, graph::dims({batch, side, side, channels}));
    const auto bytes = static_cast<size_t>(9 * channels * channels * 2);
    const graph::ValueId w = graph.add_constant("w", ElemType::bf16, graph::dims({3, 3, channels, channels}),
                                                graph::make_data(std::vector<uint8_t>(bytes)), {});
    graph::NodeOptions options;
    options.source = {"convolution", "Conv"};
    options.elem = ElemType::bf16;
    const graph::ValueId y =
        graph.add_node("conv2d", {x, w},
                       graph::attributes({graph::ints("pads", {1, 1, 1, 1}), graph::ints("strides", {1, 1}),
                                          graph::ints("dilations", {1, 1}), graph::integer("groups", 1),
                                          graph::type("accum_type", ElemType::f32)}),
                       options);
    graph.outputs.push_back({"y", y, options.elem, graph::HostType::same, {}});
    return graph;
}

Times times_of(const Sides& sides, ElemType elem, const platforms::Platform& platform, bool simulate) {
    const Target target(platform);
    const Lowered lowered = lower(plan(product(sides, elem), target), target);
    Times times;
    times.predicted = lowered.plan.ops.at(0).tiling.cycles;
    if (!simulate) return times;
    runtime::SimulationOptions options;
    options.mode = runtime::Mode::timing;
    runtime::Simulation simulation(std::make_shared<const Module>(lowered.emitted.module), &platform,
                                   options);
    EXPECT_EQ(simulation.run(), execution::RunStatus::finished) << simulation.deadlock_report();
    times.simulated = double(simulation.now());
    return times;
}

/// Returns the slower of the array, padding included, and DRAM, which moves every element once; before it the
/// first tiles of the array come, after it the last one leaves.
double bound(const Sides& sides, const Target& target) {
    const proto::SystolicArray& array = target.engines[0].array();
    const auto tiles = [](int64_t size, uint32_t side) { return std::ceil(double(size) / side); };
    const double compute = tiles(sides.m, array.rows()) * tiles(sides.n, array.cols()) * double(sides.k);
    const auto moved = [&](double m, double n) { return (m + n) * double(sides.k) + 4 * m * n; };
    const double dram = moved(double(sides.m), double(sides.n)) / target.ddr_bytes_per_cycle;
    const double ends = moved(std::min<double>(array.rows(), double(sides.m)),
                              std::min<double>(array.cols(), double(sides.n))) /
                            target.ddr_bytes_per_cycle +
                        2.0 * array.rows() + array.cols() + 2 * target.ddr_latency_cycles;
    return std::max(compute, dram) + ends;
}

double share_of_peak(const Sides& sides, double cycles, const platforms::Platform& platform) {
    const platforms::Engines engines = platforms::engines_of(platform);
    const double peak =
        double(engines.size()) * engines[0].get().array().rows() * engines[0].get().array().cols();
    return double(sides.m) * double(sides.n) * double(sides.k) / (peak * cycles);
}

std::vector<Sides> random_sides(size_t count, double most) {
    std::mt19937 random(7);
    std::vector<Sides> result;
    const auto side = [&] {
        return static_cast<int64_t>(std::exp2(6 + (most - 6) * double(random()) / 4294967296.0));
    };
    for (size_t i = 0; i < count; ++i) {
        const int64_t m = side(), n = side(), k = side();
        result.push_back({m, n, k});
    }
    return result;
}

TEST(Gemm, RandomSidesAreNearTheirBound) {
    const platforms::Platform platform = platforms::load("swkpu-v1", {});
    const Target target(platform);
    const std::vector<Sides> all = random_sides(200, 12);
    size_t near = 0;
    for (const Sides& sides : all)
        near +=
            times_of(sides, ElemType::i8, platform, false).predicted <= 1.15 * bound(sides, target) ? 1 : 0;
    EXPECT_GE(near, all.size() * 95 / 100);
}

TEST(Gemm, SimulationsOfRandomSidesAreNearBoundAndPrediction) {
    const platforms::Platform platform = platforms::load("swkpu-v1", {});
    const Target target(platform);
    const std::vector<Sides> some = random_sides(36, 10);
    size_t near = 0;
    std::vector<double> errors;
    for (const Sides& sides : some) {
        const Times times = times_of(sides, ElemType::i8, platform, true);
        near += times.simulated <= 1.15 * bound(sides, target) ? 1 : 0;
        errors.push_back(std::abs(times.predicted / times.simulated - 1));
    }
    std::sort(errors.begin(), errors.end());
    EXPECT_GE(near, some.size() * 95 / 100);
    EXPECT_LT(errors[errors.size() / 2], 0.07);
    EXPECT_LT(errors[errors.size() * 9 / 10], 0.15);
}

TEST(Gemm, InputsThatAreReadAgainStayOnChip) {
    const Sides sides{1024, 1024, 1024};
    const platforms::Platform platform = platforms::load("tile32", {});
    EXPECT_GE(share_of_peak(sides, times_of(sides, ElemType::i8, platform, true).simulated, platform), 0.85);
}

/// Large weights come in pieces; the last columns are less than one piece of the others.
TEST(Gemm, OneColumnMoreThanLargeTiles) {
    const platforms::Platform platform = platforms::load("core128-hbm2", {});
    for (const int64_t columns : {129, 257, 385, 513, 514, 640, 1025}) {
        const Sides sides{256, columns, 256};
        const Times times = times_of(sides, ElemType::bf16, platform, true);
        EXPECT_NEAR(times.predicted / times.simulated, 1, 0.3) << columns;
    }
}

/// Returns four arrays of 128x128, each in an engine, with four stacks of HBM2.
platforms::Overrides four_engines(int64_t engines) {
    return {{"engine.count", std::to_string(engines)},
            {"ddr.channels", "32"},
            {"ddr.channel_interleave_bytes", "1024"},
            {"system_dma.channels", "16"},
            {"system_dma.burst_bytes", "1024"},
            {"engine.dma.burst_bytes", "1024"},
            {"interconnect.link_bytes_per_cycle", "1024"},
            {"l2.ports", "32"},
            {"l2.bytes_per_cycle", "1024"}};
}

TEST(Gemm, FourArraysShareALargeProduct) {
    const Sides sides{4096, 4096, 4096};
    const platforms::Platform platform = platforms::load("core128-hbm2", four_engines(4));
    const Times times = times_of(sides, ElemType::bf16, platform, true);
    EXPECT_GE(share_of_peak(sides, times.simulated, platform), 0.92);
    EXPECT_NEAR(times.predicted / times.simulated, 1, 0.15);
}

TEST(Gemm, FourArraysShareASmallProduct) {
    const Sides sides{1024, 1024, 1024};
    const platforms::Platform platform = platforms::load("core128-hbm2", four_engines(4));
    EXPECT_GE(share_of_peak(sides, times_of(sides, ElemType::i8, platform, true).simulated, platform), 0.75);
}

TEST(Gemm, TilesOfAConvolutionFillTheRowsOfTheArray) {
    const platforms::Platform platform = platforms::load("core128-hbm2", {});
    const Target target(platform);
    const Lowered lowered = lower(plan(convolution(1, 56, 128), target), target);
    // 56 x 56 results of a channel take 25 fills of 128 rows; tiles of 8, or of 14 lines take 28
    EXPECT_DOUBLE_EQ(lowered.plan.ops.at(0).tiling.array, std::ceil(56.0 * 56 / 128) * 9 * 128);
}

/// The array alone is sixteen times as fast; the device around it is that of a core of its size.
TEST(Gemm, AnArrayOfFourTimesTheSidesIsEightTimesAsFast) {
    const Sides sides{2048, 2048, 2048};
    const auto cycles = [&](const char* side) {
        const platforms::Overrides array{{"engine.array.rows", side}, {"engine.array.cols", side}};
        const platforms::Platform platform = platforms::load("core128-hbm2", array);
        return times_of(sides, ElemType::bf16, platform, true).simulated;
    };
    EXPECT_GE(cycles("16"), 8 * cycles("64"));
}

/// Checks that what is chosen for less hardware is a choice for more.
TEST(Gemm, OneEngineIsAChoiceAmongTwo) {
    const Target target(platforms::load("tile32", {{"engine.count", "2"}}));
    Guide guide;
    guide.explain = "product";
    const Lowered lowered = lower(plan(product({256, 256, 256}, ElemType::i8), target, guide), target);
    const PlannedOp& op = lowered.plan.ops.at(0);
    const std::vector<Tiling>& considered = op.alternatives->considered;
    for (const int64_t lanes : {1, 2}) {
        const auto has = [&](const Tiling& of) { return of.lanes() == lanes && of.tiles(op.op, 0) > 1; };
        EXPECT_TRUE(std::any_of(considered.begin(), considered.end(), has)) << lanes;
    }
}

TEST(Gemm, MoreEnginesAreNotSlower) {
    for (const Sides& sides : {Sides{1024, 1024, 1024}, Sides{128, 2048, 512}, Sides{2000, 100, 1000}}) {
        double last = std::numeric_limits<double>::infinity();
        for (const int64_t engines : {1, 2, 4}) {
            const platforms::Platform platform = platforms::load("core128-hbm2", four_engines(engines));
            const double cycles = times_of(sides, ElemType::bf16, platform, true).simulated;
            EXPECT_LE(cycles, 1.02 * last)
                << engines << " engines, " << sides.m << "x" << sides.n << "x" << sides.k;
            last = cycles;
        }
    }
}

}  // namespace
}  // namespace kpu::compiler
