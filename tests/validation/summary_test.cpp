#include <gtest/gtest.h>

#include <cmath>

#include "runtime/validation/validate.hpp"

namespace kpu::validation {
namespace {

ComparedRow row(double measured, double simulated, LayerClass layer_class = LayerClass::window) {
    ComparedRow result;
    result.measured.cycles = measured;
    result.measured.layer_class = layer_class;
    result.simulated = simulated;
    return result;
}

/// Errors of 10, 20, 0, 40 and 30 %; by hand.
TEST(Summary, Figures) {
    const std::vector<ComparedRow> rows = {row(100000, 110000), row(200000, 160000), row(300000, 300000),
                                           row(400000, 560000), row(500000, 350000)};
    const Summary all = summaries_of(rows).back();
    EXPECT_EQ(all.name, "all");
    EXPECT_EQ(all.rows, 5u);
    EXPECT_NEAR(all.median, 0.2, 1e-12);
    EXPECT_NEAR(all.mean, 0.2, 1e-12);
    EXPECT_NEAR(all.p90, 0.36, 1e-12);  // 0.6 of the way from 30 to 40 %
    EXPECT_NEAR(all.signed_mean, 0.0, 1e-12);
    EXPECT_NEAR(all.rank, 0.9, 1e-12);  // ranks 1 2 3 5 4: 1 - 6 * 2 / (5 * 24)
}

TEST(Summary, ClassesAndWhatDoesNotCount) {
    std::vector<ComparedRow> rows = {row(60000, 66000), row(60000, 54000, LayerClass::pointwise),
                                     row(40000, 50000)};
    rows.push_back(row(70000, 700000));
    rows.back().measured.not_counted = "sets a parameter";
    const auto summaries = summaries_of(rows);
    ASSERT_EQ(summaries.size(), 4u);
    EXPECT_EQ(summaries[0].name, "3x3 and larger");
    EXPECT_EQ(summaries[0].rows, 1u);
    EXPECT_EQ(summaries[1].name, "1x1");
    EXPECT_EQ(summaries[2].name, "under 50,000 cycles");
    EXPECT_EQ(summaries[3].rows, 3u);
    EXPECT_TRUE(std::isnan(summaries[0].rank));
    EXPECT_TRUE(summaries_of({}).back().rows == 0);
}

/// The last line is the summary; a row that sets a parameter says so.
TEST(Summary, LastLine) {
    const std::string text = text_of({row(100000, 110000), row(200000, 180000)});
    EXPECT_EQ(text.substr(text.rfind('\n', text.size() - 2) + 1),
              "2 rows: |error| median 10.0 %, mean 10.0 %, p90 10.0 %, rank correlation 1.000\n");
}

}  // namespace
}  // namespace kpu::validation
