// Transfers that share what lies on their way: expected times are worked out by hand.
#include "compiler/estimate/sharing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace kpu::estimate {
namespace {

constexpr size_t pins = 0, wide = 1, resources = 3;

/// Makes a flow of `bytes` at 10 bytes per cycle of the pins; its unit asks for `port` bytes per cycle,
/// `window` ahead.
Flow flow(double bytes, double port, double window) {
    Flow flow;
    flow.bytes = bytes;
    flow.issue = bytes / port;
    flow.window = window;
    flow.demand = {bytes / 10, 0, 0};
    flow.alone = std::max(flow.issue, bytes / 10);
    return flow;
}

/// Ends of flows that begin at these times.
std::vector<double> ends_of(std::vector<Flow> flows, const std::vector<double>& begins) {
    Sharing sharing(resources, wide);
    std::map<const Flow*, double> ends;
    double now = 0;
    size_t added = 0;
    while (ends.size() < flows.size()) {
        const double next = sharing.next(now);
        const bool begin = added < flows.size() && begins[added] <= next;
        const double to = begin ? begins[added] : next;
        for (const Flow* through : sharing.advance(now, to)) ends[through] = to;
        now = to;
        if (begin) sharing.add(flows[added++], now);
    }
    std::vector<double> result;
    for (const Flow& each : flows) result.push_back(ends.at(&each));
    return result;
}

TEST(Sharing, AloneATransferTakesItsSlowestPart) {
    EXPECT_NEAR(ends_of({flow(1000, 100, 1e9)}, {0})[0], 100, 1e-6);
    EXPECT_NEAR(ends_of({flow(1000, 5, 1e9)}, {0})[0], 200, 1e-6);
}

TEST(Sharing, ThoseThatBeginTogetherGetTheSame) {
    const std::vector<double> ends = ends_of({flow(1000, 100, 100), flow(1000, 100, 100)}, {0, 0});
    EXPECT_NEAR(ends[0], 200, 1e-6);
    EXPECT_NEAR(ends[1], 200, 1e-6);
}

// A written byte takes 0.15 cycles of the pins beside one that is read, 0.1 alone: both get 4 bytes per cycle until the
// first has all of its 400, then the other 10.
TEST(Sharing, WritesTakeLongerWhileOthersRead) {
    Flow writes = flow(1000, 100, 100);
    writes.turning = 50;
    const std::vector<double> ends = ends_of({flow(400, 100, 100), writes}, {0, 0});
    EXPECT_NEAR(ends[0], 100, 1e-6);
    EXPECT_NEAR(ends[1], 160, 1e-6);
    EXPECT_NEAR(ends_of({writes, writes}, {0, 0})[1], 200, 1e-6);
}

// 2 bytes per cycle are all that the first can take, the other gets the other 8.
TEST(Sharing, WhatOneCannotUseTheOtherGets) {
    const std::vector<double> ends = ends_of({flow(200, 2, 1e9), flow(800, 100, 100)}, {0, 0});
    EXPECT_NEAR(ends[0], 100, 1e-6);
    EXPECT_NEAR(ends[1], 100, 1e-6);
}

// The first has asked for all of its bytes when the second begins, so it ends as if it were alone.
TEST(Sharing, WhoAskedFirstIsServedFirst) {
    const std::vector<double> ends = ends_of({flow(1000, 1e6, 1e9), flow(1000, 1e6, 1e9)}, {0, 50});
    EXPECT_NEAR(ends[0], 100, 0.1);
    EXPECT_NEAR(ends[1], 200, 0.1);
}

// 100 bytes of the first are asked for at 50: they go first, to 60; then both share what is left of the first, 400.
TEST(Sharing, ASmallWindowIsAllThatGoesFirst) {
    const std::vector<double> ends = ends_of({flow(1000, 1e6, 100), flow(1000, 1e6, 100)}, {0, 50});
    EXPECT_NEAR(ends[0], 60 + 2 * 40, 0.1);
    EXPECT_NEAR(ends[1], 200, 0.1);
}

// Late in a long program a time has few digits left after the point; queues still come to their end.
TEST(Sharing, LateTimes) {
    const double late = 1e10 + 0.3;
    const std::vector<double> ends = ends_of({flow(1000, 7, 1e9), flow(777, 1e6, 100), flow(333, 1e6, 1e9)},
                                             {late, late + 0.1, late + 50.7});
    for (const double end : ends) EXPECT_LT(end, late + 400);
}

TEST(Sharing, OthersOfAWideResourceDoNotWait) {
    Flow other = flow(1000, 10, 1e9);
    other.demand = {0, 1, 100};
    const std::vector<double> ends = ends_of({flow(1000, 1e6, 1e9), other}, {0, 50});
    EXPECT_NEAR(ends[0], 100, 0.1);
    EXPECT_NEAR(ends[1], 150, 0.1);
}

}  // namespace
}  // namespace kpu::estimate
