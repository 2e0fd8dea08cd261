#include "values/memory_image.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/diagnostics.hpp"
#include "tests/values/helpers.hpp"

namespace kpu::values {
namespace {

using testing::pick;
using testing::Random;

/// The written-byte map of a level of `size` answers like a set of bytes, for runs up to `most`; a reset empties it.
void expect_like_a_set(Random& random, int64_t size, int64_t most) {
    MemoryLevel level(static_cast<uint64_t>(size));
    std::vector<bool> bytes(static_cast<size_t>(size), false);
    for (int step = 0; step < 30; ++step) {
        const auto from = static_cast<uint64_t>(pick(random, 0, size - 1));
        const auto count = static_cast<uint64_t>(
            pick(random, 0, std::min<int64_t>(most, size - static_cast<int64_t>(from))));
        level.mark_written(from, count);
        std::fill_n(bytes.begin() + static_cast<int64_t>(from), count, true);
        const auto ask = static_cast<uint64_t>(pick(random, 0, size - 1));
        const auto length = static_cast<uint64_t>(pick(random, 0, size - static_cast<int64_t>(ask)));
        uint64_t expected = ask;
        while (expected < ask + length && bytes[expected]) ++expected;
        ASSERT_EQ(level.first_unwritten(ask, length), expected);
        ASSERT_EQ(level.all_written(ask, length), expected == ask + length);
    }
    level.reset();
    const auto at = static_cast<uint64_t>(pick(random, 0, size - 1));
    ASSERT_EQ(level.first_unwritten(at, 1), at);
}

// Runs of every alignment and length, within a block of the map, over its borders, over many whole ones.
TEST(MemoryLevel, WrittenMapEqualsASetOfBytes) {
    Random random(1);
    for (int round = 0; round < 20; ++round) {
        expect_like_a_set(random, 1000, 200);
        expect_like_a_set(random, 4096, 4096);
        expect_like_a_set(random, 20'000 + round, 9000);
        expect_like_a_set(random, 100'000, 70'000);
    }
}

// A level starts as zeros nobody wrote, keeps what is written, and returns to zeros on reset.
TEST(MemoryLevel, StartsZeroAndResets) {
    MemoryLevel level(uint64_t{4} << 30);
    const uint64_t far = (uint64_t{4} << 30) - 3;
    const uint8_t bytes[3] = {1, 2, 3};
    EXPECT_EQ(level.data()[far], 0);
    EXPECT_FALSE(level.all_written(far, 1));
    level.write(far, bytes, 3);
    EXPECT_EQ(level.data()[far + 2], 3);
    EXPECT_TRUE(level.all_written(far, 3));
    level.reset();
    EXPECT_EQ(level.data()[far + 2], 0);
    EXPECT_EQ(level.first_unwritten(far, 3), far);
}

// Accesses beyond the end are our bug, not a crash; a size no host can hold is the user's error.
TEST(MemoryLevel, RefusesWhatDoesNotFit) {
    MemoryLevel level(16);
    EXPECT_THROW(level.mark_written(16, 1), InternalError);
    EXPECT_THROW(level.write(~uint64_t{0}, "x", 1), InternalError);
    EXPECT_NO_THROW(level.mark_written(16, 0));
    EXPECT_THROW(MemoryLevel(~uint64_t{0}), UserError);
    EXPECT_EQ(MemoryLevel(0).first_unwritten(0, 0), 0U);
}

// Each level is its own memory, and moving one keeps its bytes.
TEST(MemoryImage, LevelsAreSeparate) {
    MemoryImage image(64, 64, {64, 64});
    image.level(Level::l1, 1).write(5, "a", 1);
    EXPECT_EQ(image.level(Level::l1, 0).data()[5], 0);
    EXPECT_EQ(image.level(Level::l2, 0).data()[5], 0);
    EXPECT_THROW(image.level(Level::l1, 2), InternalError);
    MemoryLevel moved = std::move(image.level(Level::l1, 1));
    EXPECT_EQ(moved.data()[5], 'a');
    EXPECT_TRUE(moved.all_written(5, 1));
}

}  // namespace
}  // namespace kpu::values
