// Weights that several operations read: right values, without a hazard, and from DRAM once where L2 has room.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "tests/compiler/plan/networks.hpp"

namespace kpu::compiler {
namespace {

using namespace testing;

uint64_t bytes_of_weights(Maker& maker) {
    uint64_t sum = 0;
    for (const graph::Value& value : maker.graph().values) sum += value.constant() ? value.data.size : 0;
    return sum;
}

/// Runs `count` steps of one product.
Result steps_of(int64_t count, const std::string& device, const platforms::Overrides& overrides) {
    Recurrence net(ElemType::f16, 3);
    ValueId x = net.maker.input({1, 128});
    const ValueId w = net.weights(128, 128);
    for (int64_t i = 0; i < count; ++i) x = net.product(x, w);
    net.maker.output(x);
    return run(net.maker, device, overrides);
}

/// Without effort: the first operation, for which no constants could come beforehand, is cut in another way.
TEST(Shared, WeightsComeFromDramTwiceAtMost) {
    for (const char* device : {"swkpu-v1", "tile32", "npm_lite"}) {
        const uint64_t weights = 128 * 128 * 2, ends = 4096;
        EXPECT_LT(steps_of(6, device, {}).dram_bytes, 2 * weights + ends) << device;
    }
}

TEST(Shared, WhatFitsInPartIsKeptInPart) {
    const platforms::Overrides small = {{"engine.l1.size_bytes", "32768"}, {"l2.size_bytes", "131072"}};
    Recurrence net(ElemType::f16, 4);
    ValueId x = net.maker.input({1, 256});
    const ValueId w = net.weights(256, 256);
    for (int i = 0; i < 8; ++i) x = net.product(x, w);
    net.maker.output(x);
    const Result result = run(net.maker, "tile32", small);
    const uint64_t weights = bytes_of_weights(net.maker);
    EXPECT_EQ(weights, 131072u);
    EXPECT_LT(result.dram_bytes, 6 * weights);
    EXPECT_GT(result.dram_bytes, 2 * weights);
}

/// 20 steps in all.
TEST(Shared, TheyStayFromInferenceToInference) {
    Recurrence net(ElemType::i8, 5);
    ValueId x = net.maker.input({2, 96});
    const ValueId w = net.weights(96, 96);
    for (int i = 0; i < 4; ++i) x = net.product(x, w);
    net.maker.output(x);
    const Result five = run_several(net.maker, "swkpu-v1", {}, 5);
    EXPECT_LT(five.dram_bytes, 7u * 96 * 96);
}

TEST(Shared, TheyLiveInL2FromTheFirstToTheLast) {
    const Result result = steps_of(3, "swkpu-v1", {});
    ASSERT_EQ(result.lowered.plan.memory.shared.size(), 1u);
    const Storage& storage =
        result.lowered.plan.memory.storages[result.lowered.plan.memory.shared.begin()->second];
    EXPECT_EQ(storage.home, Home::l2);
    EXPECT_EQ(storage.first, 0u);
    EXPECT_EQ(storage.last, result.lowered.plan.ops.size() - 1);
    EXPECT_GE(storage.bytes, 128u * 128 * 2);
}

class RandomRecurrences : public ::testing::TestWithParam<uint32_t> {};

/// Two weights in turn, one of them also read by products of more rows, which are cut in another way, and larger ones
/// between, whose tensors want the room; much or little of L1 and L2.
TEST_P(RandomRecurrences, KeepTheirValues) {
    const char* devices[] = {"swkpu-v1", "tile32", "npm_lite"};
    for (uint32_t seed = 0; seed < 4; ++seed) {
        Recurrence net(seed % 2 == 0 ? ElemType::f16 : ElemType::i8, GetParam() * 100 + seed);
        Maker& maker = net.maker;
        const int64_t width = maker.pick(17, 200), rows = maker.pick(1, 40);
        const ValueId a = net.weights(width, width), b = net.weights(width, width);
        ValueId x = maker.input({rows, width});
        const ValueId many = maker.input({maker.pick(50, 300), width});
        for (int64_t step = maker.pick(3, 6); step > 0; --step) {
            x = net.product(x, a);
            if (maker.pick(0, 1) == 0) x = net.product(x, b, maker.pick(0, 1) == 0);
            if (maker.pick(0, 2) == 0) maker.output(maker.unary("relu", net.product(many, a)));
        }
        maker.output(x);
        const std::string l1 = std::to_string(int64_t{8192} << maker.pick(0, 3));
        const std::string l2 = std::to_string(int64_t{65536} << maker.pick(0, 3));
        run(maker, devices[maker.pick(0, 2)], {{"engine.l1.size_bytes", l1}, {"l2.size_bytes", l2}});
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomRecurrences, ::testing::Range(0u, 6u));

}  // namespace
}  // namespace kpu::compiler
