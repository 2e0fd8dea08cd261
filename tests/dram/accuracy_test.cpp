#include "tests/dram/accuracy.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>

#include "tests/dram/fidelity.hpp"

namespace kpu::dram {
namespace {

/// The published page is what the model gives today.
TEST(DramAccuracy, PageIsUpToDate) {
    std::ifstream file(std::string(KPUSIM_SOURCE_DIR) + "/docs/accuracy_dram.md");
    std::ostringstream text;
    text << file.rdbuf();
    EXPECT_EQ(text.str(), accuracy_page()) << "run: build/release/bin/dram_accuracy > docs/accuracy_dram.md";
}

/// Checks what a user may rely on when a platform says `simple`: conflicts and paced streams cost what they cost
/// with controllers, streams at most a quarter more or less; where only reordering helps, `simple` is slower,
/// never faster. It has no command bus, which LPDDR4's commands of several clocks fill.
TEST(DramAccuracy, SimpleStaysNearBurst) {
    const std::map<std::string, std::pair<double, double>> band = {
        {"seq_rd", {-1, 25}}, {"seq_wr", {-1, 25}}, {"tile_rd", {-4, 12}}, {"two_rd", {-25, 25}},
        {"mix21", {0, 350}},  {"rnd_rd", {0, 220}}, {"conflict", {-1, 1}}, {"gaps_rd", {-1, 1}}};
    for (const FidelityRow& row : fidelity_rows()) {
        EXPECT_GE(row.cycles, band.at(row.pattern).first)
            << row.device << " " << row.mapping << " " << row.pattern;
        EXPECT_LE(row.cycles, band.at(row.pattern).second)
            << row.device << " " << row.mapping << " " << row.pattern;
    }
}

}  // namespace
}  // namespace kpu::dram
