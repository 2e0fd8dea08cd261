// The tree of minima against a search through all times.
#include "model/memory/earliest.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace kpu::model {
namespace {

void expect_first(const Earliest& tree, const std::vector<Cycles>& times) {
    const auto least = std::min_element(times.begin(), times.end());
    ASSERT_EQ(tree.time(), *least);
    if (*least == never) return;
    const auto place = static_cast<size_t>(least - times.begin());
    Cycles until = never;
    for (size_t i = 0; i < times.size(); ++i)
        if (i != place) until = std::min(until, times[i]);
    const Earliest::First first = tree.first();
    EXPECT_EQ(first.place, place);
    EXPECT_EQ(first.until, until);
}

TEST(Earliest, nothing_comes_without_places) {
    Earliest tree;
    EXPECT_EQ(tree.time(), never);
    tree.assign(0, [](size_t) { return Cycles{1}; });
    EXPECT_EQ(tree.time(), never);
}

TEST(Earliest, is_the_lowest_place_of_the_least_time_whatever_changes) {
    std::mt19937_64 random(1);
    Earliest tree;
    for (int round = 0; round < 200; ++round) {
        std::vector<Cycles> times(1 + random() % (round % 10 == 0 ? 300 : 9));
        const auto time = [&] { return random() % 8 == 0 ? never : random() % 20; };
        for (Cycles& t : times) t = time();
        tree.assign(times.size(), [&](size_t place) { return times[place]; });
        expect_first(tree, times);
        for (int change = 0; change < 50; ++change) {
            const size_t place = random() % times.size();
            times[place] = time();
            tree.set(place, times[place]);
            expect_first(tree, times);
        }
    }
}

}  // namespace
}  // namespace kpu::model
