// Speed of whole simulations: a 1024^3 int8 GEMM in tiles of 128 on a 32x32 array, and its traces.
// Run: build/release/bin/kpusim_bench; figures and their limits: docs/performance.md.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <map>
#include <memory>
#include <string>

#include "base/read_file.hpp"
#include "compiler/scale_sim/topology.hpp"
#include "runtime/simulation.hpp"
#include "tests/bench/gemm_program.hpp"
#include "tests/bench/tile_program.hpp"
#include "traces/event_file.hpp"
#include "traces/writers.hpp"

namespace kpu {
namespace {

using GemmProgram = Module (*)(int64_t, int64_t);

std::shared_ptr<const Module> gemm_module(GemmProgram program) {
    static std::map<GemmProgram, std::shared_ptr<const Module>> modules;
    std::shared_ptr<const Module>& module = modules[program];
    if (module == nullptr) module = std::make_shared<const Module>(program(1024, 128));
    return module;
}

runtime::Simulation make_simulation(runtime::Mode mode, bool events, GemmProgram program = bench::tiled_gemm,
                                    bool hazards = true) {
    static const auto platform = platforms::load("tile32");
    runtime::SimulationOptions options;
    options.mode = mode;
    options.record_events = events;
    options.hazards = hazards;
    runtime::Simulation simulation(gemm_module(program), &platform, options);
    if (mode != runtime::Mode::timing) simulation.fill_inputs_random(1);
    return simulation;
}

/// Measures one whole run, construction of the device included. Counters: simulated cycles, tasks a second,
/// peak RSS.
void run_gemm(benchmark::State& state, runtime::Mode mode, bool events,
              GemmProgram program = bench::tiled_gemm, bool hazards = true) {
    Cycles cycles = 0;
    for (auto _ : state) {
        auto simulation = make_simulation(mode, events, program, hazards);
        if (simulation.run() != runtime::RunStatus::finished) state.SkipWithError("did not finish");
        cycles = simulation.now();
    }
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    state.counters["cycles"] = static_cast<double>(cycles);
    state.counters["peak_rss_mib"] = static_cast<double>(usage.ru_maxrss) / 1024;
}

void bm_gemm_timing(benchmark::State& state) { run_gemm(state, runtime::Mode::timing, false); }
/// Measures gemm timing without hazards: the race detector costs the difference to bm_gemm_timing; less than
/// as much again is the goal.
void bm_gemm_timing_no_hazards(benchmark::State& state) {
    run_gemm(state, runtime::Mode::timing, false, bench::tiled_gemm, false);
}
void bm_gemm_reloading_timing(benchmark::State& state) {
    run_gemm(state, runtime::Mode::timing, false, bench::tiled_gemm_reloading);
}
void bm_gemm_values_timing(benchmark::State& state) { run_gemm(state, runtime::Mode::values_timing, false); }
void bm_gemm_functional(benchmark::State& state) { run_gemm(state, runtime::Mode::functional, false); }
void bm_gemm_timing_events(benchmark::State& state) { run_gemm(state, runtime::Mode::timing, true); }

size_t count_changes(const std::string& vcd) {
    size_t changes = 0;
    for (size_t i = vcd.find("$enddefinitions"); i + 1 < vcd.size(); ++i) {
        if (vcd[i] == '\n' && vcd[i + 1] != '#' && vcd[i + 1] != '$') ++changes;
    }
    return changes;
}

/// Measures VCD text from the events of the same run; the counter is CPU time per value change.
void bm_vcd(benchmark::State& state) {
    auto simulation = make_simulation(runtime::Mode::timing, true);
    simulation.run();
    const auto recording = simulation.take_recording();
    std::string text;
    for (auto _ : state) {
        text.clear();
        auto output = Output::to_string(text);
        traces::write_vcd(recording.info, recording.events, output);
        output.finish();
    }
    const auto changes = static_cast<double>(count_changes(text));
    state.counters["value_changes"] = changes;
    state.counters["time_per_change"] = benchmark::Counter(
        changes, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

/// Measures ResNet-18 from its SCALE-Sim files on 32x32 in compat timing, whole run; goal: below 10 ms.
void bm_resnet18_compat(benchmark::State& state) {
    const std::string folder = std::string(KPUSIM_SOURCE_DIR) + "/examples/resnet18/";
    Diagnostics diagnostics;
    const auto layers =
        compiler::parse_topology(read_file(folder + "resnet18.csv"), "resnet18.csv", diagnostics);
    const auto platform =
        platforms::load(folder + "scale32.cfg",
                        {{"engine.l1.size_bytes", std::to_string(compiler::topology_l1_bytes(layers))}});
    runtime::SimulationOptions options;
    options.mode = runtime::Mode::timing;
    options.hazards = false;
    Cycles cycles = 0;
    for (auto _ : state) {
        auto module = std::make_shared<Module>(compiler::topology_program(layers, "resnet18"));
        runtime::Simulation simulation(std::move(module), &platform, options);
        if (simulation.run() != runtime::RunStatus::finished) state.SkipWithError("did not finish");
        cycles = simulation.now();
    }
    state.counters["cycles"] = static_cast<double>(cycles);
}

/// Measures whole timing-only runs on tile32, changed so.
void run_tiles(benchmark::State& state, const std::shared_ptr<const Module>& module,
               const std::vector<std::pair<std::string, std::string>>& changes) {
    const auto platform = platforms::load("tile32", changes);
    runtime::SimulationOptions options;
    options.mode = runtime::Mode::timing;
    options.hazards = false;
    Cycles cycles = 0;
    for (auto _ : state) {
        runtime::Simulation simulation(module, &platform, options);
        if (simulation.run() != runtime::RunStatus::finished) state.SkipWithError("did not finish");
        cycles = simulation.now();
    }
    state.counters["cycles"] = static_cast<double>(cycles);
}

/// Measures ResNet-50 as tiles, a fidelity of the DRAM each; goals: simple 40 ms, burst 400 ms.
void bm_resnet50_tiles(benchmark::State& state, const char* fidelity) {
    static const auto module = std::make_shared<const Module>(bench::resnet50_tiles());
    run_tiles(state, module, {{"ddr.fidelity", fidelity}});
}

/// Measures the same work on eight engines, whose loads contend for the DRAM and the system's link.
void bm_tiles_on_eight_engines(benchmark::State& state) {
    static const auto module = std::make_shared<const Module>(bench::resnet50_tiles(8));
    run_tiles(state, module, {{"engine.count", "8"}});
}

/// Measures the GEMM on one of 1 to 64 engines: the others cost nothing.
void bm_idle_engines(benchmark::State& state) {
    const auto platform = platforms::load("tile32", {{"engine.count", std::to_string(state.range(0))}});
    runtime::SimulationOptions options;
    options.mode = runtime::Mode::timing;
    for (auto _ : state) {
        runtime::Simulation simulation(gemm_module(bench::tiled_gemm), &platform, options);
        if (simulation.run() != runtime::RunStatus::finished) state.SkipWithError("did not finish");
    }
}

BENCHMARK_CAPTURE(bm_resnet50_tiles, simple, "simple")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(bm_resnet50_tiles, burst, "burst")->Unit(benchmark::kMillisecond);
BENCHMARK(bm_tiles_on_eight_engines)->Unit(benchmark::kMillisecond);
BENCHMARK(bm_idle_engines)->Arg(1)->Arg(8)->Arg(64)->Unit(benchmark::kMillisecond);
BENCHMARK(bm_resnet18_compat)->Unit(benchmark::kMillisecond);
BENCHMARK(bm_gemm_timing)->Unit(benchmark::kMillisecond);
BENCHMARK(bm_gemm_timing_no_hazards)->Unit(benchmark::kMillisecond);
BENCHMARK(bm_gemm_reloading_timing)->Unit(benchmark::kMillisecond);
BENCHMARK(bm_gemm_values_timing)->Unit(benchmark::kMillisecond);
BENCHMARK(bm_gemm_functional)->Unit(benchmark::kMillisecond);
BENCHMARK(bm_gemm_timing_events)->Unit(benchmark::kMillisecond);
BENCHMARK(bm_vcd)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kpu

BENCHMARK_MAIN();
