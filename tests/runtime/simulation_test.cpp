// The C++ API: load, bind, run, step, reset, state, many simulations in one process.
#include "runtime/simulation.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "compiler/front_ends.hpp"
#include "runtime/run_estimate.hpp"
#include "tests/bench/gemm_program.hpp"

namespace kpu {
namespace {

using runtime::Mode;
using runtime::RunStatus;
using runtime::Simulation;
using runtime::SimulationOptions;

std::shared_ptr<const Module> example(const std::string& name) {
    Diagnostics diagnostics;
    const std::string path = std::string(KPUSIM_SOURCE_DIR) + "/examples/" + name + "/" + name + ".nem";
    return compiler::load_program(path, {}, diagnostics);
}

const platforms::Platform& platform(const std::string& name) {
    static std::map<std::string, platforms::Platform> loaded;
    auto [place, missing] = loaded.try_emplace(name);
    if (missing) place->second = platforms::load(name);
    return place->second;
}

Simulation make(const std::string& name, SimulationOptions options = {}, uint64_t seed = 3) {
    Simulation simulation(example(name), &platform("npm_lite"), options);
    simulation.fill_inputs_random(seed);
    return simulation;
}

SimulationOptions with_mode(Mode mode) {
    SimulationOptions options;
    options.mode = mode;
    return options;
}

std::string outputs_of(const Simulation& simulation) {
    std::string bytes;
    for (const auto& spec : simulation.output_specs()) bytes += simulation.output(spec.name).data;
    return bytes;
}

class EveryExample : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Examples, EveryExample,
                         testing::Values("digits", "gemm_relu", "gemm_rmsnorm", "conv_pool"),
                         [](const auto& test) { return std::string(test.param); });

// Timed and functional driver give the same bytes; timing mode the same cycles; the oracle stepper too.
TEST_P(EveryExample, ModesAgree) {
    auto timed = make(GetParam());
    ASSERT_EQ(timed.run(), RunStatus::finished);
    auto functional = make(GetParam(), with_mode(Mode::functional));
    ASSERT_EQ(functional.run(), RunStatus::finished);
    EXPECT_EQ(outputs_of(timed), outputs_of(functional));
    auto timing = make(GetParam(), with_mode(Mode::timing));
    ASSERT_EQ(timing.run(), RunStatus::finished);
    EXPECT_EQ(timing.now(), timed.now());
    SimulationOptions slow;
    slow.oracle_stepper = true;
    slow.reference_values = true;
    auto oracle = make(GetParam(), slow);
    ASSERT_EQ(oracle.run(), RunStatus::finished);
    EXPECT_EQ(oracle.stats().to_json(true), timed.stats().to_json(true));
    EXPECT_EQ(outputs_of(oracle), outputs_of(timed));
    EXPECT_EQ(timed.hazards().count(), 0u);
}

// Stepping cycle by cycle blocks, task by task, or at once gives the same run.
TEST_P(EveryExample, SteppingChangesNothing) {
    auto whole = make(GetParam());
    whole.run();
    auto stepped = make(GetParam());
    while (stepped.step(777) == RunStatus::paused) {
    }
    EXPECT_EQ(stepped.stats().to_json(true), whole.stats().to_json(true));
    EXPECT_EQ(outputs_of(stepped), outputs_of(whole));
    auto by_task = make(GetParam());
    runtime::Completion completed;
    size_t tasks = 0;
    while (by_task.step_task(&completed) == RunStatus::paused) {
        EXPECT_FALSE(completed.name.empty());
        ++tasks;
    }
    EXPECT_GT(tasks, 5u);
    EXPECT_EQ(by_task.stats().to_json(true), whole.stats().to_json(true));
    auto bounded = make(GetParam());
    for (RunStatus status = RunStatus::paused; status == RunStatus::paused;) {
        const Cycles before = bounded.now();
        status = bounded.step_task(&completed, nullptr, 100);
        const bool reached = bounded.now() == before + 100;
        EXPECT_LE(bounded.now(), before + 100);
        EXPECT_TRUE(reached || completed.serial != runtime::Completion::none);
    }
    EXPECT_EQ(bounded.stats().to_json(true), whole.stats().to_json(true));
}

// A second run and a run after reset repeat the first.
TEST(SimulationTest, RunsAreRepeatable) {
    auto simulation = make("digits");
    simulation.run();
    const auto stats = simulation.stats().to_json(true);
    const auto bytes = outputs_of(simulation);
    simulation.run();
    EXPECT_EQ(simulation.stats().to_json(true), stats);
    simulation.step(1000);
    simulation.reset();
    EXPECT_EQ(simulation.now(), 0u);
    EXPECT_EQ(simulation.run(), RunStatus::finished);
    EXPECT_EQ(simulation.stats().to_json(true), stats);
    EXPECT_EQ(outputs_of(simulation), bytes);
}

// Two devices stepped in turn do not see each other.
TEST(SimulationTest, TwoPlatformsStepAlternately) {
    auto make_on = [](const std::string& name) {
        Simulation simulation(example("conv_pool"), &platform(name), {});
        simulation.fill_inputs_random(5);
        return simulation;
    };
    auto a = make_on("npm_lite"), b = make_on("core128-hbm2");
    a.run();
    b.run();
    auto c = make_on("npm_lite"), d = make_on("core128-hbm2");
    RunStatus left = RunStatus::paused, right = RunStatus::paused;
    while (left == RunStatus::paused || right == RunStatus::paused) {
        if (left == RunStatus::paused) left = c.step(100);
        if (right == RunStatus::paused) right = d.step(130);
    }
    EXPECT_EQ(c.stats().to_json(true), a.stats().to_json(true));
    EXPECT_EQ(d.stats().to_json(true), b.stats().to_json(true));
    EXPECT_NE(a.now(), b.now());
    EXPECT_EQ(outputs_of(c), outputs_of(d));
}

// Every shipped platform runs an int8 convolution with the same values.
TEST(SimulationTest, EveryShippedPlatformRuns) {
    auto reference = make("conv_pool", with_mode(Mode::functional), 5);
    reference.run();
    for (const auto& name : platforms::shipped_names()) {
        Simulation simulation(example("conv_pool"), &platform(name), {});
        simulation.fill_inputs_random(5);
        EXPECT_EQ(simulation.run(), RunStatus::finished) << name;
        EXPECT_EQ(outputs_of(simulation), outputs_of(reference)) << name;
        // energy, or why there is none: the machine is outside of what the energy table describes
        const traces::StatSet& stats = simulation.stats();
        EXPECT_TRUE(stats.contains("energy.not_modelled") || stats.real("energy.total_uj") > 0) << name;
    }
}

uint64_t resident_kib() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.rfind("VmRSS:", 0) == 0) return std::stoull(line.substr(6));
    }
    return 0;
}

