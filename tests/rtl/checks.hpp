#pragma once
// The comparisons of the RTL array with the formulas and with the simulator: tests judge them,
// docs/accuracy.md shows them.
#include <cstdint>
#include <string>
#include <vector>

namespace kpu::rtl {

struct Case {
    std::string name;
    uint64_t rtl = 0, ours = 0;  ///< cycles
    uint64_t starved = 0;        ///< cycles of the RTL in which an operand was missing
    /// The results are the exact product: the RTL's, and the simulator's where it ran.
    bool values_right = false;
};
using Cases = std::vector<Case>;

/// Returns one product alone, of one fold or many, against timing::systolic_time.
Cases isolated_products();
/// Returns the same for input-stationary: the weight-stationary array works on the transposed product.
Cases isolated_input_stationary();
/// Two products of different shapes, one after the other, against timing::back_to_back_cycles.
Cases back_to_back_pairs();
/// Returns the products and pairs of the grid, int8, each run by the simulator with the same data; operand
/// SRAM as wide as the array.
Cases simulated_products();
Cases simulated_pairs();
/// Operand SRAM that delivers 1 to 8 elements a cycle, against a simulated run.
Cases starved_by_sram();
/// Returns the same for products with edge tiles, whose folds ask for different amounts.
Cases starved_edge_tiles();
/// Six tiles loaded by DMA of 1 to 8 bytes a cycle while the array works, against a simulated run.
Cases loaded_by_dma();

}  // namespace kpu::rtl
