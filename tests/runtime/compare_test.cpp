// Operations of two programs for one source are found by id, then by place.
#include <gtest/gtest.h>

#include <utility>

#include "runtime/compare/operations.hpp"

namespace kpu::compare {
namespace {

using Pairs = std::vector<std::pair<int, int>>;

/// -1: the other program does not have it.
Pairs pairs_of(const std::vector<Operation>& a, const std::vector<Operation>& b) {
    Pairs pairs;
    for (const OperationPair& pair : match_operations(a, b))
        pairs.emplace_back(pair.a ? static_cast<int>(*pair.a) : -1, pair.b ? static_cast<int>(*pair.b) : -1);
    return pairs;
}

TEST(MatchOperations, ById) {
    EXPECT_EQ(pairs_of({{"x", ""}, {"y", ""}, {"z", ""}}, {{"z", ""}, {"x", ""}, {"w", ""}}),
              (Pairs{{0, 1}, {1, -1}, {2, 0}, {-1, 2}}));
}

TEST(MatchOperations, ByPlaceWhatIsLeft) {
    // b was renamed to c; the ids win where both say something else
    EXPECT_EQ(pairs_of({{"a", "m:1"}, {"b", "m:2"}}, {{"c", "m:2"}, {"a", "m:9"}}), (Pairs{{0, 1}, {1, 0}}));
    EXPECT_EQ(pairs_of({{"a", "m:1"}}, {{"b", "m:1"}, {"a", ""}}), (Pairs{{0, 1}, {-1, 0}}));
}

TEST(MatchOperations, WhatIsThereTwiceIsNotGuessed) {
    EXPECT_EQ(pairs_of({{"a", "m:1"}, {"b", "m:1"}}, {{"c", "m:1"}}), (Pairs{{0, -1}, {1, -1}, {-1, 0}}));
    EXPECT_EQ(pairs_of({{"a", "m:1"}}, {{"b", "m:1"}, {"c", "m:1"}}), (Pairs{{0, -1}, {-1, 0}, {-1, 1}}));
    EXPECT_EQ(pairs_of({{"a", ""}}, {{"b", ""}}), (Pairs{{0, -1}, {-1, 0}}));  // no place is no common place
}

}  // namespace
}  // namespace kpu::compare
