// Ranges of values on samples: extremes, percentiles, numbers that are not finite.
#include "compiler/quantize/ranges.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/compiler/quantize/networks.hpp"
#include "values/convert.hpp"

namespace kpu::quantize {
namespace {

using testing::Data;
using testing::Network;

Range of(const std::vector<float>& numbers) {
    return range_of(ElemType::f32, reinterpret_cast<const uint8_t*>(numbers.data()), numbers.size());
}

TEST(Ranges, OfAnyLength) {
    for (size_t count : {1, 15, 16, 17, 100}) {
        std::vector<float> numbers(count, 0.5F);
        numbers[count - 1] = -2;
        numbers[count / 2] = count > 2 ? 3 : numbers[count / 2];
        const Range range = of(numbers);
        EXPECT_EQ(range.low, -2) << count;
        EXPECT_EQ(range.high, count > 2 ? 3 : -2) << count;
        EXPECT_TRUE(range.all_finite);
    }
    EXPECT_TRUE(of({}).empty());
}

TEST(Ranges, OfFiniteNumbersOnly) {
    std::vector<float> numbers(40, 1.0F);
    for (const float odd : {NAN, INFINITY, -INFINITY}) {
        for (const size_t at : {size_t{3}, size_t{39}}) {
            std::vector<float> some = numbers;
            some[at] = odd;
            const Range range = of(some);
            EXPECT_EQ(range.low, 1);
            EXPECT_EQ(range.high, 1);
            EXPECT_FALSE(range.all_finite);
        }
    }
    EXPECT_TRUE(of({NAN, INFINITY}).empty());
    EXPECT_FALSE(of({NAN, INFINITY}).all_finite);
}

TEST(Ranges, OfHalfFloats) {
    const std::vector<uint16_t> numbers{values::f16_of(-1.5), values::f16_of(7), values::f16_nan};
    const Range range = range_of(ElemType::f16, reinterpret_cast<const uint8_t*>(numbers.data()), 3);
    EXPECT_EQ(range.low, -1.5);
    EXPECT_EQ(range.high, 7);
    EXPECT_FALSE(range.all_finite);
}

// 100,000 numbers spread evenly over [0, 1): 1 percent is cut from each side.
TEST(Ranges, PercentilesOfAKnownDistribution) {
    std::vector<float> numbers;
    for (int i = 0; i < 100000; ++i) numbers.push_back(static_cast<float>(i) / 100000);
    Histogram histogram(of(numbers));
    histogram.add(ElemType::f32, reinterpret_cast<const uint8_t*>(numbers.data()), numbers.size());
    const Range middle = histogram.middle(98);
    EXPECT_NEAR(middle.low, 0.01, 1.0 / Histogram::bins);
    EXPECT_NEAR(middle.high, 0.99, 1.0 / Histogram::bins);
    const Range all = histogram.middle(100);
    EXPECT_EQ(all.low, numbers.front());
    EXPECT_EQ(all.high, numbers.back());
}

TEST(Ranges, PercentilesOfOneNumberAndOfNone) {
    const std::vector<float> same(100, 2.0F);
    Histogram histogram(of(same));
    histogram.add(ElemType::f32, reinterpret_cast<const uint8_t*>(same.data()), same.size());
    EXPECT_EQ(histogram.middle(99).low, 2);
    EXPECT_EQ(histogram.middle(99).high, 2);
    EXPECT_TRUE(Histogram(Range{}).middle(99).empty());
}

// One outlier among 4 x 4096 numbers moves the extremes, not the percentile.
TEST(Ranges, APercentileLeavesOutliersOut) {
    Network net;
    const auto x = net.input("x", {4096});
    net.output(net.op("relu", {x}));
    std::vector<std::vector<Data>> arrays;
    for (uint64_t i = 0; i < 4; ++i) {
        auto numbers = testing::random_numbers(i, 4096);
        if (i == 2) numbers[77] = 1000;
        arrays.push_back({graph::make_numbers(ElemType::f32, numbers)});
    }
    const auto samples = given_samples(net.graph, arrays);
    EXPECT_TRUE(samples->calibrated());
    const auto extremes = calibrate(net.graph, *samples);
    EXPECT_EQ(extremes[x].high, 1000);
    const auto y = net.graph.outputs[0].value;
    EXPECT_EQ(extremes[y].low, 0);
    RangeOptions options;
    options.method = RangeMethod::percentile;
    options.percentile = 99.9;
    const auto middles = calibrate(net.graph, *samples, options);
    EXPECT_LT(middles[x].high, 1.6);  // whole bins of half a unit
    EXPECT_GT(middles[x].high, 0.8);
    EXPECT_EQ(middles[y].low, 0);
}

}  // namespace
}  // namespace kpu::quantize
