// Rows of operations on tiles are whole: what one column says of them, the others do.
#include <gtest/gtest.h>

#include "isa/kernel/operations.hpp"

namespace kpu::kernel {
namespace {

TEST(TileRows, RulesAndFamiliesStandTogether) {
    size_t on_tiles = 0;
    for (const Operation& row : operations()) {
        EXPECT_EQ(row.tile_rule == nullptr, row.family == TileFamily::none) << row.name;
        on_tiles += row.tile_rule != nullptr ? 1 : 0;
        if (row.family == TileFamily::each || row.family == TileFamily::reduce ||
            row.family == TileFamily::scan) {
            EXPECT_NE(row.tile_operands, 0U) << row.name;
        }
    }
    EXPECT_GT(on_tiles, 80U);
}

// What is written as an operation on tiles alone is one, but for windows and what is refused everywhere.
TEST(TileRows, OfTileSyntaxHaveARule) {
    for (const Operation& row : operations()) {
        const bool other =
            row.op == Op::window || row.op == Op::clipped || row.op == Op::call || row.op == Op::opaque_expr;
        if (row.syntax == Syntax::tile) {
            EXPECT_EQ(row.tile_rule == nullptr, other) << row.name;
        }
    }
}

}  // namespace
}  // namespace kpu::kernel
