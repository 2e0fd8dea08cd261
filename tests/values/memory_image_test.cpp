#include "values/memory_image.hpp"

#include <gtest/gtest.h>

#include <set>

#include "base/diagnostics.hpp"
#include "tests/values/helpers.hpp"

namespace kpu::values {
namespace {

using testing::pick;
using testing::Random;

// The written-byte map answers like a set of bytes, for runs of every alignment and length.
TEST(MemoryLevel, WrittenMapEqualsASetOfBytes) {
    Random random(1);
    for (int round = 0; round < 20; ++round) {
        MemoryLevel level(1000);
        std::set<uint64_t> bytes;
        for (int step = 0; step < 30; ++step) {
            const auto from = static_cast<uint64_t>(pick(random, 0, 999));
            const auto count = static_cast<uint64_t>(pick(random, 0, std::min<int64_t>(200, 1000 - from)));
            level.mark_written(from, count);
            for (uint64_t b = from; b < from + count; ++b) bytes.insert(b);
            const auto ask = static_cast<uint64_t>(pick(random, 0, 999));
            const auto length = static_cast<uint64_t>(pick(random, 0, 1000 - ask));
            uint64_t expected = ask;
            while (expected < ask + length && bytes.count(expected) != 0) ++expected;
            ASSERT_EQ(level.first_unwritten(ask, length), expected);
            ASSERT_EQ(level.all_written(ask, length), expected == ask + length);
        }
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
