// The timing of arrays against an array in SystemVerilog that computes real products.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/rtl/checks.hpp"

namespace kpu::rtl {
namespace {

void expect_equal(const Cases& cases, size_t at_least) {
    EXPECT_GE(cases.size(), at_least);
    for (const Case& c : cases) {
        EXPECT_TRUE(c.values_right) << c.name;
        EXPECT_EQ(c.ours, c.rtl) << c.name;
    }
}

/// Checks that figures are within 1 % or 4 cycles, whichever is more.
void expect_close(const Cases& cases, size_t at_least, size_t starved_at_least) {
    EXPECT_GE(cases.size(), at_least);
    const auto starves = [](const Case& c) { return c.starved > c.rtl / 10; };
    EXPECT_GE(static_cast<size_t>(std::count_if(cases.begin(), cases.end(), starves)), starved_at_least);
    for (const Case& c : cases) {
        const uint64_t off = c.ours > c.rtl ? c.ours - c.rtl : c.rtl - c.ours;
        EXPECT_TRUE(c.values_right) << c.name;
        EXPECT_LE(off, std::max<uint64_t>(4, c.rtl / 100)) << c.name << ": " << c.ours << " for " << c.rtl;
    }
}

// A product alone, of one fold or many: exact integers, in exactly the formula's cycles.
TEST(Rtl, IsolatedProductsTakeTheCyclesOfTheFormula) { expect_equal(isolated_products(), 2000); }

// Input-stationary is weight-stationary with the operands exchanged.
TEST(Rtl, InputStationaryIsTheTransposedProduct) { expect_equal(isolated_input_stationary(), 1000); }

// Two products right after each other: the second enters while the first drains, its weights while the first
// one streams.
TEST(Rtl, BackToBackProductsOverlapAsTheFormulaSays) { expect_equal(back_to_back_pairs(), 2000); }

// A whole run of the simulator, with the same data: the same values and the same cycles, edge tiles included.
TEST(Rtl, SimulatedProductsAreTheRtls) { expect_equal(simulated_products(), 1000); }

// Two tasks of the simulator, different shapes, right after each other.
TEST(Rtl, SimulatedPairsAreTheRtls) { expect_equal(simulated_pairs(), 600); }

// Operand SRAM that is too narrow starves the simulated array as much as the RTL array.
TEST(Rtl, SimulatorStarvesAsTheRtlDoes) { expect_close(starved_by_sram(), 150, 100); }

// ... edge tiles too, which leave the port idle while whole ones wait for it.
TEST(Rtl, StarvedEdgeTilesWaitAsInTheRtl) { expect_close(starved_edge_tiles(), 300, 100); }

// Tiles loaded while the array works on the tile before take as long in the simulator as in the RTL.
TEST(Rtl, SimulatorLoadsTilesAsTheRtlDoes) { expect_close(loaded_by_dma(), 100, 0); }

}  // namespace
}  // namespace kpu::rtl