Module tiny_program() {
    using namespace builder;
    Program p("tiny");
    const Buffer x = p.buffer("x", Level::ddr, 256, 64), m = p.buffer("m", Level::l2, 256, 64);
    const Buffer y = p.buffer("y", Level::ddr, 256, 64);
    const auto type = tensor(ElemType::i8, {256});
    Task in = p.transfer("in", p.region("m0", m, 0, type), p.region("x0", x, 0, type));
    p.transfer("out", p.region("y0", y, 0, type), p.region("m1", m, 0, type)).after({in});
    return p.build();
}

// Ten thousand simulations in one process: same result, memory stays flat.
TEST(SimulationTest, TenThousandRunsInOneProcess) {
    const auto module = std::make_shared<const Module>(tiny_program());
    uint64_t after_warm_up = 0;
    Cycles cycles = 0;
    for (int i = 0; i < 10'000; ++i) {
        Simulation simulation(module, &platform("npm_lite"), {});
        simulation.fill_inputs_random(1);
        ASSERT_EQ(simulation.run(), RunStatus::finished);
        if (i == 0) cycles = simulation.now();
        ASSERT_EQ(simulation.now(), cycles);
        if (i == 1000) after_warm_up = resident_kib();
    }
    EXPECT_LT(resident_kib(), after_warm_up + 4096);
}

