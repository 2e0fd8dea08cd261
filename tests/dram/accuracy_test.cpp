#include "tests/dram/accuracy.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace kpu::dram {
namespace {

/// The published page is what the model gives today.
TEST(DramAccuracy, PageIsUpToDate) {
    std::ifstream file(std::string(KPUSIM_SOURCE_DIR) + "/docs/accuracy_dram.md");
    std::ostringstream text;
    text << file.rdbuf();
    EXPECT_EQ(text.str(), accuracy_page()) << "run: build/release/bin/dram_accuracy > docs/accuracy_dram.md";
}

}  // namespace
}  // namespace kpu::dram
