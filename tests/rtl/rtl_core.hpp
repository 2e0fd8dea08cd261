#pragma once
// Drives the verilated systolic_core with real data.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/timing/systolic.hpp"

namespace kpu::rtl {

/// A product with its data: a is M x K, b is K x N, both row-major.
struct Job {
    timing::GemmShape shape;
    std::vector<int32_t> a, b;
};

/// The build of an RTL array.
struct CoreInfo {
    std::string name;
    bool weight_stationary = false;
    uint64_t rows = 0, cols = 0;
    int a_bits = 8, b_bits = 8;
};

/// Cycles in which the DMA moves one operand word (rows elements of A, cols elements of B), and elements a
/// cycle of each port of the operand SRAM. Preloaded: jobs start when all of them have their operands (at
/// most two jobs then, one per half of the operand buffers).
struct Speed {
    bool preloaded = true;
    int dma_a = 1, dma_b = 1, sram = 255;
};

struct Outcome {
    uint64_t cycles = 0;         ///< from the first operand at the array's edge to the last result
    uint64_t since_release = 0;  ///< ... from the first cycle in which operands may be read
    uint64_t since_request = 0;  ///< ... from the first word asked of the memory outside
    uint64_t starved = 0;        ///< cycles within `cycles` in which an operand was missing
    std::vector<std::vector<int32_t>> values;  ///< values of each job, M x N
};

class Core {
  public:
    virtual ~Core() = default;
    virtual const CoreInfo& info() const = 0;
    /// Throws std::runtime_error when the array hangs or a job does not fit its buffers.
    virtual Outcome run(const std::vector<Job>& jobs, const Speed& speed) = 0;
};

/// Returns every build of the core that the tests use.
std::vector<std::unique_ptr<Core>> all_cores();

std::string text_of(const timing::GemmShape& shape);
/// More than 200 different shapes: edge tiles, one row, one column, K = 1, tall, wide, deep; sizes around
/// multiples of the array's sides.
std::vector<timing::GemmShape> shape_grid(const CoreInfo& core);
/// Returns each shape of the grid, followed by another one.
std::vector<std::pair<timing::GemmShape, timing::GemmShape>> shape_pairs(const CoreInfo& core);

/// Returns a product filled with random values of the core's widths, extremes among them.
Job random_job(const CoreInfo& core, const timing::GemmShape& shape, uint64_t seed);
/// Returns the exact product, modulo 2^32.
std::vector<int32_t> exact_product(const Job& job);

}  // namespace kpu::rtl
