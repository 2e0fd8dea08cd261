// Several engines at once: they overlap in time, results do not depend on where tasks are placed, and tasks
// without an engine are spread over all of them, in the same way every time.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "isa/nem/nem.hpp"
#include "runtime/simulation.hpp"

namespace kpu {
namespace {

using runtime::Mode;
using runtime::RunStatus;

constexpr int tiles = 8;
constexpr int chain = 6;  ///< products of a tile: enough that arrays, not DRAM, take the time

std::shared_ptr<const Module> module_of(const std::string& text) {
    Diagnostics diagnostics;
    nem::Document document = nem::parse(text, "engines.nem", platforms::file_loader({}), diagnostics);
    EXPECT_FALSE(diagnostics.has_errors()) << diagnostics.to_string();
    return std::make_shared<Module>(std::move(document.module));
}

std::string typed(const std::string& name, const std::string& buffer, const std::string& offset) {
    return fmt::format("let {} = region({}, {}, tile) elem=f16, shape=[T, T], layout=C\n", name, buffer,
                       offset);
}

/// Y_t = the product of A_t with W, normalised, again and again. Tile t is computed by engine place[t].
std::string program_of(const std::vector<int>& place) {
    std::string text =
        "const T = 64\nconst tile = T * T * 2\n"
        "buffer A : DDR (size = 8 * tile)\nbuffer W : DDR (size = tile)\nbuffer Y : DDR (size = 8 * tile)\n"
        "buffer a : L2 (size = 8 * tile)\nbuffer w : L2 (size = tile)\nbuffer y : L2 (size = 8 * tile)\n" +
        typed("W0", "W", "0") + typed("w0", "w", "0") + "load_w = transfer.async(dst=w0, src=W0)\n";
    for (int t = 0; t < tiles; ++t) {
        const std::string offset = fmt::format("{} * tile", t);
        for (const char* name : {"p", "q", "v"})
            text +=
                fmt::format("buffer {}{} : L1[{}] (size = tile)\n", name, t, place[static_cast<size_t>(t)]) +
                typed(fmt::format("{}{}_", name, t), fmt::format("{}{}", name, t), "0");
        for (const char* name : {"A", "a", "Y", "y"})
            text += typed(fmt::format("{}{}_", name, t), name, offset);
        text += fmt::format(
            "load{0} = transfer.async(dst=a{0}_, src=A{0}_)\n"
            "ina{0} = transfer.async(dst=p{0}_, src=a{0}_, deps=[load{0}])\n"
            "inw{0} = transfer.async(dst=v{0}_, src=w0, deps=[load_w])\n",
            t);
        std::string before = fmt::format("ina{0}, inw{0}", t);
        for (int c = 0; c < chain; ++c) {
            text += fmt::format(
                "g{0}_{1} = matmul.async in p{0}_, v{0}_ out q{0}_ accum_type=f32 deps=[{2}]\n"
                "n{0}_{1} = rmsnorm.async in q{0}_ out p{0}_ axis=1 epsilon=0.001 deps=[g{0}_{1}]\n",
                t, c, before);
            before = fmt::format("n{}_{}", t, c);
        }
        text += fmt::format(
            "out{0} = store.async(dst=y{0}_, src=p{0}_, deps=[{1}])\n"
            "save{0} = transfer.async(dst=Y{0}_, src=y{0}_, deps=[out{0}])\n",
            t, before);
    }
    return text;
}

/// Independent products whose operands all lie in L2: any engine may compute them.
std::string floating_program() {
    std::string text =
        "const T = 64\nconst tile = T * T * 2\n"
        "buffer A : L2 (size = 8 * tile)\nbuffer W : L2 (size = tile)\nbuffer Y : L2 (size = 8 * tile)\n" +
        typed("W0", "W", "0");
    for (int t = 0; t < tiles; ++t) {
        for (const char* name : {"A", "Y"})
            text += typed(fmt::format("{}{}_", name, t), name, fmt::format("{} * tile", t));
        text += fmt::format("g{0} = matmul.async in A{0}_, W0 out Y{0}_ accum_type=f32\n", t);
    }
    return text;
}

struct Outcome {
    std::string bytes;
    Cycles cycles = 0;
    traces::Recording recording;
};

Outcome run(const std::string& text, const std::string& device, Mode mode = Mode::values_timing) {
    const platforms::Platform platform = platforms::load(device);
    runtime::SimulationOptions options;
    options.mode = mode;
    options.record_events = mode != Mode::functional;
    runtime::Simulation simulation(module_of(text), &platform, options);
    EXPECT_EQ(simulation.diagnostics().to_string(), "");
    simulation.fill_inputs_random(5);
    EXPECT_EQ(simulation.run(), RunStatus::finished);
    Outcome outcome;
    outcome.cycles = simulation.now();
    for (const auto& spec : simulation.output_specs()) outcome.bytes += simulation.output(spec.name).data;
    EXPECT_EQ(simulation.hazards().count(), 0u);
    if (options.record_events) outcome.recording = simulation.take_recording();
    return outcome;
}

/// Executions of tasks on the arrays: start, end, engine, in order of start.
struct Execution {
    uint64_t begin, end;
    int engine;
    std::string task;
};
std::vector<Execution> on_arrays(const traces::Recording& recording) {
    std::vector<Execution> list;
    std::map<uint32_t, size_t> open;
    std::map<uint32_t, uint32_t> statements;
    for (const traces::Event& event : recording.events) {
        if (event.kind == traces::EventKind::issue) statements[event.task] = event.op;
        if (event.unit >= recording.info.units.size()) continue;
        const traces::UnitInfo& unit = recording.info.units[event.unit];
        if (unit.kind != UnitKind::nmu) continue;
        if (event.kind == traces::EventKind::begin) {
            open[event.task] = list.size();
            list.push_back(
                {event.time_ps, 0, unit.engine, recording.info.statements[statements[event.task]].name});
        } else if (event.kind == traces::EventKind::end) {
            list[open.at(event.task)].end = event.time_ps;
        }
    }
    return list;
}

/// Returns the most engines whose arrays executed a task at one time.
size_t most_at_once(const std::vector<Execution>& list) {
    size_t most = 0;
    for (const Execution& at : list) {
        std::set<int> engines;
        for (const Execution& other : list) {
            if (other.begin <= at.begin && at.begin < other.end) engines.insert(other.engine);
        }
        most = std::max(most, engines.size());
    }
    return most;
}

struct Case {
    const char* device;
    int engines;
};

class Engines : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Devices, Engines,
                         testing::Values(Case{"npm_lite", 1}, Case{"npm_quad_cstl", 1}, Case{"npm_mid", 2},
                                         Case{"npm_pro", 4}),
                         [](const auto& test) { return std::string(test.param.device); });

std::vector<int> round_robin(int engines) {
    std::vector<int> place;
    for (int t = 0; t < tiles; ++t) place.push_back(t % engines);
    return place;
}

// Wherever the tiles are placed, and with time or without, the output has the same bytes.
TEST_P(Engines, ResultsDoNotDependOnThePlacement) {
    const auto [device, engines] = GetParam();
    const std::string expected = run(program_of(std::vector<int>(tiles, 0)), device, Mode::functional).bytes;
    EXPECT_GT(std::set<char>(expected.begin(), expected.end()).size(), 50u) << "the output is trivial";
    std::vector<std::vector<int>> places = {round_robin(engines)};
    std::vector<int> uneven(tiles, engines - 1);
    uneven[3] = 0;
    places.push_back(uneven);
    for (const auto& place : places) EXPECT_TRUE(run(program_of(place), device).bytes == expected);
}

// Spread over the engines, as many arrays as there are engines execute at one time, and the program is
// faster.
TEST_P(Engines, OverlapInTime) {
    const auto [device, engines] = GetParam();
    const Outcome one = run(program_of(std::vector<int>(tiles, 0)), device);
    const Outcome all = run(program_of(round_robin(engines)), device);
    EXPECT_EQ(most_at_once(on_arrays(one.recording)), 1u);
    EXPECT_EQ(most_at_once(on_arrays(all.recording)), static_cast<size_t>(engines));
    if (engines == 1) {
        EXPECT_EQ(all.cycles, one.cycles);
    } else {
        EXPECT_LT(all.cycles, one.cycles);
    }
}

// A task with an operand in L1[k] runs on a unit of engine k.
TEST_P(Engines, OperandsInL1PinTheTask) {
    const auto [device, engines] = GetParam();
    const std::vector<int> place = round_robin(engines);
    const auto list = on_arrays(run(program_of(place), device).recording);
    EXPECT_EQ(list.size(), static_cast<size_t>(tiles * chain));
    for (const Execution& execution : list) {
        const int tile = execution.task[1] - '0';  // g3_0
        EXPECT_EQ(execution.engine, place[static_cast<size_t>(tile)]) << execution.task;
    }
}

// Tasks without an engine go to the engine with the fewest running tasks: all engines get the same number of
// equal tasks, twice the same way, with the values of one engine.
TEST_P(Engines, FloatingTasksAreBalanced) {
    const auto [device, engines] = GetParam();
    const Outcome first = run(floating_program(), device), second = run(floating_program(), device);
    const auto list = on_arrays(first.recording), again = on_arrays(second.recording);
    std::map<int, int> count;
    for (size_t i = 0; i < list.size(); ++i) {
        ++count[list[i].engine];
        EXPECT_EQ(list[i].engine, again[i].engine) << list[i].task;
    }
    EXPECT_EQ(count.size(), static_cast<size_t>(engines));
    for (const auto& [engine, tasks] : count) EXPECT_EQ(tasks, tiles / engines) << "engine " << engine;
    EXPECT_TRUE(first.bytes == run(floating_program(), "npm_lite", Mode::functional).bytes);
}

}  // namespace
}  // namespace kpu
