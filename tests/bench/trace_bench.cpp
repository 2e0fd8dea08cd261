// Speed of the trace writers on the events of one run: a 1024^3 int8 GEMM in tiles of 128 on a 32x32 array.
#include <benchmark/benchmark.h>

#include <memory>

#include "platforms/platform.hpp"
#include "runtime/simulation.hpp"
#include "tests/bench/gemm_program.hpp"
#include "traces/konata.hpp"
#include "traces/memory_trace.hpp"
#include "traces/perfetto/perfetto.hpp"

namespace kpu {
namespace {

traces::Recording record(bool accesses) {
    const auto platform = platforms::load("tile32");
    runtime::SimulationOptions options;
    options.mode = runtime::Mode::timing;
    options.record_events = true;
    options.record_accesses = accesses;
    auto module = std::make_shared<Module>(bench::tiled_gemm(1024, 128));
    runtime::Simulation simulation(std::move(module), &platform, options);
    simulation.run();
    return simulation.take_recording();
}

/// The counters are rates: event records taken, and bytes written, per second of CPU time.
template <typename Writer>
void write(benchmark::State& state, bool accesses, Writer writer) {
    const traces::Recording run = record(accesses);
    std::string text;
    for (auto _ : state) {
        text.clear();
        auto output = Output::to_string(text);
        writer(run.info, run.events, output);
        output.finish();
    }
    state.SetItemsProcessed(static_cast<int64_t>(run.events.size()) * state.iterations());
    state.SetBytesProcessed(static_cast<int64_t>(text.size()) * state.iterations());
}

/// Goal: 5 M records/s.
void bm_perfetto(benchmark::State& state) {
    write(state, false, [](const auto& info, const auto& events, Output& output) {
        traces::write_perfetto(info, events, traces::PerfettoTime::cycles, output);
    });
}
void bm_konata(benchmark::State& state) { write(state, false, traces::write_konata); }
void bm_memory_trace(benchmark::State& state) { write(state, true, traces::write_memory_trace_csv); }

BENCHMARK(bm_perfetto)->Unit(benchmark::kMillisecond);
BENCHMARK(bm_konata)->Unit(benchmark::kMillisecond);
BENCHMARK(bm_memory_trace)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kpu

BENCHMARK_MAIN();
