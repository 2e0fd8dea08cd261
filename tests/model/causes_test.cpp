// Each cause of a refused task, from a program of a few tasks that can have no other.
#include <gtest/gtest.h>

#include "tests/model/device_fixture.hpp"

namespace kpu::model {
namespace {

using builder::Program;
using builder::Task;
using builder::tensor;

constexpr int64_t size = 4096;

/// Buffers of some tiles at every level, and transfers between them.
struct Tiles {
    explicit Tiles(Program& program)
        : p(program),
          ddr(p.buffer("DDR", Level::ddr, 4 * size)),
          l2(p.buffer("L2", Level::l2, 4 * size)),
          l1(p.l1_buffer("L1", 0, 4 * size)) {}
    builder::Region at(builder::Buffer buffer, int64_t tile) {
        return p.region("r" + std::to_string(regions++), buffer, tile * size, tensor(ElemType::i8, {size}));
    }
    Task move(const std::string& name, builder::Buffer to, builder::Buffer from, int64_t tile) {
        return p.transfer(name, at(to, tile), at(from, tile));
    }
    Task relu(const std::string& name, int64_t tile) {
        return p.compute("relu", {at(l1, tile)}, {at(l1, tile)}, name);
    }
    Program& p;
    builder::Buffer ddr, l2, l1;
    int regions = 0;
};

Outcome run_tiles(const std::vector<Change>& changes, const std::function<void(Tiles&)>& fill) {
    const auto platform = platform_with("tile32", changes);
    Program p("causes");
    Tiles tiles(p);
    fill(tiles);
    return run_by_task(platform, bound(p, platform));
}

uint64_t stalled(const Outcome& r, const std::string& unit, const std::string& cause) {
    EXPECT_EQ(cause_sum(r, unit), r.cycles) << unit;
    return stat(r, "units." + unit + ".stalled." + cause);
}

// A DMA that is free while its sequencer dispatches to another: 100 cycles of configuration, to the cycle.
TEST(Causes, TheSequencersDispatchIsConfiguration) {
    const Outcome r = run_tiles({{"sequencer.dispatch_cycles", "100"}}, [](Tiles& t) {
        t.move("a", t.l1, t.l2, 0);
        t.move("b", t.l1, t.l2, 1);
    });
    ASSERT_EQ(r.tasks.size(), 2u);
    EXPECT_EQ(stalled(r, "e0_dma1", "configuration"), 100u);
    EXPECT_EQ(stalled(r, "e0_dma1", "structural") + stalled(r, "e0_dma1", "backpressure"), 0u);
}

// A system DMA whose transfer also needs a DMA of the engine, which moves something else: structural.
TEST(Causes, TheSecondDmaThatIsTakenIsStructural) {
    const Outcome r = run_tiles({{"engine.dma.channels", "1"}}, [](Tiles& t) {
        t.move("a", t.l1, t.l2, 0);
        t.move("direct", t.l1, t.ddr, 1);
    });
    ASSERT_EQ(r.tasks.size(), 2u);
    EXPECT_EQ(r.tasks[1].start, r.tasks[0].end);
    EXPECT_EQ(stalled(r, "sdma0", "structural"), r.tasks[0].end);
    EXPECT_EQ(stalled(r, "sdma0", "backpressure") + stalled(r, "sdma0", "configuration"), 0u);
}

// The other way round: the engine's DMA is free, and its task waits for the system DMA.
TEST(Causes, TheFirstDmaThatIsTakenIsStructuralForTheSecond) {
    const Outcome r = run_tiles({{"system_dma.channels", "1"}, {"engine.dma.channels", "1"}}, [](Tiles& t) {
        t.move("a", t.l2, t.ddr, 0);
        t.move("direct", t.l1, t.ddr, 1);
    });
    ASSERT_EQ(r.tasks.size(), 2u);
    EXPECT_EQ(r.tasks[1].start, r.tasks[0].end);
    EXPECT_EQ(stalled(r, "e0_dma0", "structural"), r.tasks[0].end);
}

// A vector unit whose operand is brought by a transfer that the one DMA, busy with another, does not take: the
// unit waits for what the DMA executes now, and then for its own transfer.
TEST(Causes, ARefusedTransferIsFollowedToTheOneThatHoldsTheDma) {
    const Outcome r = run_tiles({{"engine.dma.channels", "1"}}, [](Tiles& t) {
        t.move("a", t.l1, t.l2, 0);
        const Task b = t.move("b", t.l1, t.l2, 1);
        t.relu("r", 1).after({b});
    });
    ASSERT_EQ(r.tasks.size(), 3u);
    // one transfer after the other, each with its descriptor first; then the task's own operand
    EXPECT_GE(stalled(r, "e0_cstl0", "dma_issue"), stalled(r, "e0_dma0", "dma_issue"));
    EXPECT_GE(stalled(r, "e0_cstl0", "dma_issue") + stalled(r, "e0_cstl0", "operand_interconnect"),
              r.tasks[1].end);
    EXPECT_EQ(stalled(r, "e0_cstl0", "backpressure"), 0u);
    EXPECT_EQ(stalled(r, "e0_cstl0", "structural") + stalled(r, "e0_cstl0", "configuration"), 0u);
    EXPECT_EQ(stalled(r, "e0_dma0", "backpressure"), 0u);  // it works without a pause
}

// A chain of waits is followed to what refuses its first task.
TEST(Causes, AChainIsFollowedToTheRefusal) {
    const Outcome r = run_tiles({{"sequencer.dispatch_cycles", "50"}}, [](Tiles& t) {
        t.relu("first", 2);
        const Task a = t.move("a", t.l1, t.l2, 0);
        const Task b = t.relu("b", 0).after({a});
        t.p.store("c", t.at(t.l2, 3), t.at(t.l1, 0)).after({b});
    });
    // "a" is dispatched at 50; until then its DMA is charged the sequencer
    EXPECT_EQ(stalled(r, "e0_dma0", "configuration"), 50u);
}

// Queue depths: two tasks start, four wait for the two DMAs of the engine, and the queue empties as they end.
TEST(Causes, QueueDepthsAreRecorded) {
    const auto platform = platform_with("tile32", {{"sequencer.dispatch_cycles", "1"}});
    Program p("queue");
    Tiles t(p);
    const auto source = p.buffer("S", Level::l2, 6 * size), target = p.l1_buffer("D", 0, 6 * size);
    for (int i = 0; i < 6; ++i) t.move("m" + std::to_string(i), target, source, i);
    const Outcome r = run(platform, bound(p, platform));
    std::map<std::string, std::vector<int64_t>> depths;
    for (const traces::Event& event : r.events) {
        if (event.kind == traces::EventKind::counter &&
            event.cause == static_cast<uint8_t>(traces::CounterId::queue_depth))
            depths[r.units[event.unit].name].push_back(event.value);
    }
    for (const char* unit : {"e0_dma0", "e0_dma1"})
        EXPECT_EQ(depths[unit], (std::vector<int64_t>{5, 4, 3, 2, 1, 0})) << unit;
    EXPECT_EQ(depths.count("e0_nmu0"), 0u);
    // memories: one stream for each DMA that moves
    for (const char* unit : {"l2", "e0_link", "e0_l1"}) {
        ASSERT_FALSE(depths[unit].empty()) << unit;
        EXPECT_EQ(*std::max_element(depths[unit].begin(), depths[unit].end()), 2) << unit;
        EXPECT_EQ(depths[unit].front(), 1) << unit;
        EXPECT_EQ(depths[unit].back(), 0) << unit;
    }
    EXPECT_EQ(depths.count("ddr0") + depths.count("link_sys"), 0u);
}

// The state of a stopped run names what limits the transfer that a unit waits for, as the account does later.
TEST(Causes, StateNamesTheLimiterOfARunningTransfer) {
    const auto platform = platform_with("tile32", {{"engine.dma.descriptor_cycles", "100"}});
    Program p("state");
    Tiles t(p);
    const Task a = t.move("a", t.l1, t.l2, 0);
    t.relu("r", 0).after({a});
    const BoundProgram program = bound(p, platform);
    DeviceOptions options;
    options.hazards = false;
    Device device(platform, program, nullptr, options);
    ASSERT_EQ(device.run(50), RunStatus::paused);
    std::map<std::string, Device::UnitState> units;
    for (const Device::UnitState& unit : device.state().units) units[device.units()[unit.unit].name] = unit;
    EXPECT_EQ(units["e0_dma0"].cause, traces::Cause::stalled_dma_issue);
    EXPECT_EQ(units["e0_dma0"].task, 0u);
    EXPECT_EQ(units["e0_cstl0"].cause, traces::Cause::stalled_dma_issue);
    EXPECT_EQ(units["e0_cstl0"].task, 1u);
}

// An executing array fills, then works.
TEST(Causes, StateOfAnArrayFollowsItsFormula) {
    const auto platform = platform_with("tile32");
    Program p("gemm");
    l1_gemm(p, 64, 64, 256);
    const BoundProgram program = bound(p, platform);
    DeviceOptions options;
    options.hazards = false;
    Device device(platform, program, nullptr, options);
    const auto cause_at = [&](Cycles cycle) {
        device.run(cycle);
        return device.state().units.at(0).cause;
    };
    EXPECT_EQ(device.units()[0].name, "e0_nmu0");
    EXPECT_EQ(cause_at(10), traces::Cause::busy_fill_drain);
    EXPECT_EQ(cause_at(500), traces::Cause::busy_useful);
    EXPECT_EQ(device.run(), RunStatus::finished);
}

}  // namespace
}  // namespace kpu::model
