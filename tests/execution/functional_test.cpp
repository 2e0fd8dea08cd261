#include "execution/functional.hpp"

#include <gtest/gtest.h>

#include <set>

#include "tests/execution/add_one_backend.hpp"
#include "tests/execution/program_maker.hpp"

namespace kpu::execution::test {
namespace {

/// Ten iterations, two at a time, each: load into its slot of A, add one into its slot of B, all unordered
/// outside.
BoundProgram pipeline() {
    ProgramMaker m;
    const auto d = m.buffer("D", Level::ddr, 80), a = m.buffer("A", Level::l2, 80),
               b = m.buffer("B", Level::l2, 80);
    const auto part = [&](uint32_t buffer) {
        const uint32_t index = m.typed("part", buffer, 0, ElemType::u8, {8}, {1});
        const auto base = static_cast<int64_t>(m.program.buffers[buffer].base);
        m.program.regions[index].address = affine(base, 8, 0);
        return index;
    };
    const auto rd = part(d), ra = part(a), rb = part(b);
    m.loop("i", 0, 9, 2);
    const auto load = m.transfer("load", ra, rd);
    const auto inc = m.task("inc", {load});
    m.at(inc).inputs = {ra};
    m.at(inc).outputs = {rb};
    m.at(inc).macs = 8;
    m.end();
    return m.program;
}

struct Bench {
    BoundProgram program;
    values::MemoryImage memory;
    AddOneBackend backend;
    FunctionalDriver driver;

    explicit Bench(FunctionalOptions options = {}, BoundProgram made = pipeline())
        : program(std::move(made)),
          memory(program.ddr_bytes, program.l2_bytes, program.l1_bytes),
          driver(program, memory, backend, options) {
        for (uint64_t i = 0; i < program.ddr_bytes; ++i) {
            const auto byte = static_cast<uint8_t>(i);
            memory.level(Level::ddr, 0).write(i, &byte, 1);
        }
    }
    std::vector<uint32_t> order() {
        std::vector<uint32_t> serials;
        while (driver.run(1) == RunStatus::paused) serials.push_back(driver.last_completed().serial);
        serials.push_back(driver.last_completed().serial);
        return serials;
    }
};

// Program order runs the earliest issued ready task first and computes the right values.
TEST(Functional, ProgramOrder) {
    Bench bench;
    EXPECT_EQ(bench.driver.run(), RunStatus::finished);
    EXPECT_EQ(bench.driver.completed(), 20u);
    for (uint64_t i = 0; i < 80; ++i) EXPECT_EQ(bench.memory.level(Level::l2, 0).data()[80 + i], i + 1);
    EXPECT_EQ(bench.driver.hazards().count(), 0u);
    EXPECT_EQ(bench.driver.total_traffic().macs, 80u);
    EXPECT_EQ(bench.driver.total_traffic().read[0], 80u);
    EXPECT_EQ(bench.driver.total_traffic().written[1], 160u);
}

// Random orders differ between seeds, repeat for one seed, and give the same values for a correct program.
TEST(Functional, RandomOrdersAreReproducible) {
    std::set<std::vector<uint32_t>> orders;
    for (uint64_t seed = 0; seed < 20; ++seed) {
        FunctionalOptions options;
        options.random_order = true;
        options.seed = seed;
        Bench first(options), second(options);
        const auto order = first.order();
        EXPECT_EQ(order, second.order());
        orders.insert(order);
        for (uint64_t i = 0; i < 80; ++i) EXPECT_EQ(first.memory.level(Level::l2, 0).data()[80 + i], i + 1);
    }
    EXPECT_GT(orders.size(), 10u);
}

// Without the dependency some random order reads before the load: a hazard is reported.
TEST(Functional, MissingDependencyIsFound) {
    bool found = false;
    for (uint64_t seed = 0; seed < 20 && !found; ++seed) {
        FunctionalOptions options;
        options.random_order = true;
        options.seed = seed;
        BoundProgram program = pipeline();
        program.tasks[1].deps.clear();
        Bench bench(options, std::move(program));
        EXPECT_EQ(bench.driver.run(), RunStatus::finished);
        found = bench.driver.hazards().count(HazardKind::unwritten) > 0;
    }
    EXPECT_TRUE(found);
}

// The run stops at its limits and when interrupted, and goes on from there.
TEST(Functional, StopsAndGoesOn) {
    FunctionalOptions options;
    options.max_tasks = 15;
    Bench bench(options);
    EXPECT_EQ(bench.driver.run(3), RunStatus::paused);
    EXPECT_EQ(bench.driver.completed(), 3u);
    std::atomic<bool> interrupt{true};
    EXPECT_EQ(bench.driver.run(UINT64_MAX, &interrupt), RunStatus::interrupted);
    EXPECT_EQ(bench.driver.completed(), 3u);
    interrupt = false;
    EXPECT_EQ(bench.driver.run(UINT64_MAX, &interrupt), RunStatus::limit_reached);
    EXPECT_EQ(bench.driver.completed(), 15u);
}

// A loop of 2^40 iterations runs until its limit.
TEST(Functional, HugeLoopStopsAtItsLimit) {
    BoundProgram program = pipeline();
    program.loops[0].last = constant(int64_t{1} << 40);
    for (BoundRegion& region : program.regions) {
        region.address = constant(static_cast<int64_t>(program.buffers[region.buffer].base));
    }
    FunctionalOptions options;
    options.max_tasks = 1000;
    Bench bench(options, std::move(program));
    EXPECT_EQ(bench.driver.run(), RunStatus::limit_reached);
    EXPECT_LE(bench.driver.controller().live_count(), 4u);
}

}  // namespace
}  // namespace kpu::execution::test
