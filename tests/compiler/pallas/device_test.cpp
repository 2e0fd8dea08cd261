// Exports on a modelled device: the same values in every mode, and copies under compute.
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/pallas/lower.hpp"
#include "runtime/simulation.hpp"
#include "tests/compiler/pallas/draft.hpp"

namespace kpu::compiler::pallas {
namespace {

struct OnDevice {
    Ints values;
    Cycles cycles = 0;
    uint64_t hazards = 0;
};

OnDevice simulate(const Draft& draft, runtime::Mode mode) {
    const auto module = std::make_shared<const Module>(lower(read_export(draft.text(), "p"), "p"));
    const platforms::Platform platform = platforms::load("tile32");
    runtime::SimulationOptions options;
    options.mode = mode;
    runtime::Simulation simulation(module, &platform, options);
    if (mode != runtime::Mode::timing) {
        NpyArray x;
        x.dtype = "<i4";
        x.shape = {draft.rows, 4};
        const Blob bytes = blob(counted(draft.rows * 4));
        x.data.assign(bytes.begin(), bytes.end());
        simulation.set_input("x", x);
    }
    simulation.run();
    OnDevice result;
    result.cycles = simulation.now();
    result.hazards = simulation.hazards().count();
    if (mode == runtime::Mode::timing) return result;
    const NpyArray y = simulation.output("y");
    result.values = ints(Blob(y.data.begin(), y.data.end()));
    return result;
}

/// Builds `steps` blocks of 64 rows, one after the other, each multiplied by itself `work` times over.
Draft pipeline(int steps, int buffers, int work) {
    Draft draft = gridded(R"([11, ["i32", 0]])", R"([["i32", 0], ["i32", 0]])");
    draft.grid = fmt::format("[1, {}]", steps);
    draft.block = 64;
    draft.rows = 64 * steps;
    draft.out_rows = 64;
    draft.buffers = buffers;
    draft.equations = R"({"op": "get", "refs": [{"ref": 0}], "out": [2], "line": 0},
        {"op": "scan", "length": )" +
                      std::to_string(work) +
                      R"(, "reverse": false, "carries": 1, "in": [2], "out": [3], "line": 0, "blocks": [
          {"inputs": [4], "equations": [{"op": "mul", "in": [4, ["i32", 3]], "out": [5], "line": 0}], "results": [5]}]},
        {"op": "swap", "in": [3], "refs": [{"ref": 1}], "line": 0})";
    return draft;
}

TEST(PallasOnDevice, ModesAgree) {
    Draft blocks = gridded(R"([11, ["i32", 0]])", R"([13, ["i32", 0]])");
    blocks.grid = "[1, 3]";
    blocks.rows = blocks.out_rows = 5;
    for (const Draft& draft : {Draft(), blocks, pipeline(4, 2, 3)}) {
        const OnDevice timed = simulate(draft, runtime::Mode::values_timing);
        EXPECT_EQ(timed.values, draft.run());
        EXPECT_EQ(simulate(draft, runtime::Mode::functional).values, timed.values);
        EXPECT_EQ(simulate(draft, runtime::Mode::timing).cycles, timed.cycles);
        EXPECT_EQ(timed.hazards, 0u);
        EXPECT_GT(timed.cycles, 0u);
    }
}

/// With one buffer a step costs copy and compute, with two the greater of both.
TEST(PallasOnDevice, CopiesRunUnderCompute) {
    const auto per_step = [](int buffers, int work) {
        const auto cycles = [&](int steps) {
            return simulate(pipeline(steps, buffers, work), runtime::Mode::values_timing).cycles;
        };
        return static_cast<double>(cycles(24) - cycles(8)) / 16;
    };
    const double copy_bound = per_step(2, 0), alone = per_step(1, 0);
    for (const int work : {20, 60}) {
        const double one = per_step(1, work), two = per_step(2, work);
        const double compute = one - alone;
        EXPECT_GT(compute, 0);
        EXPECT_LT(two, one - 0.5 * std::min(copy_bound, compute));
    }
}

}  // namespace
}  // namespace kpu::compiler::pallas
