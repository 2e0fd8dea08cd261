// Estimates of a run and its traces beforehand, against what they then take.
#include "runtime/run_estimate.hpp"

#include <gtest/gtest.h>

#include "base/host_memory.hpp"
#include "compiler/front_ends.hpp"
#include "platforms/platform.hpp"
#include "traces/formats.hpp"

namespace kpu::runtime {
namespace {

Simulation run_example(const std::string& name, const SimulationOptions& options,
                       const platforms::Overrides& overrides = {}) {
    Diagnostics diagnostics;
    const std::string path = std::string(KPUSIM_SOURCE_DIR) + "/examples/" + name + "/" + name + ".nem";
    const auto module = compiler::load_program(path, {}, diagnostics);
    const auto platform = platforms::load("npm_lite", overrides);
    Simulation simulation(module, &platform, options);
    simulation.run();
    return simulation;
}

double size_of(const traces::Recording& run, const traces::Format& format) {
    std::string text;
    auto output = Output::to_string(text);
    format.write(run.info, run.events, OptionValues(format.options, {}), output);
    output.finish();
    return static_cast<double>(text.size());
}

void expect_about(uint64_t estimate, double actual, const std::string& what) {
    EXPECT_GT(static_cast<double>(estimate), actual / 2) << what;
    EXPECT_LT(static_cast<double>(estimate), actual * 2) << what;
}

// The estimates of traces hold within a factor of two, on programs of different kinds, whole and in a window.
TEST(TraceSizes, HoldWithinAFactorOfTwo) {
    SimulationOptions options;
    options.mode = Mode::timing;
    options.record_events = options.record_accesses = true;
    for (const char* name : {"digits", "gemm_relu", "conv_pool", "gemm_rmsnorm"}) {
        auto run = run_example(name, options, {{"ddr.fidelity", "burst"}}).take_recording();
        for (const bool window : {false, true}) {
            if (window) run.info.view.to = run.info.end_ps / 2;
            const traces::RecordCounts counts = traces::count_records(run.info, run.events);
            for (const traces::Format* format : traces::formats()) {
                const OptionValues options_of(format->options, {});
                if (format->refuses != nullptr && !format->refuses({}, options_of).empty()) continue;
                expect_about(format->size(run.info, counts), size_of(run, *format),
                             fmt::format("{} of {}", format->name, name));
            }
        }
    }
}

// Tasks are counted exactly where loop bounds are constant; events within a factor of three; timing mode has
// no values.
TEST(RunEstimate, CountsTasksAndEvents) {
    for (const char* name : {"digits", "gemm_relu", "conv_pool", "gemm_rmsnorm"}) {
        for (const bool accesses : {false, true}) {
            SimulationOptions options;
            options.mode = Mode::timing;
            options.record_events = true;
            options.record_accesses = accesses;
            auto simulation = run_example(name, options);
            const RunEstimate estimate = estimate_run(simulation.program(), options);
            EXPECT_EQ(estimate.tasks, static_cast<double>(simulation.stats().integer("tasks.issued")))
                << name;
            EXPECT_EQ(estimate.values_bytes, 0);
            const double taken = static_cast<double>(simulation.take_recording().events.size()) * 32 * 2.5;
            EXPECT_GT(estimate.event_bytes, taken / 3) << name;
            EXPECT_LT(estimate.event_bytes, taken * 3) << name;
            options.record_events = false;
            options.mode = Mode::values_timing;
            EXPECT_GE(estimate_run(simulation.program(), options).values_bytes,
                      simulation.stats().real("memory.dram.peak_bytes"));
        }
    }
    EXPECT_GT(available_bytes(), uint64_t{1} << 20);
}

}  // namespace
}  // namespace kpu::runtime
