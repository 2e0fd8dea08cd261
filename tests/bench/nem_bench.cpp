// Speed of reading NEM: text -> program, program -> verified. CPU time; figures: docs/performance.md.
// Run: build/release/bin/nem_bench
#include <benchmark/benchmark.h>

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "analysis/schedule_check.hpp"
#include "isa/nem/nem.hpp"
#include "isa/verify.hpp"
#include "platforms/library.hpp"
#include "platforms/platform.hpp"
#include "tests/bench/nem_text.hpp"

namespace kpu {
namespace {

constexpr int layers_of_4_mib = 1400;
constexpr int layers_of_10000_tasks = 910;

const std::string& generated() {
    static const std::string text = bench::network_text(layers_of_4_mib);
    return text;
}

const std::string& digits() {
    static const std::string text = [] {
        std::ifstream file(KPUSIM_SOURCE_DIR "/examples/digits/digits.nem");
        std::ostringstream content;
        content << file.rdbuf();
        return content.str();
    }();
    return text;
}

const DeviceLimits& npm_lite() {
    static const DeviceLimits limits = platforms::limits_of(platforms::load("npm_lite"));
    return limits;
}

std::shared_ptr<const Module> parse(const std::string& text) {
    Diagnostics diagnostics;
    nem::Document document = nem::parse(text, "bench.nem", nem::default_loader({}), diagnostics);
    if (!diagnostics.all().empty()) throw std::runtime_error(diagnostics.to_string());
    return std::make_shared<const Module>(std::move(document.module));
}

void verify_clean(const std::shared_ptr<const Module>& module, bool schedule) {
    Diagnostics diagnostics;
    const std::optional<BoundProgram> program = verify(module, npm_lite(), {}, diagnostics);
    if (schedule && program)
        analysis::add_to(analysis::check_schedule(*program, npm_lite()), *program, diagnostics);
    if (!diagnostics.all().empty()) throw std::runtime_error(diagnostics.to_string());
}

void count_bytes(benchmark::State& state, const std::string& text) {
    state.SetBytesProcessed(static_cast<int64_t>(text.size()) * static_cast<int64_t>(state.iterations()));
}

void bm_parse(benchmark::State& state, const std::string& (*text)()) {
    for (auto _ : state) benchmark::DoNotOptimize(parse(text()));
    count_bytes(state, text());
}

void bm_verify(benchmark::State& state, const std::string& (*text)()) {
    const std::shared_ptr<const Module> module = parse(text());
    npm_lite();
    for (auto _ : state) verify_clean(module, false);
    count_bytes(state, text());
}

void bm_parse_verify(benchmark::State& state, const std::string& (*text)()) {
    npm_lite();
    for (auto _ : state) verify_clean(parse(text()), false);
    count_bytes(state, text());
}

/// Measures `kpusim check`, the schedule included.
void bm_check(benchmark::State& state, const std::string& (*text)()) {
    npm_lite();
    for (auto _ : state) verify_clean(parse(text()), true);
    count_bytes(state, text());
}

const std::string& tasks_10000() {
    static const std::string text = bench::network_text(layers_of_10000_tasks);
    return text;
}

BENCHMARK_CAPTURE(bm_parse, generated, generated)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(bm_verify, generated, generated)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(bm_parse_verify, generated, generated)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(bm_parse, digits, digits)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(bm_verify, digits, digits)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(bm_parse_verify, digits, digits)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(bm_check, tasks_10000, tasks_10000)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(bm_check, digits, digits)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace kpu

BENCHMARK_MAIN();
