#include "base/pool.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <string>

namespace kpu {
namespace {

TEST(Pool, NumbersCountUpAndComeAgainLastFirst) {
    Pool<int> pool;
    EXPECT_EQ(pool.take(), 0u);
    EXPECT_EQ(pool.take(), 1u);
    EXPECT_EQ(pool.take(), 2u);
    pool.give_back(0);
    pool.give_back(2);
    EXPECT_EQ(pool.take(), 2u);
    EXPECT_EQ(pool.take(), 0u);
    EXPECT_EQ(pool.take(), 3u);
    EXPECT_EQ(pool.size(), 4u);
}

TEST(Pool, AnObjectComesBackAsItWasGivenBack) {
    Pool<std::string> pool;
    const uint32_t number = pool.take();
    pool[number] = std::string(1000, 'x');
    const char* memory = pool[number].data();
    pool.give_back(number);
    ASSERT_EQ(pool.take(), number);
    EXPECT_EQ(pool[number].data(), memory);
}

TEST(Pool, ReferencesHoldAsLongAsThoseOfTheSequence) {
    Pool<int, std::deque<int>> pool;
    int& first = pool[pool.take()];
    for (int i = 0; i < 10000; ++i) pool.take();
    first = 7;
    EXPECT_EQ(&pool[0], &first);
    EXPECT_EQ(pool[0], 7);
}

}  // namespace
}  // namespace kpu
