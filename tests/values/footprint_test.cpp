#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/values/helpers.hpp"
#include "values/memory_image.hpp"

namespace kpu::values {
namespace {

using testing::pick;
using testing::Random;

std::set<uint64_t> bytes_of_elements(const RegionView& view) {
    std::set<uint64_t> bytes;
    const int64_t bits = bit_width(view.region->elem);
    for (const int64_t offset : testing::element_offsets(*view.region)) {
        for (int64_t bit = offset * bits; bit < (offset + 1) * bits; bit += 4) {
            bytes.insert(view.address + static_cast<uint64_t>(bit / 8));
        }
    }
    return bytes;
}

std::vector<uint64_t> bytes_in_order(const Footprint& f) {
    std::vector<uint64_t> starts = {f.address};
    for (int d = 0; d < f.dims; ++d) {  // dimension 0 is the innermost
        std::vector<uint64_t> next;
        for (int64_t i = 0; i < f.count[d]; ++i) {
            for (const uint64_t s : starts) next.push_back(s + static_cast<uint64_t>(i * f.stride_bytes[d]));
        }
        starts = next;
    }
    std::vector<uint64_t> bytes;
    for (const uint64_t s : starts) {
        for (uint64_t b = 0; b < f.run_bytes; ++b) bytes.push_back(s + b);
    }
    return bytes;
}

// A footprint lists exactly the bytes of the region's elements, each once, ascending, in maximal runs.
TEST(Footprint, IsExactAndAscending) {
    Random random(2);
    for (int round = 0; round < 3000; ++round) {
        const ElemType types[] = {ElemType::i8, ElemType::f16, ElemType::f32};
        const BoundRegion region = testing::random_region(random, types[round % 3]);
        const RegionView view{&region, static_cast<uint64_t>(pick(random, 0, 50))};
        const Footprint f = footprint_of(view);
        const auto expected = bytes_of_elements(view);
        const std::vector<uint64_t> bytes = bytes_in_order(f);
        ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(), expected.begin(), expected.end()));
        ASSERT_EQ(f.total_bytes(), expected.size());
        ASSERT_EQ(f.end(), *expected.rbegin() + 1);
        if (f.dims > 0) {
            ASSERT_GT(f.stride_bytes[0], static_cast<int64_t>(f.run_bytes)) << "runs must be maximal";
        }
    }
}

/// Makes some dimensions of the region repeat their elements.
void repeat_some(Random& random, BoundRegion& region) {
    for (size_t d = 0; d < region.shape.rank; ++d) {
        if (pick(random, 0, 2) == 0) region.strides[d] = 0;
    }
    region.dense = false;
}

// Dimensions of stride 0 add no byte, and none is listed twice.
TEST(Footprint, RepeatedElementsCountOnce) {
    Random random(5);
    for (int round = 0; round < 3000; ++round) {
        const ElemType types[] = {ElemType::i8, ElemType::f16, ElemType::f32};
        BoundRegion region = testing::random_region(random, types[round % 3]);
        repeat_some(random, region);
        const RegionView view{&region, 7};
        const auto expected = bytes_of_elements(view);
        const std::vector<uint64_t> bytes = bytes_in_order(footprint_of(view));
        ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(), expected.begin(), expected.end()));
        BoundRegion other = testing::random_region(random, types[(round + 1) % 3]);
        if (round % 2 == 0) repeat_some(random, other);
        const RegionView there{&other, static_cast<uint64_t>(pick(random, 0, 60))};
        const auto others = bytes_of_elements(there);
        const bool common =
            std::any_of(others.begin(), others.end(), [&](uint64_t b) { return expected.count(b) != 0; });
        ASSERT_EQ(overlap(footprint_of(view), footprint_of(there)), common);
    }
}

// Half-byte elements: every touched byte is covered, and nothing else unless a stride is odd.
TEST(Footprint, CoversHalfBytes) {
    Random random(3);
    for (int round = 0; round < 3000; ++round) {
        const BoundRegion region = testing::random_region(random, ElemType::i4);
        const RegionView view{&region, 7};
        const auto expected = bytes_of_elements(view);
        const std::vector<uint64_t> listed = bytes_in_order(footprint_of(view));
        const std::set<uint64_t> bytes(listed.begin(), listed.end());
        ASSERT_TRUE(std::includes(bytes.begin(), bytes.end(), expected.begin(), expected.end()));
        bool odd = false;
        for (size_t d = 0; d < region.shape.rank; ++d) {
            odd = odd || (region.shape[d] > 1 && region.strides[d] % 2 != 0);
        }
        if (!odd || region.dense) {
            ASSERT_EQ(bytes, expected);
        }
    }
}

// overlap() agrees with comparing the two sets of bytes, for related and unrelated strides.
TEST(Footprint, OverlapEqualsBruteForce) {
    Random random(4);
    int touching = 0;
    constexpr int rounds = 4000;
    for (int round = 0; round < rounds; ++round) {
        const BoundRegion a = testing::random_region(random, ElemType::i8);
        BoundRegion b = testing::random_region(random, round % 2 == 0 ? ElemType::i8 : ElemType::f16);
        if (round % 3 == 0) b.strides = a.strides, b.shape = a.shape, b.dense = a.dense;
        const RegionView va{&a, static_cast<uint64_t>(pick(random, 0, 60))};
        const RegionView vb{&b, static_cast<uint64_t>(pick(random, 0, 60))};
        const auto sa = bytes_of_elements(va);
        const auto sb = bytes_of_elements(vb);
        const bool expected = std::any_of(sa.begin(), sa.end(), [&](uint64_t x) { return sb.count(x) != 0; });
        touching += expected ? 1 : 0;
        ASSERT_EQ(overlap(footprint_of(va), footprint_of(vb)), expected);
        ASSERT_EQ(overlap(footprint_of(vb), footprint_of(va)), expected);
    }
    EXPECT_GT(touching, rounds / 10);
    EXPECT_LT(touching, rounds * 9 / 10);
}

// Column tiles of a large matrix interleave in memory without sharing a byte, and the answer is quick.
TEST(Footprint, InterleavedTilesDoNotOverlap) {
    BoundRegion left = testing::region(ElemType::f16, {4096, 64});
    left.strides = testing::dims({4096, 1});
    left.dense = false;
    const RegionView a{&left, 0};
    const RegionView b{&left, 128};
    const RegionView c{&left, 126};
    EXPECT_FALSE(overlap(footprint_of(a), footprint_of(b)));
    EXPECT_TRUE(overlap(footprint_of(a), footprint_of(c)));
}

// An untyped region is its extent; a region without elements touches nothing.
TEST(Footprint, UntypedAndEmpty) {
    BoundRegion bytes;
    bytes.extent = 10;
    EXPECT_EQ(footprint_of({&bytes, 3}).end(), 13U);
    const BoundRegion empty = testing::region(ElemType::f32, {3, 0});
    EXPECT_EQ(footprint_of({&empty, 3}).total_bytes(), 0U);
    EXPECT_FALSE(overlap(footprint_of({&bytes, 0}), footprint_of({&empty, 3})));
}

}  // namespace
}  // namespace kpu::values
