#include "tests/rtl/checks.hpp"
#include "tests/rtl/rtl_core.hpp"

namespace kpu::rtl {
namespace {

using Array = proto::SystolicArray;
using timing::GemmShape;

/// Returns the array that the formula sees: rate 1, for a cell of the RTL does one MAC a cycle.
timing::SystolicArray formula_array(const CoreInfo& core) {
    return {core.rows, core.cols, core.weight_stationary ? Array::ws : Array::os, Array::physical, 1};
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
        for (const GemmShape& shape : shape_grid(core->info()))
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
        for (const GemmShape& shape : shape_grid(core->info())) {
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
        for (const auto& [first, second] : shape_pairs(core->info()))
            cases.push_back(compare(*core, text_of(first) + " then " + text_of(second), {first, second},
                                    timing::back_to_back_cycles(array, {first, second})));
    }
    return cases;
}

}  // namespace kpu::rtl