// While stopped, memory and typed regions can be read and written; a write before a read changes the result.
TEST(SimulationTest, MemoryCanBeReadAndWrittenWhileStopped) {
    Simulation simulation(std::make_shared<const Module>(tiny_program()), &platform("npm_lite"), {});
    simulation.fill_inputs_zero();
    runtime::Completion completed;
    ASSERT_EQ(simulation.step_task(&completed), RunStatus::paused);
    EXPECT_EQ(completed.name, "in");
    EXPECT_EQ(completed.unit, "sdma0");
    auto array = simulation.read_region("m0");
    ASSERT_EQ(array.shape, std::vector<int64_t>{256});
    array.data[7] = 42;
    simulation.write_region("m0", array);
    EXPECT_EQ(simulation.read_bytes(Level::l2, 0, simulation.program().buffers[1].base + 7, 1)[0], 42);
    EXPECT_EQ(simulation.run(), RunStatus::finished);
    EXPECT_EQ(simulation.output("y").data[7], 42);
    EXPECT_THROW(simulation.read_region("nowhere"), UserError);
    EXPECT_THROW(simulation.read_bytes(Level::l2, 0, uint64_t{1} << 60, 16), UserError);
}

// state() says what each unit does and what each task waits for.
TEST(SimulationTest, StateNamesUnitsAndMissingTokens) {
    auto simulation = make("digits");
    simulation.step(400);
    const auto state = simulation.state();
    EXPECT_EQ(state.cycle, 400u);
    EXPECT_FALSE(state.units.empty());
    bool waiting = false;
    for (const auto& task : state.tasks)
        waiting = waiting || (task.state == "waiting" && !task.missing.empty());
    EXPECT_TRUE(waiting);
}

// A program that does not fit its platform is refused before anything runs.
TEST(SimulationTest, WhatDoesNotFitIsRefused) {
    const auto module = std::make_shared<const Module>(bench::tiled_gemm(1024, 256));  // 1 MiB of L1
    try {
        Simulation simulation(module, &platform("tile32"), {});
        FAIL() << "accepted";
    } catch (const UserError& error) {
        EXPECT_THAT(error.diagnostics().to_string() + error.what(), testing::HasSubstr("L1"));
    }
    EXPECT_THROW(Simulation(example("digits"), nullptr, {}), UserError);  // timing needs a platform
    EXPECT_NO_THROW(Simulation(example("digits"), nullptr, with_mode(Mode::functional)));
}

// The limit ends a run that would go on, with what has been done so far.
TEST(SimulationTest, LimitStopsTheRun) {
    SimulationOptions options;
    options.max_cycles = 500;
    auto simulation = make("digits", options);
    EXPECT_EQ(simulation.run(), RunStatus::limit_reached);
    EXPECT_EQ(simulation.now(), 500u);
    EXPECT_EQ(simulation.stats().integer("cycles.total"), 500u);
}

/// Returns every field, so that two streams compare as sets.
std::vector<std::string> sorted_bytes(const traces::Events& events) {
    std::vector<std::string> all;
    for (const traces::Event& event : events)
        all.emplace_back(reinterpret_cast<const char*>(&event), sizeof event);
    std::sort(all.begin(), all.end());
    return all;
}

// An observer sees what a recording holds, and tasks begin and end in order of time.
TEST(SimulationTest, ObserverSeesWhatARecordingHolds) {
    struct Observer final : traces::EventSink {
        void record(const traces::Event& event) override { events.push_back(event); }
        std::vector<traces::Event> events;
    } observer;
    SimulationOptions options;
    options.observer = &observer;
    Simulation observed = make("conv_pool", options);
    EXPECT_TRUE(observed.units().empty());
    observed.run();
    observed.stats();  // ends the run: what resources did last is known now
    options.observer = nullptr;
    options.record_events = true;
    Simulation recorded = make("conv_pool", options);
    recorded.run();
    const traces::Recording recording = recorded.take_recording();
    ASSERT_EQ(observer.events.size(), recording.events.size());
    EXPECT_EQ(sorted_bytes(observer.events), sorted_bytes(recording.events));
    ASSERT_EQ(observed.units().size(), recording.info.units.size());
    EXPECT_EQ(observed.units().front().name, recording.info.units.front().name);
    Picoseconds last = 0;
    for (const traces::Event& event : observer.events) {
        if (event.kind != traces::EventKind::begin && event.kind != traces::EventKind::end) continue;
        EXPECT_LE(last, event.time_ps);
        last = event.time_ps;
    }
}

