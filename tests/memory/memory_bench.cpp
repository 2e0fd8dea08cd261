// Bursts per second of the memory system alone.
#include <benchmark/benchmark.h>

#include "tests/memory/streams.hpp"

namespace kpu::model {
namespace {

using namespace test;

constexpr uint64_t bytes = 1 << 22;

MemoryConfig bench_config() {
    MemoryConfig config = plain_config(4);
    config.core = Clock(1'000'000'000);
    config.l2.read_latency_cycles = config.l2.write_latency_cycles = 4;
    config.link.hop_latency_cycles = 2;
    return config;
}

/// Runs the streams together; counts one burst per 64 bytes, all its stages included.
void run(benchmark::State& state, const std::vector<StreamRequest>& requests) {
    for (auto _ : state) {
        MemorySystem memory_system(bench_config());
        for (const StreamRequest& request : requests) memory_system.open(request, 0);
        for (Cycles end = memory_system.advance(never); end != never; end = memory_system.advance(never))
            benchmark::DoNotOptimize(memory_system.take_completed(end));
    }
    const double bursts =
        static_cast<double>(requests.size() * (bytes / 64)) * static_cast<double>(state.iterations());
    state.counters["burst"] =
        benchmark::Counter(bursts, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

StreamRequest moved(unsigned unit, StreamSide from, StreamSide to) {
    StreamRequest request = stream(from, to, static_cast<uint16_t>(unit));
    request.max_outstanding = 64;
    return request;
}

void one_stream_ddr_to_l2(benchmark::State& state) {
    run(state, {moved(0, memory(Level::ddr, 0, bytes), memory(Level::l2, 0, bytes))});
}
BENCHMARK(one_stream_ddr_to_l2);

void one_stream_l2_to_l1(benchmark::State& state) {
    run(state, {moved(0, memory(Level::l2, 0, bytes), memory(Level::l1, 0, bytes))});
}
BENCHMARK(one_stream_l2_to_l1);

void eight_contending_streams(benchmark::State& state) {
    std::vector<StreamRequest> requests;
    for (unsigned i = 0; i < 4; ++i)
        requests.push_back(
            moved(i, memory(Level::ddr, i * bytes, bytes), memory(Level::l2, i * bytes, bytes)));
    for (uint16_t i = 0; i < 4; ++i)
        requests.push_back(
            moved(4u + i, memory(Level::l2, i * bytes, bytes), memory(Level::l1, 0, bytes, i)));
    run(state, requests);
}
BENCHMARK(eight_contending_streams);

void operands_of_an_array_from_l1(benchmark::State& state) {
    run(state, {moved(0, memory(Level::l1, 0, bytes), unit_of(0)),
                moved(1, memory(Level::l1, bytes, bytes), unit_of(0)),
                moved(2, unit_of(0), memory(Level::l1, 2 * bytes, bytes))});
}
BENCHMARK(operands_of_an_array_from_l1);

}  // namespace
}  // namespace kpu::model

BENCHMARK_MAIN();
