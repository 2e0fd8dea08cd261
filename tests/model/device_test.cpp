// Whole programs on whole devices.
#include "model/device/device.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "execution/functional.hpp"
#include "tests/model/device_fixture.hpp"

namespace kpu::model {
namespace {

using builder::Program;

BoundProgram pipeline(const proto::Platform& platform, int64_t tiles, int64_t window) {
    Program p("pipeline");
    tiled_pipeline(p, tiles, window);
    return bound(p, platform);
}

values::MemoryImage image_with_inputs(const proto::Platform& platform, const BoundProgram& program) {
    std::vector<uint64_t> l1(platforms::engines_of(platform).size(), program.l1_bytes.at(0));
    values::MemoryImage image(program.ddr_bytes, program.l2_bytes, l1);
    std::mt19937 random(7);
    for (const TensorSpec& input : program.inputs) {
        const BoundBuffer& buffer = program.buffers[input.buffer];
        std::vector<uint8_t> bytes(buffer.size);
        for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random() % 7);
        image.level(buffer.level, buffer.engine).write(buffer.base, bytes.data(), bytes.size());
    }
    return image;
}

std::string bytes_of(const values::MemoryImage& image, uint64_t count) {
    const values::MemoryLevel& ddr = image.level(Level::ddr, 0);
    return std::string(reinterpret_cast<const char*>(ddr.data()), count);
}

// A window of two iterations overlaps transfers with products: faster than one iteration at a time.
TEST(Device, DoubleBufferingOverlapsTransfersAndProducts) {
    const auto platform = platform_with("tile32");
    const Cycles one = run(platform, pipeline(platform, 16, 1)).cycles;
    const Cycles two = run(platform, pipeline(platform, 16, 2)).cycles;
    EXPECT_LT(two * 10, one * 7);
}

// The values in DDR after a timed run are those of the functional driver.
TEST(Device, ValuesEqualTheFunctionalDriver) {
    const auto platform = platform_with("tile32");
    const BoundProgram program = pipeline(platform, 5, 2);
    const auto backend = values::make_fast_backend();
    auto timed = image_with_inputs(platform, program), functional = image_with_inputs(platform, program);
    DeviceOptions options;
    options.backend = backend.get();
    const Outcome r = run(platform, program, options, &timed);
    EXPECT_EQ(r.stop, RunStatus::finished);
    EXPECT_EQ(stat(r, "hazards.count"), 0u);
    execution::FunctionalDriver driver(program, functional, *backend, {});
    EXPECT_EQ(driver.run(), execution::RunStatus::finished);
    const std::string expected = bytes_of(functional, program.ddr_bytes);
    EXPECT_EQ(bytes_of(timed, program.ddr_bytes), expected);
    EXPECT_NE(expected.find_first_not_of('\0', 5 * 64 * 64 + 64 * 64), std::string::npos);
}

// Timing without values has the same cycles and energy as with them.
TEST(Device, TimingModeHasTheSameStatistics) {
    const auto platform = platform_with("tile32");
    const BoundProgram program = pipeline(platform, 5, 2);
    const auto backend = values::make_fast_backend();
    auto image = image_with_inputs(platform, program);
    DeviceOptions options;
    options.backend = backend.get();
    EXPECT_EQ(run(platform, program, options, &image).stats.to_json(true),
              run(platform, program).stats.to_json(true));
}

// The stepper that advances streams by arithmetic gives what one kernel event per burst gives, to the last
// statistic.
TEST(Device, OracleStepperGivesIdenticalResults) {
    for (const char* name : {"tile32", "npm_lite"}) {
        const auto platform = platform_with(name);
        const BoundProgram program = pipeline(platform, 6, 2);
        DeviceOptions oracle;
        oracle.oracle_stepper = true;
        EXPECT_EQ(run(platform, program).stats.to_json(true),
                  run(platform, program, oracle).stats.to_json(true));
    }
}

// Two runs in one process, with others in between, are the same to the last event.
TEST(Device, RunsAreDeterministic) {
    const auto platform = platform_with("npm_lite");
    const BoundProgram program = pipeline(platform, 4, 2);
    const Outcome first = run(platform, program);
    run(platform_with("tile32"), program);
    const Outcome second = run(platform, program);
    EXPECT_EQ(first.stats.to_json(true), second.stats.to_json(true));
    ASSERT_EQ(first.events.size(), second.events.size());
    for (size_t i = 0; i < first.events.size(); ++i) {
        ASSERT_EQ(std::memcmp(&first.events[i], &second.events[i], sizeof(traces::Event)), 0) << i;
    }
}

// Modules made and bound in any order give the same statistics and the same events, byte for byte.
TEST(Device, ConstructionOrderChangesNothing) {
    const auto platform = platform_with("npm_pro");
    const BoundProgram program = pipeline(platform, 4, 2);
    const Outcome plain = run(platform, program);
    for (uint64_t seed = 1; seed <= 8; ++seed) {
        DeviceOptions options;
        options.construction_seed = seed;
        const Outcome shuffled = run(platform, program, options);
        EXPECT_EQ(stats_differ(shuffled, plain), "") << seed;
        ASSERT_EQ(shuffled.events.size(), plain.events.size()) << seed;
        for (size_t i = 0; i < plain.events.size(); ++i)
            ASSERT_EQ(std::memcmp(&shuffled.events[i], &plain.events[i], sizeof(traces::Event)), 0) << i;
    }
}

// Two devices stepped in turns end as each does alone, and steps of any length change nothing.
TEST(Device, AlternateSteppingChangesNothing) {
    const auto a = platform_with("tile32"), b = platform_with("npm_lite");
    const BoundProgram program_a = pipeline(a, 4, 2), program_b = pipeline(b, 4, 2);
    DeviceOptions options;
    Device first(a, program_a, nullptr, options), second(b, program_b, nullptr, options);
    bool going_a = true, going_b = true;
    for (Cycles cycle = 1; going_a || going_b; cycle += 37) {
        if (going_a) going_a = first.run(cycle) == RunStatus::paused;
        if (going_b) going_b = second.run(cycle) == RunStatus::paused;
    }
    Outcome run_a, run_b;
    first.finish(run_a.stats);
    second.finish(run_b.stats);
    EXPECT_EQ(run_a.stats.to_json(true), run(a, program_a).stats.to_json(true));
    EXPECT_EQ(run_b.stats.to_json(true), run(b, program_b).stats.to_json(true));
}

// Stepping from task to task visits every task once and ends at the same cycle.
TEST(Device, TaskStepsVisitEveryTask) {
    const auto platform = platform_with("tile32");
    const BoundProgram program = pipeline(platform, 3, 2);
    const Outcome stepped = run_by_task(platform, program);
    EXPECT_EQ(stepped.stop, RunStatus::finished);
    EXPECT_EQ(stepped.tasks.size(), 2u + 3 * 6);
    EXPECT_EQ(stepped.cycles, run(platform, program).cycles);
}

// A table of one entry, taken by a task that waits for one not yet issued: told as a deadlock with its chain.
TEST(Device, DeadlockIsFoundAndExplained) {
    const auto platform = platform_with("tile32", {{"sequencer.max_active_tokens", "1"}});
    Program p("stuck");
    const auto type = builder::tensor(ElemType::i8, {64});
    const auto s = p.buffer("S", Level::l2, 64), d = p.l1_buffer("D", 0, 192);
    std::vector<builder::Task> in_loop;
    p.loop("i", 0, 1, 2, [&](builder::Expr) {
        const auto x = p.transfer("x", p.region("d0", d, 0, type), p.region("s0", s, 0, type));
        p.wait({x});
        in_loop.push_back(p.transfer("y", p.region("d1", d, 64, type), p.region("s1", s, 0, type)));
    });
    p.transfer("z", p.region("d2", d, 128, type), p.region("s2", s, 0, type)).after({in_loop.at(0)});
    const BoundProgram program = bound(p, platform);
    DeviceOptions options;
    options.hazards = false;
    Device device(platform, program, nullptr, options);
    EXPECT_EQ(device.run(), RunStatus::deadlock);
    EXPECT_NE(device.explain_deadlock().find("`z`"), std::string::npos);
    EXPECT_FALSE(device.state().tasks.empty());
}

// Tasks that no engine owns spread over the engines, least loaded first, and pinned ones run on their own.
TEST(Device, FloatingTasksSpreadOverTheEngines) {
    const auto platform = platform_with("npm_mid");
    Program p("floating");
    const auto type = builder::tensor(ElemType::i8, {4096});
    const auto buffer = p.buffer("B", Level::l2, 8 * 4096);
    for (int i = 0; i < 4; ++i) {
        const std::string n = std::to_string(i);
        p.compute("relu", {p.region("x" + n, buffer, 2 * i * 4096, type)},
                  {p.region("y" + n, buffer, (2 * i + 1) * 4096, type)}, "r" + n);
    }
    const Outcome r = run(platform, bound(p, platform));
    EXPECT_EQ(r.stop, RunStatus::finished);
    for (const char* unit : {"e0_cstl0", "e0_cstl1", "e1_cstl0", "e1_cstl1"}) {
        EXPECT_EQ(stat(r, std::string("units.") + unit + ".busy.useful") +
                      stat(r, std::string("units.") + unit + ".busy.padding"),
                  4096u / platform.engine(0).vector().lanes())
            << unit;
        EXPECT_EQ(cause_sum(r, unit), r.cycles);
    }
}

// The state of a stopped run names what runs and what waits for it.
TEST(Device, StateNamesRunningAndWaitingTasks) {
    const auto platform = platform_with("tile32");
    const BoundProgram program = pipeline(platform, 2, 1);
    Device device(platform, program, nullptr, {});
    EXPECT_EQ(device.run(20), RunStatus::paused);
    const Device::State state = device.state();
    EXPECT_EQ(state.cycle, 20u);
    ASSERT_FALSE(state.tasks.empty());
    EXPECT_EQ(state.tasks[0].name, "load_w2");
    EXPECT_EQ(state.tasks[0].state, execution::TaskState::running);
    EXPECT_EQ(device.units()[state.tasks[0].unit].name, "sdma0");
    EXPECT_EQ(state.tasks[1].name, "load_w1");
    EXPECT_EQ(state.tasks[1].missing, std::vector<uint32_t>{0});
}

// An interrupt stops the run between two events.
TEST(Device, InterruptStopsTheRun) {
    const auto platform = platform_with("tile32");
    const BoundProgram program = pipeline(platform, 2, 1);
    Device device(platform, program, nullptr, {});
    const std::atomic<bool> interrupt{true};
    EXPECT_EQ(device.run(Device::no_limit, false, &interrupt), RunStatus::interrupted);
    EXPECT_EQ(device.run(), RunStatus::finished);
}

// Modules and bindings are those of the platform: every unit with tasks is wired to the interconnect and a
// sequencer.
TEST(Device, ModuleListFollowsThePlatform) {
    for (const char* name : {"npm_lite", "npm_mid", "npm_pro", "tile32"}) {
        const auto platform = platform_with(name);
        const std::string text = list_modules(platform);
        for (const traces::UnitInfo& unit : unit_table(platform)) {
            if (unit.kind == UnitKind::device || unit.kind == UnitKind::link) continue;
            EXPECT_NE(text.find("\n  " + unit.name + " ("), std::string::npos) << unit.name;
            if (unit.kind > UnitKind::sdma) continue;
            EXPECT_NE(text.find("  " + unit.name + ".stream -> interconnect."), std::string::npos)
                << unit.name;
            EXPECT_NE(text.find("-> " + unit.name + ".command_0"), std::string::npos) << unit.name;
        }
    }
}

// Modules of each kind are as many as the platform says, on every shipped platform; every socket is bound
// once.
TEST(Device, ModuleCountsAreThePlatforms) {
    for (const std::string& name : platforms::shipped_names()) {
        const auto platform = platform_with(name);
        std::map<std::string, uint64_t> expected, listed;
        for (const proto::Engine& engine : platforms::engines_of(platform)) {
            expected["array_unit"] += engine.array().count();
            expected["vector_unit"] += engine.vector().cstl_count() + engine.vector().vpu_count();
            expected["dma_unit"] += engine.dma().channels();
            expected["sequencer"] += 1;
            expected["memory"] += 1;  // L1
        }
        const uint64_t task_units = expected["array_unit"] + expected["vector_unit"] + expected["dma_unit"];
        const uint64_t system = platform.system_dma().channels(), engines = expected["sequencer"];
        expected["dma_unit"] += system;
        expected["memory"] += 1 + platform.ddr().channels();  // L2 and DDR
        expected["interconnect"] = expected["task_arbiter"] = 1;

        std::istringstream text(list_modules(platform));
        uint64_t bindings = 0;
        for (std::string line; std::getline(text, line);) {
            const size_t open = line.find('(');
            if (line.find(" -> ") != std::string::npos) ++bindings;
            if (open != std::string::npos) ++listed[line.substr(open + 1, line.find(')') - open - 1)];
        }
        EXPECT_EQ(listed, expected) << name;
        // a stream socket per unit, a memory socket per memory, a command socket per engine unit and per
        // sequencer and system DMA, a socket for products per vector unit, an arbiter port per sequencer
        EXPECT_EQ(bindings, task_units + system + expected["memory"] + task_units + system * engines +
                                expected["vector_unit"] + engines)
            << name;
    }
}

#ifdef __SANITIZE_ADDRESS__
constexpr bool keeps_what_is_freed = true;
#else
constexpr bool keeps_what_is_freed = false;
#endif

uint64_t resident_pages() {
    std::ifstream file("/proc/self/statm");
    uint64_t size = 0, resident = 0;
    file >> size >> resident;
    return resident;
}

// Simulations come and go in one process without a trace: 10,000 of them in flat memory.
TEST(Device, TenThousandRunsInFlatMemory) {
    const auto platform = platform_with("tile32");
    Program p("copy");
    const auto type = builder::tensor(ElemType::i8, {64});
    const auto s = p.buffer("S", Level::l2, 64), d = p.l1_buffer("D", 0, 64);
    p.transfer("x", p.region("d0", d, 0, type), p.region("s0", s, 0, type));
    const BoundProgram program = bound(p, platform);
    DeviceOptions options;
    options.hazards = false;
    uint64_t before = 0;
    for (int i = 0; i < 10000; ++i) {
        Device device(platform, program, nullptr, options);
        ASSERT_EQ(device.run(i % 2 == 0 ? Device::no_limit : 5),
                  i % 2 == 0 ? RunStatus::finished : RunStatus::paused);
        if (i == 1000) before = resident_pages();
    }
    if (keeps_what_is_freed) return;
    EXPECT_LE(resident_pages(), before + 256);  // 1 MiB
}

}  // namespace
}  // namespace kpu::model
