// The shared clocks against maps.
#include "base/chain_clock.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace kpu {
namespace {

TEST(ChainClock, RandomOperationsAreThoseOfMaps) {
    std::mt19937 random(1);
    std::vector<ChainClock> clocks(6);
    std::vector<std::map<uint32_t, uint32_t>> plain(6);
    for (int step = 0; step < 6000; ++step) {
        const size_t a = random() % 6, b = random() % 6;
        // near ones mostly, and some that make the tree higher
        const uint32_t chain = random() % (uint32_t{1} << random() % (step % 50 == 0 ? 21 : 8));
        const uint32_t count = 1 + random() % 1000;
        switch (random() % 4) {
            case 0:
                clocks[a] = clocks[b];
                plain[a] = plain[b];
                break;
            case 1:
                clocks[a].add(clocks[b]);
                for (const auto& [at, far] : plain[b]) plain[a][at] = std::max(plain[a][at], far);
                break;
            case 2:
                clocks[a] = {};
                plain[a].clear();
                [[fallthrough]];
            default:
                clocks[a].raise(chain, count);
                plain[a][chain] = std::max(plain[a][chain], count);
        }
        EXPECT_EQ(clocks[a].empty(), plain[a].empty());
        for (const auto& [at, far] : plain[a]) ASSERT_EQ(clocks[a].at(at), far) << step;
        const auto known = plain[a].find(chain);
        ASSERT_EQ(clocks[a].at(chain), known == plain[a].end() ? 0 : known->second) << step;
    }
    EXPECT_EQ(clocks[0].at(UINT32_MAX), 0u);
}

}  // namespace
}  // namespace kpu
