// The shared sets of numbers against std::set.
#include "base/number_set.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace kpu {
namespace {

using Plain = std::set<uint32_t>;

void expect_same(const NumberSet& set, const Plain& plain, uint32_t most) {
    EXPECT_EQ(set.empty(), plain.empty());
    for (uint32_t n = 0; n < most; ++n) ASSERT_EQ(set.contains(n), plain.count(n) == 1) << n;
}

TEST(NumberSet, RandomOperationsAreThoseOfAPlainSet) {
    std::mt19937 random(1);
    constexpr uint32_t most = 5000;
    std::vector<NumberSet> sets(6);
    std::vector<Plain> plain(6);
    for (int step = 0; step < 4000; ++step) {
        const size_t a = random() % 6, b = random() % 6;
        uint32_t first = random() % most, last = random() % most;
        if (first > last) std::swap(first, last);
        switch (random() % 8) {
            case 0:
                sets[a] = sets[b];
                plain[a] = plain[b];
                break;
            case 1:
                sets[a].add(sets[b], first, last);
                plain[a].insert(plain[b].lower_bound(first), plain[b].lower_bound(last));
                break;
            case 2:
                sets[a].add(sets[b]);
                plain[a].insert(plain[b].begin(), plain[b].end());
                break;
            case 3: {
                sets[a].remove(sets[b]);
                Plain rest;
                for (const uint32_t n : plain[a])
                    if (plain[b].count(n) == 0) rest.insert(n);
                plain[a] = rest;
                break;
            }
            case 4:  // a run, so that full parts come about
                last = std::min(last, first + 1500);
                for (uint32_t n = first; n < last; ++n) sets[a].insert(n);
                for (uint32_t n = first; n < last; ++n) plain[a].insert(n);
                break;
            default:
                sets[a].insert(first);
                plain[a].insert(first);
        }
        const auto in_range = std::distance(plain[a].lower_bound(first), plain[a].lower_bound(last));
        ASSERT_EQ(sets[a].contains_all(first, last), static_cast<uint32_t>(in_range) == last - first);
        if (step % 50 == 0) expect_same(sets[a], plain[a], most);
    }
    for (size_t i = 0; i < sets.size(); ++i) expect_same(sets[i], plain[i], most);
}

TEST(NumberSet, HasRoomToItsEnd) {
    NumberSet set;
    set.insert(NumberSet::end - 1);
    set.insert(0);
    EXPECT_TRUE(set.contains(NumberSet::end - 1) && set.contains(0));
    EXPECT_FALSE(set.contains(NumberSet::end - 2) || set.contains(1));
    EXPECT_TRUE(set.contains_all(NumberSet::end - 1, NumberSet::end));
    EXPECT_FALSE(set.contains_all(0, NumberSet::end));
}

}  // namespace
}  // namespace kpu
