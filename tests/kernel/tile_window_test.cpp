// Overlap of windows against the sets of their bytes.
#include "values/kernel/tiles/tile_window.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace kpu::values::kernel {
namespace {

std::set<uint64_t> bytes_of(const ByteWindow& window) {
    std::set<uint64_t> bytes;
    for (int64_t i = 0; i < static_cast<int64_t>(window.count()); ++i) {
        int64_t rest = i, element = 0;
        for (size_t d = window.sizes.size(); d-- > 0; rest /= window.sizes[d])
            element += rest % window.sizes[d] * window.strides[d];
        bytes.insert(window.first + static_cast<uint64_t>(element) * window.element_bytes);
    }
    return bytes;
}

ByteWindow random_window(std::mt19937& random, const Shape& buffer, bool steps) {
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
    ByteWindow window;
    window.element_bytes = 4;
    window.strides = row_major(buffer);
    for (size_t d = 0; d < buffer.size(); ++d) {
        const int64_t start = below(buffer[d]), step = steps ? 1 + below(3) : 1;
        window.sizes.push_back(1 + below((buffer[d] - 1 - start) / step + 1));
        window.first += static_cast<uint64_t>(start * window.strides[d]) * window.element_bytes;
        window.strides[d] *= step;
    }
    return window;
}

TEST(TileWindow, OverlapIsThatOfTheBytes) {
    std::mt19937 random(5);
    int overlapping = 0;
    for (int round = 0; round < 20000; ++round) {
        const Shape buffer{1 + static_cast<int64_t>(random() % 3), 1 + static_cast<int64_t>(random() % 5),
                           1 + static_cast<int64_t>(random() % 6)};
        const bool steps = round % 3 == 0;
        const ByteWindow a = random_window(random, buffer, steps), b = random_window(random, buffer, steps);
        const std::set<uint64_t> others = bytes_of(b);
        bool shared = false;
        for (const uint64_t byte : bytes_of(a)) shared |= others.count(byte) > 0;
        ASSERT_EQ(a.overlaps(b), shared) << round;
        overlapping += shared;
    }
    EXPECT_GT(overlapping, 5000);
    EXPECT_LT(overlapping, 15000);
}

}  // namespace
}  // namespace kpu::values::kernel
