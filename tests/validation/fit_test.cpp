#include "runtime/validation/fit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/diagnostics.hpp"
#include "runtime/validation/row_runner.hpp"

namespace kpu::validation {
namespace {

MeasuredRow copy_row() {
    MeasuredRow row;
    row.network = "copied";
    Kernel kernel;
    kernel.m = 4 << 20;
    row.kernels = {kernel};
    return row;
}

const Change* change_of(const Explained& explained, const std::string& parameter) {
    for (const Change& change : explained.changes)
        if (change.parameter == parameter) return &change;
    return nullptr;
}

/// A row "measured" on a platform with another launch: the launch explains it, and by how much.
TEST(Fit, FindsWhatWasChanged) {
    const auto platform = platforms::load("tpu_v4_core");
    const auto other = platforms::load("tpu_v4_core", {{"sequencer.launch_cycles", "3000"}});
    MeasuredRow row = copy_row();
    row.cycles = RowRunner(other, nullptr).run(row).cycles;
    const Explained explained = explain_row(row, platform, nullptr);
    const Change* launch = change_of(explained, "sequencer.launch_cycles");
    ASSERT_NE(launch, nullptr);
    EXPECT_EQ(launch->now, 760);
    ASSERT_TRUE(launch->needed.has_value());
    EXPECT_NEAR(*launch->needed, 3000, 0.02 * row.cycles);
    EXPECT_EQ(change_of(explained, "engine.array.rate[f16].relative"), nullptr);  // a copy has no products
    for (const Change& change : explained.changes)
        EXPECT_EQ(change.needed.has_value(), std::abs(change.cycles - row.cycles) <= 0.01 * row.cycles)
            << change.parameter;
}

/// Checks that a measurement which no parameter can reach is told as not enough, after what can.
TEST(Fit, NotEnough) {
    MeasuredRow row = copy_row();
    row.cycles = 10;
    const Explained explained = explain_row(row, platforms::load("tpu_v4_core"), nullptr);
    ASSERT_FALSE(explained.changes.empty());
    for (const Change& change : explained.changes)
        EXPECT_FALSE(change.needed.has_value()) << change.parameter;
    EXPECT_THAT(text_of(explained), testing::HasSubstr("not enough"));
    EXPECT_THROW(explain_row(MeasuredRow(), platforms::load("tpu_v4_core"), nullptr), UserError);
}

TEST(Fit, RowsByNameAndLine) {
    std::vector<MeasuredRow> rows(2);
    rows[0].network = "one", rows[0].line = 2;
    rows[1].network = "two", rows[1].line = 3;
    EXPECT_EQ(&find_row(rows, "two"), &rows[1]);
    EXPECT_EQ(&find_row(rows, "2"), &rows[0]);
    EXPECT_THROW(find_row(rows, "twa"), UserError);
    EXPECT_THROW(find_row({}, ""), UserError);
}

}  // namespace
}  // namespace kpu::validation
