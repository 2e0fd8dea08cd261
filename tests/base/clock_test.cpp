#include "base/clock.hpp"

#include <gtest/gtest.h>

namespace kpu {
namespace {

class ClockProperty : public testing::TestWithParam<uint64_t> {};

/// Counting the edges before the time of edge n gives n, and one picosecond later n + 1: edge and
/// edges_before are inverse, also far out, where n * 10^12 does not fit in 64 bits.
TEST_P(ClockProperty, EdgesAndCountsAreInverse) {
    const Clock clock(GetParam());
    for (uint64_t start : {0ull, 1'000'000ull, 123'456'789'012ull}) {
        for (uint64_t n = start; n < start + 1000; ++n) {
            ASSERT_EQ(clock.edges_before(clock.edge(n)), n);
            ASSERT_EQ(clock.edges_before(clock.edge(n) + 1), n + 1);
            ASSERT_EQ(clock.last_edge(clock.edge(n)), n);
            ASSERT_EQ(clock.last_edge(clock.edge(n + 1) - 1), n);
        }
    }
}

/// Edge n lies at floor(n * 10^12 / hz): n + 1 edges later never drift from the exact quotient by a
/// picosecond.
TEST_P(ClockProperty, EdgesNeverDrift) {
    const Clock clock(GetParam());
    for (uint64_t seconds : {1ull, 10ull, 3600ull}) {
        EXPECT_EQ(clock.edge(GetParam() * seconds), seconds * 1'000'000'000'000ull);
    }
}

INSTANTIATE_TEST_SUITE_P(Frequencies, ClockProperty,
                         testing::Values(500'000'000ull, 1'333'333'000ull, 1'333'333'333ull, 1'000'000'000ull,
                                         7'000'001ull));

/// 1333.333 MHz: the first edges, computed by hand from n * 10^12 / 1333333000.
TEST(Clock, FractionalPeriods) {
    const Clock clock(1'333'333'000);
    EXPECT_EQ(clock.edge(1), 750u);
    EXPECT_EQ(clock.edge(4000), 3000000u);  // 3000000.75
    EXPECT_EQ(clock.edge(4'000'000), 3'000'000'750u);
}

}  // namespace
}  // namespace kpu
