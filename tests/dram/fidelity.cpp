// Distance of the arithmetic DRAM of a platform (fidelity simple) from its controllers (burst).
#include "tests/dram/fidelity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <queue>

#include "compiler/front_ends.hpp"
#include "model/memory/memory_config.hpp"
#include "runtime/simulation.hpp"
#include "tests/bench/gemm_program.hpp"

namespace kpu::dram {
namespace {

/// Outcome of a finished replay, of either fidelity.
struct Outcome {
    double cycles = 0, read_latency = 0, activates = 0;
};

/// Returns the traffic of replay() on the arithmetic channel: at most one request a clock, and in flight at
/// most `outstanding` reads, and as many writes as a write queue holds.
Outcome replay_simple(const model::DramTiming& timing, TraceSource& trace, size_t outstanding,
                      size_t write_queue) {
    model::DdrChannel channel(timing, Clock(timing.clock_hz));  // core cycles are nCK
    using Times = std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>>;
    std::array<Times, 2> in_flight;
    const std::array<size_t, 2> most{outstanding, write_queue};
    const uint64_t behind_write = timing.burst_nck + timing.controller_nck - timing.controller_nck / 2;
    uint64_t time = 0, end = 0, reads = 0, latency = 0, activates = 0;
    while (const auto request = trace.next()) {
        time = std::max(time + 1, request->time);
        Times& same = in_flight[request->is_write];
        while (!same.empty() && (same.top() <= time || same.size() == most[request->is_write])) {
            time = std::max(time, same.top());
            same.pop();
        }
        const auto service = channel.serve(time, request->address, 1, request->is_write);
        activates += service.activates;
        // a write is over when its command has been issued
        const uint64_t done = request->is_write ? service.done - behind_write - timing.cwl + 1 : service.done;
        same.push(done);
        end = std::max(end, done);
        if (request->is_write) continue;
        ++reads;
        latency += service.done - time;
    }
    return {static_cast<double>(end),
            reads == 0 ? 0 : static_cast<double>(latency) / static_cast<double>(reads),
            static_cast<double>(activates)};
}

model::DramTiming timing_of(const std::string& device, const std::string& mapping) {
    const auto platform = platforms::load(
        "tile32",
        {{"ddr.device", device},
         {"ddr.mapping", mapping},
         {"ddr.size_bytes", "1048576"},
         {"ddr.data_rate_mtps", std::to_string(platforms::rated_ddr_device(device).data_rate_mtps())}});
    model::DramTiming timing = model::memory_config(platform).ddr.timing;
    timing.controller_nck = 2;  // as replay()'s controller: a clock each way
    return timing;
}

double percent(double ours, double reference) { return reference == 0 ? 0 : 100 * (ours / reference - 1); }

std::string median_and_most(std::vector<double> errors) {
    for (double& e : errors) e = std::abs(e);
    std::sort(errors.begin(), errors.end());
    const size_t n = errors.size();
    const double median = n % 2 == 1 ? errors[n / 2] : (errors[n / 2 - 1] + errors[n / 2]) / 2;
    return fmt::format("{:.1f} | {:.1f}", median, errors.back());
}

double cycles_of(const std::shared_ptr<const Module>& program, const std::string& platform_name,
                 const char* fidelity) {
    const auto platform = platforms::load(platform_name, {{"ddr.fidelity", fidelity}});
    runtime::SimulationOptions options;
    options.mode = runtime::Mode::timing;
    runtime::Simulation simulation(program, &platform, options);
    simulation.run();
    return static_cast<double>(simulation.now());
}

std::shared_ptr<const Module> example(const std::string& name) {
    Diagnostics diagnostics;
    return compiler::load_program(std::string(KPUSIM_SOURCE_DIR) + "/examples/" + name + "/" + name + ".nem",
                                  {}, diagnostics);
}

}  // namespace

std::vector<FidelityRow> fidelity_rows() {
    std::vector<FidelityRow> rows;
    for (const auto& [device, short_mapping] : {std::pair{"DDR4-3200", "BGI"},
                                                {"DDR4-3200", "RBC"},
                                                {"LPDDR4-3200", "RBC"},
                                                {"HBM2-2000", "BGI"},
                                                {"LPDDR5-6400", "BGI"}}) {
        const ReplayConfig config{config_of(device, mapping_of(short_mapping))};
        const model::DramTiming timing = timing_of(device, mapping_of(short_mapping));
        for (const char* pattern :
             {"seq_rd", "seq_wr", "tile_rd", "two_rd", "mix21", "rnd_rd", "conflict", "gaps_rd"}) {
            constexpr uint64_t bursts = 16384;
            const ReplayResult burst = replay_pattern(config, device, pattern, bursts);
            Pattern trace(pattern, bursts, row_stride(device), config.channel.timing.tck_ns);
            const Outcome simple =
                replay_simple(timing, trace, config.max_outstanding, config.channel.policy.write_queue);
            rows.push_back({device, short_mapping, pattern, burst.cycles,
                            percent(simple.cycles, static_cast<double>(burst.cycles)),
                            percent(simple.read_latency, burst.read_latency.average),
                            percent(simple.activates, static_cast<double>(burst.counters.activates))});
        }
    }
    return rows;
}

std::string fidelity_section() {
    const std::vector<FidelityRow> rows = fidelity_rows();
    std::string text =
        "## Fidelity `simple` against `burst`\n\n"
        "The arithmetic DRAM that platforms use unless they say `fidelity: \"burst\"`, on the same patterns "
        "(16,384 bursts, at\n"
        "most 32 reads and 32 writes in flight). Difference in % of `burst`. One stream at a time costs the "
        "same, up to a fifth\n"
        "more where consecutive bursts stay in a bank group (DDR4-3200 RBC). `simple` has no queue to "
        "reorder "
        "in and no batches\n"
        "of writes, so it is far too slow where single bursts of reads and writes alternate (mix21) and on "
        "random bursts\n"
        "(rnd_rd): use `burst` for such traffic. Programs move tiles, and differ little.\n\n"
        "| pattern | cycles: median | most | read latency: median | most | activates: median | most |\n"
        "|---|---|---|---|---|---|---|\n";
    std::vector<std::string> patterns;
    for (const FidelityRow& row : rows) {
        if (std::find(patterns.begin(), patterns.end(), row.pattern) == patterns.end())
            patterns.push_back(row.pattern);
    }
    for (const std::string& pattern : patterns) {
        std::vector<double> cycles, latency, activates;
        for (const FidelityRow& row : rows) {
            if (row.pattern != pattern) continue;
            cycles.push_back(row.cycles);
            latency.push_back(row.read_latency);
            activates.push_back(row.activates);
        }
        text +=
            fmt::format("| {} | {} | {} | {} |\n", pattern, median_and_most(cycles),
                        pattern == "seq_wr" ? "- | -" : median_and_most(latency), median_and_most(activates));
    }
    text +=
        "\n| device | mapping | pattern | cycles of `burst` | cycles | read latency | activates |\n"
        "|---|---|---|---|---|---|---|\n";
    for (const FidelityRow& row : rows) {
        text += fmt::format("| {} | {} | {} | {} | {:+.1f} | {} | {:+.1f} |\n", row.device, row.mapping,
                            row.pattern, row.burst_cycles, row.cycles,
                            row.pattern == "seq_wr" ? "-" : fmt::format("{:+.1f}", row.read_latency),
                            row.activates);
    }
    text +=
        "\nWhole programs, in timing mode:\n\n"
        "| program | platform | cycles, `simple` | cycles, `burst` | difference % |\n|---|---|---|---|---|\n";
    const auto add = [&text](const std::string& name, const std::shared_ptr<const Module>& program,
                             const std::string& platform) {
        const double simple = cycles_of(program, platform, "simple");
        const double burst = cycles_of(program, platform, "burst");
        text += fmt::format("| {} | {} | {:.0f} | {:.0f} | {:+.1f} |\n", name, platform, simple, burst,
                            percent(simple, burst));
    };
    for (const char* name : {"gemm_relu", "conv_pool", "digits"})
        for (const char* platform : {"npm_lite", "swkpu-v1"}) add(name, example(name), platform);
    add("GEMM 512^3 in tiles of 128", std::make_shared<const Module>(bench::tiled_gemm(512, 128)), "tile32");
    add("the same, operands loaded again for every tile",
        std::make_shared<const Module>(bench::tiled_gemm_reloading(512, 128)), "tile32");
    return text + "\n";
}

}  // namespace kpu::dram