// Tracing observes: with events recorded nothing changes.
TEST(SimulationTest, RecordingChangesNothing) {
    SimulationOptions options;
    options.record_events = true;
    auto traced = make("gemm_relu", options), plain = make("gemm_relu");
    traced.run();
    plain.run();
    EXPECT_EQ(traced.stats().to_json(true), plain.stats().to_json(true));
    EXPECT_GT(traced.take_recording().events.size(), 100u);
}

/// A DDR buffer of which one task reads 64 bytes near its end, in functional mode and for any device.
Simulation reader_of(uint64_t size, uint64_t offset) {
    const std::string text = fmt::format(
        "program large:\nbuffer x : DDR (size = {})\nbuffer y : DDR (size = 64)\nbuffer m : L2 (size = 64)\n"
        "a = transfer.async(dst=region(m, 0, 64) elem=f32, shape=[16], layout=C, "
        "src=region(x, {}, 64) elem=f32, shape=[16], layout=C)\n"
        "b = transfer.async(dst=region(y, 0, 64) elem=f32, shape=[16], layout=C, "
        "src=region(m, 0, 64) elem=f32, shape=[16], layout=C, deps=[a])\n",
        size, offset);
    Diagnostics diagnostics;
    return {compiler::load_program(compiler::Source::of_bytes(text, "large.nem"), {}, {}, diagnostics),
            nullptr, with_mode(Mode::functional)};
}

// A 4 GiB buffer of which 64 bytes are touched costs what is touched, however it is filled.
TEST(LargeInputs, CostWhatTasksTouch) {
    constexpr uint64_t size = uint64_t{4} << 30;
    const auto peak_kib = [] {
        rusage usage{};
        getrusage(RUSAGE_SELF, &usage);
        return usage.ru_maxrss;
    };
    const auto before = peak_kib();
    for (const bool random : {false, true}) {
        Simulation simulation = reader_of(size, size - 64);
        if (random) {
            simulation.fill_inputs_random(7);
        } else {
            simulation.fill_inputs_zero();
        }
        EXPECT_EQ(simulation.run(), RunStatus::finished);
        EXPECT_EQ(simulation.hazards().count(), 0u);
        EXPECT_EQ(simulation.output("y").data == std::string(64, '\0'), !random);
        EXPECT_LT(runtime::estimate_run(simulation.program(), simulation.options()).values_bytes, 1e6);
    }
    EXPECT_LT(peak_kib() - before, 64 << 10);
}

// Inputs that are filled late have the values that they always had: number n of SplitMix64, in [-1, 1).
TEST(LargeInputs, HaveTheValuesOfTheirSeed) {
    constexpr uint64_t size = 17 << 20, seed = 11;
    Simulation simulation = reader_of(size, 4096 + 4);
    simulation.fill_inputs_random(seed);
    EXPECT_EQ(simulation.run(), RunStatus::finished);
    std::vector<float> expected(size / 4);
    for (size_t i = 0; i < expected.size(); ++i) {
        uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15ull;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        z ^= z >> 31;
        expected[i] = static_cast<float>(std::ldexp(static_cast<double>(z >> 40), -23) - 1.0);
    }
    EXPECT_EQ(std::memcmp(simulation.output("y").data.data(), &expected[4100 / 4], 64), 0);
    const NpyArray whole = simulation.read("x");
    ASSERT_EQ(whole.data.size(), size);
    EXPECT_EQ(std::memcmp(whole.data.data(), expected.data(), size), 0);
}

}  // namespace
}  // namespace kpu
