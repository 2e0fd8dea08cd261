// The formulas of model/timing/systolic.md against an array in SystemVerilog: values bit for bit, cycles
// equal.
#include <gtest/gtest.h>

#include "tests/rtl/rtl_core.hpp"

namespace kpu::rtl {
namespace {

using Array = proto::SystolicArray;
using timing::GemmShape;

/// The array that the formula sees: rate 1, for a cell of the RTL does one MAC a cycle.
timing::SystolicArray formula_array(const CoreInfo& core) {
    return {core.rows, core.cols, core.weight_stationary ? Array::ws : Array::os, Array::physical, 1};
}

std::string text_of(const GemmShape& shape) {
    return std::to_string(shape.m) + "x" + std::to_string(shape.n) + "x" + std::to_string(shape.k);
}

/// Edge tiles, one row, one column, K = 1, tall, wide, deep; sizes around multiples of the array's sides.
std::vector<GemmShape> grid(const CoreInfo& core) {
    std::vector<GemmShape> shapes;
    const uint64_t r = core.rows, c = core.cols;
    for (uint64_t m : {uint64_t{1}, r - 1, r, r + 1, 3 * r + 2}) {
        for (uint64_t n : {uint64_t{1}, c, c + 1, 3 * c - 1}) {
            for (uint64_t k : {uint64_t{1}, r - 1, r, 2 * r + 1, uint64_t{37}}) {
                if (m > 0 && k > 0) shapes.push_back({m, n, k});
            }
        }
    }
    shapes.push_back({100, 1, 5});
    shapes.push_back({90, 2, 1});
    shapes.push_back({1, 100, 5});
    shapes.push_back({2, 3, 300});
    return shapes;
}

class RtlArray : public ::testing::Test {
  protected:
    static void SetUpTestSuite() { cores_ = new std::vector<std::unique_ptr<Core>>(all_cores()); }
    static void TearDownTestSuite() {
        delete cores_;
        cores_ = nullptr;
    }
    static std::vector<std::unique_ptr<Core>>& cores() { return *cores_; }

  private:
    static std::vector<std::unique_ptr<Core>>* cores_;
};
std::vector<std::unique_ptr<Core>>* RtlArray::cores_ = nullptr;

void expect_values(const std::vector<Job>& jobs, const Outcome& outcome) {
    for (size_t j = 0; j < jobs.size(); ++j)
        EXPECT_EQ(outcome.values[j], exact_product(jobs[j])) << "job " << j;
}

// A product alone, of one fold or many: the array computes exact integers in exactly the formula's cycles.
TEST_F(RtlArray, IsolatedProductsTakeTheCyclesOfTheFormula) {
    size_t checked = 0;
    for (const auto& core : cores()) {
        for (const GemmShape& shape : grid(core->info())) {
            SCOPED_TRACE(core->info().name + " " + text_of(shape));
            const std::vector<Job> jobs{random_job(core->info(), shape, ++checked)};
            const Outcome outcome = core->run(jobs, {});
            expect_values(jobs, outcome);
            EXPECT_EQ(outcome.cycles, timing::systolic_time(formula_array(core->info()), shape).total());
        }
    }
    EXPECT_GE(checked, 200u);
}

/// The same product with operands exchanged: what a weight-stationary array computes of it is what an
/// input-stationary one does of the original.
GemmShape transposed(const GemmShape& shape) { return {shape.n, shape.m, shape.k}; }

// Input-stationary is weight-stationary with the operands exchanged.
TEST_F(RtlArray, InputStationaryIsTheTransposedProduct) {
    for (const auto& core : cores()) {
        if (!core->info().weight_stationary) continue;
        auto array = formula_array(core->info());
        array.dataflow = Array::is;
        for (const GemmShape& shape : grid(core->info())) {
            SCOPED_TRACE(core->info().name + " " + text_of(shape));
            const std::vector<Job> jobs{random_job(core->info(), transposed(shape), shape.k)};
            EXPECT_EQ(core->run(jobs, {}).cycles, timing::systolic_time(array, shape).total());
        }
    }
}

// Two products right behind each other: the second enters while the first drains, its weights while the
// first one streams.
TEST_F(RtlArray, BackToBackProductsOverlapAsTheFormulaSays) {
    size_t checked = 0;
    for (const auto& core : cores()) {
        const auto shapes = grid(core->info());
        for (size_t i = 0; i < shapes.size(); ++i) {
            const std::vector<GemmShape> pair{shapes[i], shapes[(i * 7 + 3) % shapes.size()]};
            SCOPED_TRACE(core->info().name + " " + text_of(pair[0]) + " then " + text_of(pair[1]));
            std::vector<Job> jobs;
            for (const GemmShape& shape : pair) jobs.push_back(random_job(core->info(), shape, ++checked));
            const Outcome outcome = core->run(jobs, {});
            expect_values(jobs, outcome);
            EXPECT_EQ(outcome.cycles, timing::back_to_back_cycles(formula_array(core->info()), pair));
        }
    }
    EXPECT_GE(checked, 400u);
}

}  // namespace
}  // namespace kpu::rtl
