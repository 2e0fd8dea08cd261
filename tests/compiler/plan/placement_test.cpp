// Places in L2 and DDR: never on top of each other, and L2 has what saves most.
#include "compiler/memory/placement.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/diagnostics.hpp"

namespace kpu::compiler {
namespace {

constexpr uint64_t page = tile_align;

Storage storage(uint64_t pages, uint32_t first, uint32_t last, uint64_t traffic) {
    Storage result;
    result.name = "s";
    result.bytes = pages * page;
    result.first = first;
    result.last = last;
    result.traffic = traffic * page;
    return result;
}

MemoryPlan planned(std::vector<Storage> storages, const Room& room, std::vector<Home> wished = {}) {
    MemoryPlan plan;
    plan.storages = std::move(storages);
    uint32_t groups = 0;
    for (const Storage& of : plan.storages) groups = std::max(groups, of.last + 1);
    plan.groups.resize(groups);
    wished.resize(plan.storages.size(), Home::none);
    place(plan, wished, room);
    return plan;
}

uint64_t traffic(const MemoryPlan& plan) {
    uint64_t sum = 0;
    for (const Storage& of : plan.storages) sum += of.home == Home::ddr ? of.traffic : 0;
    return sum / page;
}

TEST(Placement, ShortLivesGoBeforeLongOnes) {
    // in the order of the program, the first one would keep all others out
    const MemoryPlan plan =
        planned({storage(4, 0, 9, 8), storage(4, 1, 2, 8), storage(4, 3, 4, 8), storage(4, 5, 6, 8)},
                {4 * page, 100 * page});
    EXPECT_EQ(traffic(plan), 8u);
    EXPECT_EQ(plan.storages[0].home, Home::ddr);
    EXPECT_EQ(plan.l2_bytes, 4 * page);
    EXPECT_EQ(plan.ddr_bytes, 4 * page);
}

TEST(Placement, WhatIsReadOftenGoesBeforeWhatIsNot) {
    const MemoryPlan plan = planned({storage(4, 0, 3, 8), storage(3, 0, 3, 30)}, {5 * page, 100 * page});
    EXPECT_EQ(plan.storages[0].home, Home::ddr);
    EXPECT_EQ(plan.storages[1].home, Home::l2);
}

TEST(Placement, AConstantHasAPlaceInL2InPartOrNone) {
    const uint64_t pages = 400;
    Storage large = storage(pages, 1, 3, 10 * pages), other = storage(100, 0, 9, 5000);
    large.constant = true;
    const MemoryPlan part = planned({other, large}, {400 * page, 100 * page});
    EXPECT_EQ(part.storages[1].home, Home::l2);
    EXPECT_EQ(part.storages[1].bytes, 272 * page);  // 10 parts of 11 of what is left
    EXPECT_EQ(part.storages[1].address, 100 * page);
    const MemoryPlan none = planned({other, large}, {120 * page, 100 * page});
    EXPECT_EQ(none.storages[1].home, Home::ddr);  // where it is anyhow: more than DDR has left is no error
    EXPECT_EQ(none.ddr_bytes, 0u);
}

TEST(Placement, FixedHomesStay) {
    const MemoryPlan plan =
        planned({storage(4, 0, 3, 800), storage(3, 0, 3, 1)}, {5 * page, 100 * page}, {Home::none, Home::l2});
    EXPECT_EQ(plan.storages[0].home, Home::ddr);
    EXPECT_EQ(plan.storages[1].home, Home::l2);
    EXPECT_EQ(planned({storage(4, 0, 3, 9)}, {5 * page, 100 * page}, {Home::ddr}).storages[0].home,
              Home::ddr);
    EXPECT_THROW(planned({storage(6, 0, 3, 9)}, {5 * page, 100 * page}, {Home::l2}), UserError);
    EXPECT_THROW(planned({storage(6, 0, 3, 9)}, {5 * page, 5 * page}), UserError);
}

TEST(Placement, FixedHomesNeedNotBeTakenInTheOrderOfTheProgram) {
    // the second one after the first one would leave no row of 6 pages
    const MemoryPlan plan = planned({storage(4, 0, 1, 8), storage(3, 0, 3, 6), storage(6, 2, 3, 12)},
                                    {10 * page, 100 * page}, {Home::l2, Home::l2, Home::l2});
    EXPECT_EQ(traffic(plan), 0u);
}

/// Returns the least traffic of any set of storages that L2 could hold by their bytes alone: no plan is
/// better.
uint64_t least_traffic(const std::vector<Storage>& storages, uint64_t l2) {
    uint64_t least = UINT64_MAX;
    for (uint32_t set = 0; set < 1u << storages.size(); ++set) {
        uint64_t sum = 0;
        bool fits = true;
        for (uint32_t group = 0; group < 10 && fits; ++group) {
            uint64_t bytes = 0;
            for (size_t s = 0; s < storages.size(); ++s) {
                const bool alive = storages[s].first <= group && group <= storages[s].last;
                if (set >> s & 1 && alive) bytes += storages[s].bytes;
            }
            fits = bytes <= l2;
        }
        for (size_t s = 0; s < storages.size(); ++s) sum += set >> s & 1 ? 0 : storages[s].traffic;
        if (fits) least = std::min(least, sum);
    }
    return least / page;
}

TEST(Placement, RandomStoragesNeverOverlapAndAreNearTheBest) {
    std::mt19937 random(7);
    const auto pick = [&](uint32_t least, uint32_t most) {
        return std::uniform_int_distribution<uint32_t>(least, most)(random);
    };
    uint64_t found = 0, best = 0, all = 0;
    for (int round = 0; round < 200; ++round) {
        std::vector<Storage> storages;
        for (int n = 0; n < 10; ++n) {
            const uint32_t first = pick(0, 8), bytes = pick(1, 6);
            storages.push_back(storage(bytes, first, std::min(9u, first + pick(1, 4)), bytes * pick(2, 4)));
        }
        const MemoryPlan plan = planned(storages, {8 * page, 100 * page});
        for (size_t a = 0; a < storages.size(); ++a) {
            const Storage& one = plan.storages[a];
            EXPECT_LE(one.address + one.bytes, one.home == Home::l2 ? plan.l2_bytes : plan.ddr_bytes);
            for (size_t b = 0; b < a; ++b) {
                const Storage& other = plan.storages[b];
                const bool together = one.first <= other.last && other.first <= one.last;
                const bool over =
                    one.address < other.address + other.bytes && other.address < one.address + one.bytes;
                EXPECT_FALSE(one.home == other.home && together && over) << round << ": " << a << ", " << b;
            }
        }
        EXPECT_LE(plan.l2_bytes, 8 * page);
        std::vector<Home> homes;
        for (const Storage& of : plan.storages) homes.push_back(of.home);
        EXPECT_EQ(traffic(planned(storages, {8 * page, 100 * page}, homes)), traffic(plan)) << round;
        found += traffic(plan);
        best += least_traffic(storages, 8 * page);
        for (const Storage& of : storages) all += of.traffic / page;
    }
    EXPECT_GE(found, best);
    EXPECT_LE(double(found - best), 0.1 * double(all - best))
        << found << " of " << all << ", at best " << best;
}

}  // namespace
}  // namespace kpu::compiler
