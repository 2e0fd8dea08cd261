#include "tests/rtl/checks.hpp"
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
            for (uint64_t k : {uint64_t{1}, r - 1, r, 2 * r + 1, uint64_t{37}}) shapes.push_back({m, n, k});
        }
    }
    shapes.push_back({100, 1, 5});
    shapes.push_back({90, 2, 1});
    shapes.push_back({1, 100, 5});
    shapes.push_back({2, 3, 300});
    return shapes;
}

Case compare(Core& core, const std::string& name, const std::vector<GemmShape>& shapes, uint64_t expected) {
    std::vector<Job> jobs;
    for (const GemmShape& shape : shapes)
        jobs.push_back(random_job(core.info(), shape, expected + jobs.size()));
    const Outcome outcome = core.run(jobs, {});
    Case result{core.info().name + " " + name, outcome.cycles, expected, outcome.starved, true};
    for (size_t j = 0; j < jobs.size(); ++j)
        result.values_right = result.values_right && outcome.values[j] == exact_product(jobs[j]);
    return result;
}

}  // namespace

Cases isolated_products() {
    Cases cases;
    for (const auto& core : all_cores()) {
        const auto array = formula_array(core->info());
        for (const GemmShape& shape : grid(core->info()))
            cases.push_back(
                compare(*core, text_of(shape), {shape}, timing::systolic_time(array, shape).total()));
    }
    return cases;
}

Cases isolated_input_stationary() {
    Cases cases;
    for (const auto& core : all_cores()) {
        if (!core->info().weight_stationary) continue;
        auto array = formula_array(core->info());
        array.dataflow = Array::is;
        for (const GemmShape& shape : grid(core->info())) {
            const GemmShape transposed{shape.n, shape.m, shape.k};
            cases.push_back(compare(*core, "is " + text_of(shape), {transposed},
                                    timing::systolic_time(array, shape).total()));
        }
    }
    return cases;
}

Cases back_to_back_pairs() {
    Cases cases;
    for (const auto& core : all_cores()) {
        const auto array = formula_array(core->info());
        const auto shapes = grid(core->info());
        for (size_t i = 0; i < shapes.size(); ++i) {
            const std::vector<GemmShape> pair{shapes[i], shapes[(i * 7 + 3) % shapes.size()]};
            cases.push_back(compare(*core, text_of(pair[0]) + " then " + text_of(pair[1]), pair,
                                    timing::back_to_back_cycles(array, pair)));
        }
    }
    return cases;
}

}  // namespace kpu::rtl
