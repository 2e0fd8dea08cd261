#include "runtime/validation/tiling.hpp"

#include <gtest/gtest.h>

#include <string>

namespace kpu::validation {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

std::vector<MeasuredRow> study() {
    return read_measured(KPUSIM_SOURCE_DIR "/tests/reference/silicon/gemmini16_moca_layers.csv");
}

/// Products are cut into as many tiles as the study's software made, input and weights walked as often.
TEST(Tiling, ProductsAreCutAsMeasured) {
    const Budget budget = budget_of(platforms::load("gemmini16"));
    EXPECT_EQ(budget.side, 16);
    EXPECT_EQ(budget.operand_rows, 4096);
    EXPECT_EQ(budget.sum_rows, 512);
    size_t products = 0;
    for (const MeasuredRow& row : study()) {
        if (row.work.kind != Work::Kind::product) continue;
        SCOPED_TRACE(row.name());
        const Tiles tiles = tiles_of(row, budget);
        EXPECT_EQ(tiles.count(row.work), row.tiles.total);
        EXPECT_EQ(ceil_div(row.work.out_width, tiles.width), row.tiles.over_pixels);
        // of a single row the study's input is counted once, however often it was walked
        if (row.work.out_width > 1) {
            EXPECT_EQ(ceil_div(row.work.out_channels, tiles.filters), row.tiles.over_filters);
        }
        ++products;
    }
    EXPECT_GT(products, 30u);
}

/// Two tiles of any layer fit into L1; at least four of five convolutions have the count that the row says.
TEST(Tiling, ConvolutionsFit) {
    const Budget budget = budget_of(platforms::load("gemmini16"));
    size_t equal = 0, all = 0;
    for (const MeasuredRow& row : study()) {
        if (row.work.kind != Work::Kind::convolution) continue;
        SCOPED_TRACE(row.name());
        const Work& work = row.work;
        const Tiles tiles = tiles_of(row, budget);
        const int64_t rows = Tiles::unpooled(work, tiles.height),
                      columns = Tiles::unpooled(work, tiles.width);
        const int64_t across = ceil_div(tiles.filters, 16), deep = ceil_div(tiles.channels, 16);
        EXPECT_LE(rows * columns * across, 512);
        EXPECT_LE(
            ((rows - 1) * work.stride + work.kernel) * ((columns - 1) * work.stride + work.kernel) * deep +
                work.kernel * work.kernel * tiles.channels * across,
            4096);
        ++all, equal += tiles.count(work) == row.tiles.total;
    }
    EXPECT_GE(double(equal), 0.8 * double(all));
}

}  // namespace
}  // namespace kpu::validation
