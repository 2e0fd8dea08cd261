#include "traces/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sample.hpp"

namespace kpu::traces {
namespace {

using test::sample_run;
using testing::HasSubstr;

test::Sample with_stats() {
    test::Sample sample = sample_run();
    StatSet& stats = sample.stats;
    stats.set("cycles.total", uint64_t{5000}, "cycle", "");
    stats.set("cycles.compute", uint64_t{2400}, "cycle", "");
    stats.set("cycles.memory_stall", uint64_t{2600}, "cycle", "");
    stats.set("cycles.other", uint64_t{0}, "cycle", "");
    stats.set("utilization.compute", 0.44, "ratio", "");
    stats.set("utilization.dram_bandwidth", 0.25, "ratio", "");
    stats.set("bytes.dram.read", uint64_t{1536 * 1024}, "byte", "");
    stats.set("memory.l2.peak_bytes", uint64_t{64 * 1024}, "byte", "");
    stats.set("units.e0_nmu0.busy.useful", uint64_t{2500}, "cycle", "");
    stats.set("units.e0_nmu0.stalled.operand_dram_latency", uint64_t{2500}, "cycle", "");
    return sample;
}

size_t columns_of(const std::string& line) {
    return static_cast<size_t>(
        std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

// The report names the program and says cycles, time, utilization, bytes and energy, with units.
TEST(Report, SaysTheMainNumbers) {
    const auto sample = with_stats();
    const std::string text = report(sample.stats, sample.info, {});
    for (const char* part :
         {"sample on test", "5,000 cycles at 1000 MHz = 5.00 us", "compute  48.0 %", "memory stall  52.0 %",
          "compute  44.0 %", "1.50 MiB", "64.00 KiB", "primes", "operand_dram_latency  50.0 %"}) {
        EXPECT_THAT(text, HasSubstr(part));
    }
    EXPECT_THAT(text, testing::Not(HasSubstr("\x1b")));
    EXPECT_THAT(text, testing::Not(HasSubstr("INCOMPLETE")));
}

// The bar of a unit is as wide as its share: half useful, half waiting for memory; no line is wider than
// asked.
TEST(Report, BarsShowShares) {
    const auto sample = with_stats();
    for (const size_t width : {size_t{80}, size_t{100}, size_t{140}}) {
        ReportOptions options;
        options.width = width;
        const auto lines = test::lines_of(report(sample.stats, sample.info, {}, options));
        for (const std::string& line : lines)
            EXPECT_LE(columns_of(line), std::max<size_t>(width, 104)) << line;
        const auto unit = std::find_if(lines.begin(), lines.end(),
                                       [](const auto& l) { return l.rfind("  e0_nmu0", 0) == 0; });
        ASSERT_NE(unit, lines.end());
        const auto count = [&unit](const std::string& glyph) {
            size_t n = 0;
            for (size_t at = unit->find(glyph); at != std::string::npos; at = unit->find(glyph, at + 1)) ++n;
            return n;
        };
        EXPECT_GE(count("█"), 10u);
        EXPECT_LE(count("█") > count("▒") ? count("█") - count("▒") : count("▒") - count("█"), 1u);
        EXPECT_EQ(count("·"), 0u);
    }
}

// Cycles without a cause are our bug: the report asks to tell us.
TEST(Report, ShowsUnattributedCycles) {
    auto sample = with_stats();
    EXPECT_THAT(report(sample.stats, sample.info, {}), testing::Not(HasSubstr("unattributed")));
    sample.stats.set("units.ddr0.idle.unattributed", uint64_t{3}, "cycle", "");
    EXPECT_THAT(report(sample.stats, sample.info, {}), HasSubstr("unattributed 3 unit-cycles"));
}

// Operations come in order of the cycles charged to them, the rest is counted; an unfinished run says so;
// colours come only on request.
TEST(Report, TopOperationsAndIncompleteRuns) {
    auto sample = with_stats();
    sample.info.complete = false;
    std::vector<OpRow> ops(12);
    for (size_t i = 0; i < ops.size(); ++i) {
        ops[i].id = fmt::format("op{:02}", i);
        ops[i].charged_cycles = i;
    }
    ReportOptions options;
    options.top_ops = 3;
    const std::string text = report(sample.stats, sample.info, ops, options);
    EXPECT_LT(text.find("op11"), text.find("op10"));
    EXPECT_THAT(text, testing::Not(HasSubstr("op08")));
    EXPECT_THAT(text, HasSubstr("9 more"));
    EXPECT_THAT(text, HasSubstr("INCOMPLETE"));
    EXPECT_THAT(text, testing::Not(HasSubstr("\x1b")));
    EXPECT_THAT(coloured(text), HasSubstr("\x1b[32m"));
}

// Colours stand around runs of one band, and what is no band stays as it is.
TEST(Report, Colours) {
    EXPECT_EQ(coloured("a ██▓ b"), "a \x1b[32m██\x1b[0m\x1b[36m▓\x1b[0m b");
    EXPECT_EQ(coloured("plain"), "plain");
}

// A run without statistics of energy, units or memory gives a report without those parts, not wrong zeros.
TEST(Report, LeavesOutWhatTheRunDidNotProduce) {
    RunInfo info;
    info.program = "p";
    StatSet stats;
    stats.set("cycles.total", uint64_t{0}, "cycle", "");
    const std::string text = report(stats, info, {});
    EXPECT_THAT(text,
                testing::Not(testing::AnyOf(HasSubstr("energy"), HasSubstr("unit "), HasSubstr("nan"))));
}

TEST(Report, BytesText) {
    EXPECT_EQ(bytes_text(1023), "1023 B");
    EXPECT_EQ(bytes_text(1024), "1.00 KiB");
    EXPECT_EQ(bytes_text(1536ull << 30), "1.50 TiB");
}

}  // namespace
}  // namespace kpu::traces
