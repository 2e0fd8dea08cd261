// Uses of DRAM banks, counted by bin.
#include "traces/dram_traffic.hpp"

#include <gtest/gtest.h>

namespace kpu::traces {
namespace {

BankUse read_of(BankUse::Row row, bool turned = false) { return {BankUse::Kind::read, row, turned}; }

// Each use is counted in its bin, its bank and for who asked.
TEST(DramTraffic, CountsUses) {
    DramTraffic traffic(1000, 500, {"ddr0", "ddr1"}, 4, 64);
    const size_t a = traffic.add_stream({"dma", "a", "op", {}});
    const size_t b = traffic.add_stream({"dma", "b", "op", {}});
    traffic.add_stream({"dma", "idle", "op", {}});
    traffic.add(1499, 0, 1, read_of(BankUse::Row::miss), a);
    traffic.add(1500, 1, 3, read_of(BankUse::Row::hit, true), b);
    traffic.add(1501, 1, 3, {BankUse::Kind::write, BankUse::Row::conflict, true}, b);
    traffic.add(1502, 1, 3, {BankUse::Kind::activate, BankUse::Row::conflict, false}, b);
    ASSERT_EQ(traffic.bins(), 2u);
    EXPECT_EQ(traffic.at(0, 0, 1).misses, 1u);
    const BankCounts& cell = traffic.at(1, 1, 3);
    EXPECT_EQ(cell.reads, 1u);
    EXPECT_EQ(cell.writes, 1u);
    EXPECT_EQ(cell.hits, 1u);
    EXPECT_EQ(cell.conflicts, 1u);
    EXPECT_EQ(cell.activates, 1u);
    EXPECT_EQ(cell.turn_arounds, 2u);
    EXPECT_EQ(traffic.total().bursts(), 3u);
    const auto streams = traffic.streams();
    ASSERT_EQ(streams.size(), 2u);  // most bursts first, without those that did nothing
    EXPECT_EQ(streams[0].task, "b");
    EXPECT_EQ(streams[1].counts.bursts(), 1u);
}

// Long runs have wider bins, with the same sums; so has what a page shows.
TEST(DramTraffic, BinsWidenAndKeepSums) {
    DramTraffic traffic(0, 1, {"ddr0"}, 16, 64);
    const size_t stream = traffic.add_stream({});
    constexpr uint64_t uses = 200'000;
    for (uint64_t i = 0; i < uses; ++i) traffic.add(i, 0, i % 16, read_of(BankUse::Row::hit), stream);
    EXPECT_EQ(traffic.width(), 4u);  // 2^20 cells are 65536 bins of 16 banks
    EXPECT_EQ(traffic.bins(), uses / 4);
    EXPECT_EQ(traffic.total().reads, uses);
    EXPECT_EQ(traffic.at(7, 0, 28 % 16).reads, 1u);
    const DramTraffic few = traffic.in_bins(100);
    EXPECT_LE(few.bins(), 100u);
    EXPECT_GT(few.bins(), 50u);
    EXPECT_EQ(few.total().reads, uses);
    uint64_t sum = 0;
    for (size_t bin = 0; bin + 1 < few.bins(); ++bin) sum += few.at(bin, 0, 3).reads;
    EXPECT_EQ(sum, few.width() / 16 * (few.bins() - 1));
    // a time far ahead costs no memory
    traffic.add(uint64_t{1} << 60, 0, 0, read_of(BankUse::Row::hit), stream);
    EXPECT_LE(traffic.bins(), 65536u);
    EXPECT_EQ(traffic.total().reads, uses + 1);
}

}  // namespace
}  // namespace kpu::traces
