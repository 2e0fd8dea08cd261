// Speed of the DRAM controller alone: bursts per second of CPU time on the reference traffic patterns.
// Run: build/release/bin/dram_bench; figures and the peers' are in docs/performance.md.
#include <benchmark/benchmark.h>

#include "tests/dram/support.hpp"

namespace kpu::dram {
namespace {

/// A trace whose requests are made beforehand.
class ReadyTrace final : public TraceSource {
  public:
    ReadyTrace(const std::string& device, const std::string& pattern, uint64_t bursts, double tck_ns)
        : name_(pattern) {
        Pattern source(pattern, bursts, row_stride(device), tck_ns);
        while (const auto request = source.next()) requests_.push_back(*request);
    }
    std::optional<TraceRequest> next() override {
        if (next_ == requests_.size()) return std::nullopt;
        return requests_[next_++];
    }
    const std::string& name() const override { return name_; }
    void rewind() { next_ = 0; }
    const std::vector<TraceRequest>& requests() const { return requests_; }

  private:
    std::string name_;
    std::vector<TraceRequest> requests_;
    size_t next_ = 0;
};

constexpr uint64_t bursts = 65536;

/// Measures the channel as a model drives it: each request as soon as the queue has room.
void bm_channel(benchmark::State& state, const std::string& device, const std::string& mapping,
                const std::string& pattern) {
    const Config config = config_of(device, mapping_of(mapping));
    const ReadyTrace trace(device, pattern, bursts, config.timing.tck_ns);
    for (auto _ : state) {
        Channel channel(config);
        for (const TraceRequest& request : trace.requests()) {
            if (channel.now() < request.time) channel.advance(request.time);
            channel.advance_to_room(request.is_write, never / 2);
            channel.push({channel.now(), request.address, request.is_write, 0});
            if (channel.completions().size() > 64) channel.completions().clear();
        }
        channel.advance_to_idle(never / 2);
        benchmark::DoNotOptimize(channel.now());
    }
    state.SetItemsProcessed(static_cast<int64_t>(bursts) * state.iterations());
}

/// Measures `kpusim dram` without reading the file: the trace's order and clock, outstanding reads,
/// latencies.
void bm_replay(benchmark::State& state, const std::string& device, const std::string& mapping,
               const std::string& pattern) {
    const ReplayConfig config{config_of(device, mapping_of(mapping))};
    ReadyTrace trace(device, pattern, bursts, config.channel.timing.tck_ns);
    for (auto _ : state) {
        trace.rewind();
        benchmark::DoNotOptimize(replay(config, trace).cycles);
    }
    state.SetItemsProcessed(static_cast<int64_t>(bursts) * state.iterations());
}

void register_all() {
    using Run = void (*)(benchmark::State&, const std::string&, const std::string&, const std::string&);
    for (const auto& [kind, run] :
         {std::pair<const char*, Run>("channel", bm_channel), {"replay", bm_replay}}) {
        for (const char* device : {"DDR4-3200", "HBM2-2000"}) {
            for (const char* pattern :
                 {"seq_rd", "seq_wr", "tile_rd", "mix21", "rnd_rd", "gaps_rd", "conflict"}) {
                const std::string name = std::string(kind) + "/" + device + "/BGI/" + pattern;
                benchmark::RegisterBenchmark(name.c_str(), [run = run, device,
                                                            pattern](benchmark::State& state) {
                    run(state, device, "BGI", pattern);
                })->Unit(benchmark::kMillisecond);
            }
        }
    }
}

}  // namespace
}  // namespace kpu::dram

int main(int argc, char** argv) {
    kpu::dram::register_all();
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
