// Files that a run wrote are read back as they were; differences of texts are right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/diagnostics.hpp"
#include "traces/csv_table.hpp"
#include "traces/diff/line_diff.hpp"
#include "traces/run_reader.hpp"

namespace kpu::traces {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// Quoted fields, doubled quotes, line breaks in quotes, comments and CRLF are those of RFC 4180.
TEST(CsvTable, ReadsQuotedFields) {
    const CsvTable table("# note\r\na,\"b,c\"\r\n1,\"x \"\"y\"\",\nz\"\r\n\r\n,2.5\n", "t.csv");
    ASSERT_EQ(table.rows(), 2u);
    EXPECT_EQ(table.integer(0, table.column("a")), 1u);
    EXPECT_EQ(table.at(0, table.column("b,c")), "x \"y\",\nz");
    EXPECT_EQ(table.integer(1, 0), 0u);
    EXPECT_EQ(table.real(1, 1), 2.5);
    EXPECT_EQ(table.find("z"), CsvTable::absent);
}

// Whatever csv_field quotes comes back the same.
TEST(CsvTable, ReadsWhatIsWritten) {
    std::mt19937 random(1);
    for (int i = 0; i < 300; ++i) {
        std::string text;
        for (size_t n = random() % 8; n > 0; --n) text += "ab,\"\n\r #='-+@\t"[random() % 14];
        const CsvTable table("h,end\n" + csv_field(text) + ",1\n", "t.csv");
        std::string plain = text;
        if (csv_field(text) == text) plain.erase(std::remove(plain.begin(), plain.end(), '\r'), plain.end());
        ASSERT_EQ(table.rows(), 1u) << text;
        EXPECT_EQ(table.at(0, 0), plain);
    }
}

// Texts that a spreadsheet would run as a formula are shown by it as text, whatever their sign; numbers stay
// numbers.
TEST(CsvTable, FormulasAreTexts) {
    EXPECT_EQ(csv_field("=cmd|x"), "'=cmd|x");
    EXPECT_EQ(csv_field("@sum(a,b)"), "\"'@sum(a,b)\"");
    EXPECT_EQ(csv_field("conv-1"), "conv-1");
    EXPECT_EQ(csv_field("'tis"), "'tis");
}

// Each fault names file, line and column.
TEST(CsvTable, RefusesBadRows) {
    const auto parse = [](const char* text) {
        const CsvTable table(text, "t.csv");
        for (size_t i = 0; i < table.rows(); ++i) table.integer(i, table.column("n"));
    };
    EXPECT_THAT([&] { parse(""); }, ThrowsMessage<UserError>(HasSubstr("no header")));
    EXPECT_THAT([&] { parse("n,m\n1\n"); }, ThrowsMessage<UserError>(HasSubstr("t.csv:2:")));
    EXPECT_THAT([&] { parse("n\n1\n\"2\n"); }, ThrowsMessage<UserError>(HasSubstr("t.csv:3: a quote")));
    EXPECT_THAT([&] { parse("n\n-1\n"); }, ThrowsMessage<UserError>(HasSubstr("`-1` in column `n`")));
    EXPECT_THAT([&] { parse("m\n1\n"); }, ThrowsMessage<UserError>(HasSubstr("no column `n`")));
}

// ops.csv has every field of its rows.
TEST(RunReader, OperationsComeBack) {
    OpRow row;
    row.id = "conv, first";
    row.type = "Conv";
    row.span_cycles = 100;
    row.charged_cycles = 90;
    for (size_t c = 0; c < row.causes.size(); ++c) row.causes[c] = 7 * c + 1;
    row.macs = 1ull << 60;
    row.bytes_dram = 1, row.bytes_l2 = 2, row.bytes_l1 = 3;
    row.utilization = 0.1;
    row.energy_pj = 1e-3;
    row.profile = "a|b";
    row.out_of_range = 5;
    OpRow untimed = row;
    untimed.timed = false;
    std::string text;
    auto output = Output::to_string(text);
    write_ops_csv({row, untimed}, output);
    output.finish();
    const auto rows = parse_ops_csv(text, "ops.csv");
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_TRUE(rows[0].timed);
    EXPECT_FALSE(rows[1].timed);
    EXPECT_EQ(rows[1].out_of_range, 5u);
    EXPECT_EQ(rows[1].macs, 0u);
    std::string again;
    auto second = Output::to_string(again);
    write_ops_csv(rows, second);
    second.finish();
    EXPECT_EQ(again, text);
}

// stats.json has every statistic with its type, and says whether the run was complete.
TEST(RunReader, StatisticsComeBack) {
    StatSet stats;
    stats.set("cycles.total", uint64_t{1} << 63, "cycle", "a \"meaning\"");
    stats.set("x.y", 0.1, "ratio", "");
    stats.set("z", 3.0, "W", "");
    for (const bool complete : {false, true}) {
        const auto [back, flag] = StatSet::from_json(stats.to_json(complete), "s");
        EXPECT_EQ(flag, complete);
        EXPECT_EQ(back.to_json(complete), stats.to_json(complete));
    }
    EXPECT_THROW(
        StatSet::from_json("{\"schema\":1,\"complete\":true,\"stats\":{\"a\":{\"value\":\"1\"}}}", "s"),
        UserError);
}

std::string joined(const std::vector<std::string>& lines) {
    std::string text;
    for (const auto& line : lines) text += line + "\n";
    return text;
}

// Changes, applied to A, give B; and lines that both have in the same order are not among them.
TEST(LineDiff, ChangesTurnOneTextIntoTheOther) {
    std::mt19937 random(2);
    for (int round = 0; round < 300; ++round) {
        std::vector<std::string> a, b;
        for (size_t n = random() % 12; n > 0; --n) a.push_back(std::string(1, "xyz"[random() % 3]));
        b = a;
        for (size_t n = random() % 4; n > 0; --n) {
            const size_t at = random() % (b.size() + 1);
            if (random() % 2 == 0 || at == b.size()) {
                b.insert(b.begin() + static_cast<std::ptrdiff_t>(at), std::string(1, "xyz"[random() % 3]));
            } else {
                b.erase(b.begin() + static_cast<std::ptrdiff_t>(at));
            }
        }
        const auto changes = line_changes(joined(a), joined(b));
        std::vector<std::string> made;
        size_t next = 0, removed = 0, added = 0;
        for (const LineChange& change : changes) {
            while (next + 1 < change.line) made.push_back(a[next++]);
            for (const auto& line : change.a) EXPECT_EQ(a[next++], line);
            made.insert(made.end(), change.b.begin(), change.b.end());
            removed += change.a.size();
            added += change.b.size();
        }
        while (next < a.size()) made.push_back(a[next++]);
        EXPECT_EQ(made, b);
        EXPECT_EQ(changes.empty(), a == b);
        EXPECT_LE(removed + added, 4u);
    }
}

}  // namespace
}  // namespace kpu::traces
