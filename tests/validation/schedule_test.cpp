#include "runtime/validation/schedule.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "runtime/simulation.hpp"

namespace kpu::validation {
namespace {

MeasuredRow convolution(int64_t side, int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t pad) {
    MeasuredRow row;
    Work& work = row.work;
    work.kind = Work::Kind::convolution;
    work.in_height = work.in_width = side;
    work.out_height = work.out_width = (side + 2 * pad - kernel) / stride + 1;
    work.in_channels = in, work.out_channels = out;
    work.kernel = kernel, work.stride = stride, work.pad = pad;
    return row;
}

/// Multiply-accumulates that meet a pixel, one by one.
uint64_t macs_of(const Work& work) {
    uint64_t pairs = 0;
    for (int64_t y = 0; y < work.out_height; ++y)
        for (int64_t x = 0; x < work.out_width; ++x)
            for (int64_t i = 0; i < work.kernel; ++i)
                for (int64_t j = 0; j < work.kernel; ++j) {
                    const int64_t row = y * work.stride + i - work.pad,
                                  column = x * work.stride + j - work.pad;
                    pairs += row >= 0 && row < work.in_height && column >= 0 && column < work.in_width;
                }
    return pairs * static_cast<uint64_t>(work.in_channels * work.out_channels);
}

const traces::StatSet& run(const MeasuredRow& row, std::unique_ptr<runtime::Simulation>& simulation) {
    static const platforms::Platform platform = platforms::load("gemmini16");
    runtime::SimulationOptions options;
    options.mode = runtime::Mode::timing;
    options.hazards = false;
    simulation = std::make_unique<runtime::Simulation>(
        std::make_shared<const Module>(measured_schedule(row, platform)), &platform, options);
    EXPECT_EQ(simulation->run(), execution::RunStatus::finished);
    return simulation->stats();
}

/// Whatever the shape: every product that meets a pixel is computed once, and none with padding.
TEST(Schedule, ComputesEachProductOnce) {
    constexpr uint32_t seed = 55;
    RecordProperty("seed", seed);
    std::mt19937 random(seed);
    const auto pick = [&](int64_t least, int64_t most) {
        return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
    };
    for (int i = 0; i < 25; ++i) {
        const int64_t kernel = 1 + 2 * pick(0, 2), pad = pick(0, kernel / 2);
        MeasuredRow row = convolution(pick(kernel, 30), pick(1, 80), pick(1, 80), kernel, pick(1, 2), pad);
        row.tiles.total = pick(1, 12);
        SCOPED_TRACE(testing::Message() << "layer " << i << " of seed " << seed);
        std::unique_ptr<runtime::Simulation> simulation;
        EXPECT_EQ(run(row, simulation).integer("ops.macs"), macs_of(row.work));
    }
}

/// Input and weights come from DDR once where L2 holds them, and the result goes there once.
TEST(Schedule, MovesEachByteFromDdrOnce) {
    MeasuredRow row = convolution(28, 64, 128, 1, 1, 0);
    row.work.kind = Work::Kind::product;
    row.work.in_width = row.work.out_width = 28 * 28, row.work.in_height = row.work.out_height = 1;
    std::unique_ptr<runtime::Simulation> simulation;
    const traces::StatSet& stats = run(row, simulation);
    EXPECT_EQ(stats.integer("bytes.dram.write"), 28u * 28 * 128);
    const uint64_t once = 28 * 28 * 64 + 64 * 128;
    EXPECT_GE(stats.integer("bytes.dram.read"), once);
    // beside them the bias: a sum of four bytes for each sixteen results
    EXPECT_LE(stats.integer("bytes.dram.read"), once + 28 * 28 * 128 / 4 + 4096);
}

TEST(Schedule, Sums) {
    MeasuredRow row;
    row.work.kind = Work::Kind::sum;
    row.work.elements = 100000;
    std::unique_ptr<runtime::Simulation> simulation;
    const traces::StatSet& stats = run(row, simulation);
    EXPECT_EQ(stats.integer("bytes.dram.read"), 200000u);
    EXPECT_EQ(stats.integer("bytes.dram.write"), 100000u);
}

}  // namespace
}  // namespace kpu::validation
