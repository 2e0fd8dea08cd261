#include "runtime/validation/kernel.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "base/diagnostics.hpp"
#include "runtime/simulation.hpp"
#include "runtime/validation/networks.hpp"

namespace kpu::validation {
namespace {

const platforms::Platform& tpu() {
    static const platforms::Platform platform = platforms::load("tpu_v4_core");
    return platform;
}

std::unique_ptr<runtime::Simulation> run(const Kernel& kernel, const platforms::Platform& platform) {
    runtime::SimulationOptions options;
    options.mode = runtime::Mode::timing;
    options.hazards = false;
    auto simulation = std::make_unique<runtime::Simulation>(
        std::make_shared<const Module>(kernel_program(kernel, platform)), &platform, options);
    EXPECT_EQ(simulation->run(), execution::RunStatus::finished);
    return simulation;
}

/// Computed by the rule: lines of 128, blocks of 8, the cheapest last dimension.
TEST(LaidOut, ByHand) {
    EXPECT_EQ(laid_out({1}, 128), 1024);
    EXPECT_EQ(laid_out({1025}, 128), 2048);
    EXPECT_EQ(laid_out({8, 128}, 128), 1024);
    EXPECT_EQ(laid_out({9, 100}, 128),
              2048);  // 100 in a line, 9 in two blocks; or 9 in a line, 100 in 13 blocks
    EXPECT_EQ(laid_out({8, 120, 8}, 128), 8192);  // 120 in the line
    EXPECT_EQ(laid_out({64, 56, 56, 64}, 128), 64 * 56 * 56 * 128);
    EXPECT_EQ(laid_out({512, 64}, 128), 512 * 64);  // 512 in four lines
}

/// Whatever the shape and the cut: each product once, each tensor moved once where its tile is the whole.
TEST(Kernels, ProductsComputeEachOnce) {
    constexpr uint32_t seed = 4;
    RecordProperty("seed", seed);
    std::mt19937 random(seed);
    for (int i = 0; i < 20; ++i) {
        Kernel kernel;
        kernel.kind = Kernel::Kind::product;
        kernel.elem = ElemType::f16;
        kernel.home = Level::l2;
        for (int64_t* side : {&kernel.m, &kernel.n, &kernel.k})
            *side = 1 + static_cast<int64_t>(random() % 900);
        SCOPED_TRACE(testing::Message() << kernel.text() << " of seed " << seed);
        const auto simulation = run(kernel, tpu());
        EXPECT_EQ(simulation->stats().integer("ops.macs"),
                  static_cast<uint64_t>(kernel.m * kernel.n * kernel.k));
        EXPECT_EQ(simulation->stats().integer("bytes.l2.read"),
                  static_cast<uint64_t>(
                      2 * (laid_out({kernel.m, kernel.k}, 128) + laid_out({kernel.k, kernel.n}, 128))));
        EXPECT_EQ(simulation->stats().integer("bytes.l2.write"),
                  static_cast<uint64_t>(2 * laid_out({kernel.m, kernel.n}, 128)));
    }
}

/// Products of more than L1 are cut, and nothing is computed twice.
TEST(Kernels, LargeProductsAreCut) {
    Kernel kernel;
    kernel.kind = Kernel::Kind::product;
    kernel.m = 2000, kernel.n = 2100, kernel.k = 2200;
    const auto simulation = run(kernel, platforms::load("tpu_v3_core"));
    EXPECT_EQ(simulation->stats().integer("ops.macs"), uint64_t{2000} * 2100 * 2200);
    EXPECT_GE(simulation->stats().integer("bytes.dram.read"), 2u * (2000 * 2200 + 2200 * 2100));
    kernel.k = 1 << 17;
    EXPECT_THROW(run(kernel, platforms::load("tpu_v3_core")), UserError);
}

TEST(Kernels, ConvolutionsCountTheirPadding) {
    Kernel kernel;
    kernel.kind = Kernel::Kind::convolution;
    kernel.batch = 3, kernel.height = kernel.width = 14;
    kernel.k = 32, kernel.n = 48, kernel.window = 3, kernel.stride = 2, kernel.pad = 1;
    const auto simulation = run(kernel, platforms::load("tpu_v3_core"));
    EXPECT_EQ(simulation->stats().integer("ops.macs"), 3u * 7 * 7 * 9 * 32 * 48);
}

TEST(Kernels, VectorWorkAndAttention) {
    Kernel kernel;
    kernel.kind = Kernel::Kind::elements;
    kernel.opcode = "add", kernel.inputs = 2, kernel.m = 1 << 24, kernel.elem = ElemType::f16;
    const auto add = run(kernel, tpu());  // more than L1
    EXPECT_EQ(add->stats().integer("bytes.dram.read"), 2u * 2 << 24);
    EXPECT_EQ(add->stats().integer("bytes.dram.write"), 2u << 24);
    const auto heads = workload_of("attention_12x512x64");
    ASSERT_TRUE(heads.has_value());
    const auto attention = run(heads->kernels.at(0), platforms::load("tpu_v3_core"));
    EXPECT_EQ(attention->stats().integer("ops.macs"), 2u * 12 * 512 * 512 * 64);
}

/// The launch is paid once, before anything else.
TEST(Kernels, LaunchComesFirst) {
    Kernel kernel;
    kernel.m = 100000;
    const auto with = [&](const char* cycles) {
        const auto platform = platforms::load("tpu_v4_core", {{"sequencer.launch_cycles", cycles}});
        return run(kernel, platform)->now();
    };
    EXPECT_EQ(with("1000"), with("0") + 1000);
}

TEST(Workloads, Names) {
    const auto conv = workload_of("conv_64x28x28x128x256x3x2x1");
    ASSERT_TRUE(conv.has_value());
    EXPECT_EQ(conv->kernels.at(0).n, 256);
    EXPECT_EQ(conv->kernels.at(0).out_height(), 14);
    // multiply-accumulates of the published networks: torchvision's 1.81 and 4.09 G, pooled sides included
    const auto macs = [](const char* name) {
        double sum = 0;
        const auto workload = workload_of(name);
        for (const Kernel& k : workload->kernels)
            sum += k.kind == Kernel::Kind::product
                       ? double(k.m) * double(k.n) * double(k.k)
                       : double(k.out_height() * k.out_width() * k.window * k.window) * double(k.k) *
                             double(k.n);
        return sum;
    };
    EXPECT_NEAR(macs("resnet18") / 1.814e9, 1, 0.005);
    EXPECT_NEAR(macs("resnet50") / 4.089e9, 1, 0.005);
    for (const char* name :
         {"gemm_1x2", "gemm_0x2x3", "conv_1x2x3x4x5x3x1x1", "conv_1x2x2x4x5x7x1x0", "lstm_1x2", "gemm",
          "gemm_1x2x", "gemm_1x2x999999999999999999999", "attention_1x2", "softmax_-1x2", ""})
        EXPECT_FALSE(workload_of(name).has_value()) << name;
}

}  // namespace
}  // namespace kpu::validation
