#include "execution/controller.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/diagnostics.hpp"
#include "tests/execution/program_maker.hpp"
#include "tests/execution/stepper.hpp"

namespace kpu::execution::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Tasks issue at once in program order; tokens alone decide readiness.
TEST(Controller, TokensOrderTasks) {
    ProgramMaker m;
    const auto a = m.task("a"), b = m.task("b");
    m.task("c", {a, b});
    Stepper s(m.program);
    s.controller.start();
    EXPECT_THAT(s.issued, ElementsAre("a", "b", "c"));
    EXPECT_THAT(s.ready_labels(), ElementsAre("a", "b"));
    s.complete("b");
    EXPECT_THAT(s.ready_labels(), ElementsAre("a"));
    s.complete("a");
    EXPECT_THAT(s.ready_labels(), ElementsAre("c"));
    EXPECT_FALSE(s.controller.finished());
    s.complete("c");
    EXPECT_TRUE(s.controller.finished());
}

// A program without any task is finished at once.
TEST(Controller, EmptyProgramFinishes) {
    ProgramMaker m;
    Stepper s(m.program);
    s.controller.start();
    EXPECT_TRUE(s.controller.finished());
}

// wait blocks the statements after it, in its own thread only.
TEST(Controller, WaitBlocksOnlyItsIteration) {
    ProgramMaker m;
    m.loop("i", 0, 1, 2);
    const auto a = m.task("a");
    m.wait({a});
    m.task("b");
    m.end();
    Stepper s(m.program);
    s.controller.start();
    EXPECT_THAT(s.take_issued(), ElementsAre("a(i=0)", "a(i=1)"));
    s.complete("a(i=1)");
    EXPECT_THAT(s.take_issued(), ElementsAre("b(i=1)"));
    s.complete("a(i=0)");
    EXPECT_THAT(s.take_issued(), ElementsAre("b(i=0)"));
}

// `.sync` blocks its thread until its own task completes.
TEST(Controller, SyncWaitsForItself) {
    ProgramMaker m;
    m.at(m.task("a")).sync = true;
    m.task("b");
    Stepper s(m.program);
    s.controller.start();
    EXPECT_THAT(s.take_issued(), ElementsAre("a"));
    s.complete("a");
    EXPECT_THAT(s.take_issued(), ElementsAre("b"));
}

// Without max_in_flight (1) iterations are sequential, and what follows the loop starts with the last
// iteration.
TEST(Controller, WindowOfOneIsSequential) {
    ProgramMaker m;
    m.loop("i", 0, 2, 1);
    m.task("a");
    m.end();
    m.task("z");
    Stepper s(m.program);
    s.controller.start();
    EXPECT_THAT(s.take_issued(), ElementsAre("a(i=0)"));
    s.complete("a(i=0)");
    EXPECT_THAT(s.take_issued(), ElementsAre("a(i=1)"));
    s.complete("a(i=1)");
    EXPECT_THAT(s.take_issued(), ElementsAre("a(i=2)", "z"));
}

// Iteration i starts when all iterations <= i - N are complete: out-of-order completion does not open the
// window.
TEST(Controller, WindowFollowsTheOldestIncompleteIteration) {
    ProgramMaker m;
    m.loop("i", 0, 4, 2);
    m.task("a");
    m.end();
    Stepper s(m.program);
    s.controller.start();
    EXPECT_THAT(s.take_issued(), ElementsAre("a(i=0)", "a(i=1)"));
    s.complete("a(i=1)");
    EXPECT_THAT(s.take_issued(), IsEmpty());
    s.complete("a(i=0)");
    EXPECT_THAT(s.take_issued(), ElementsAre("a(i=2)", "a(i=3)"));
}

// A window at least as wide as the range issues every iteration at once.
TEST(Controller, WideWindowIssuesAll) {
    ProgramMaker m;
    m.loop("i", -2, 1, 4);
    m.task("a");
    m.end();
    Stepper s(m.program);
    s.controller.start();
    EXPECT_THAT(s.issued, ElementsAre("a(i=-2)", "a(i=-1)", "a(i=0)", "a(i=1)"));
}

// An outer iteration is complete only when the tasks of its inner loops are, and inner bounds see outer
// variables.
TEST(Controller, NestedLoopsCompleteInsideOut) {
    ProgramMaker m;
    m.loop("i", 0, 1, 1);
    m.loop("j", constant(0), affine(0, 1, 0), 2);
    m.task("a");
    m.end();
    m.task("b");
    m.end();
    Stepper s(m.program);
    s.controller.start();
    EXPECT_THAT(s.take_issued(), ElementsAre("a(i=0, j=0)", "b(i=0)"));
    s.complete("b(i=0)");
    EXPECT_THAT(s.take_issued(), IsEmpty());
    s.complete("a(i=0, j=0)");
    EXPECT_THAT(s.take_issued(), ElementsAre("a(i=1, j=0)", "a(i=1, j=1)", "b(i=1)"));
}

// A token of a loop body used after the loop is satisfied when the instances of all iterations are.
TEST(Controller, TokenAfterLoopNeedsAllIterations) {
    ProgramMaker m;
    m.loop("i", 0, 2, 3);
    const auto a = m.task("a");
    m.end();
    m.task("z", {a});
    Stepper s(m.program);
    s.controller.start();
    ASSERT_EQ(s.ready.size(), 3u);
    const TaskInstance* z = s.controller.find(3);
    ASSERT_NE(z, nullptr);
    EXPECT_THAT(z->producers, ElementsAre(0, 1, 2));
    EXPECT_EQ(s.controller.root_producer(*z)->serial, 0u);
    s.complete("a(i=0)");
    s.complete("a(i=2)");
    EXPECT_EQ(s.controller.root_producer(*z)->serial, 1u);
    EXPECT_EQ(z->state, TaskState::waiting);
    s.complete("a(i=1)");
    EXPECT_THAT(s.ready_labels(), ElementsAre("z"));
}

// The same through two loops, one of them with an empty range for some outer values, and used inside a later
// loop.
TEST(Controller, TokenAfterNestedLoops) {
    ProgramMaker m;
    m.loop("i", 0, 2, 3);
    m.loop("j", constant(1), affine(0, 1, 0), 4);  // 0, 1 and 2 iterations
    const auto a = m.task("a");
    m.end();
    m.end();
    m.loop("k", 0, 1, 2);
    m.task("z", {a});
    m.end();
    Stepper s(m.program);
    s.controller.start();
    EXPECT_THAT(s.ready_labels(), ElementsAre("a(i=1, j=1)", "a(i=2, j=1)", "a(i=2, j=2)"));
    s.complete("a(i=2, j=1)");
    s.complete("a(i=1, j=1)");
    EXPECT_THAT(s.ready_labels(), ElementsAre("a(i=2, j=2)"));
    s.complete("a(i=2, j=2)");
    EXPECT_THAT(s.ready_labels(), ElementsAre("z(k=0)", "z(k=1)"));
}

// A token of a loop with no iteration is satisfied at once, for tasks and for waits.
TEST(Controller, ZeroTripLoopSatisfiesItsTokens) {
    ProgramMaker m;
    m.loop("i", 1, 0, 1);
    const auto a = m.task("a");
    m.loop("j", 0, 5, 1);
    const auto b = m.task("b");
    m.end();
    m.end();
    m.wait({a, b});
    m.task("z", {a, b});
    Stepper s(m.program);
    s.controller.start();
    EXPECT_THAT(s.ready_labels(), ElementsAre("z"));
}

// A full token table blocks only the thread that wants an entry, and serves threads in order of arrival.
TEST(Controller, TokenTableBlocksByArrival) {
    ProgramMaker m;
    m.loop("i", 0, 2, 3);
    m.task("a");
    m.end();
    m.at(m.task("z")).engine = 1;
    ControlOptions options;
    options.max_active_tokens = 1;
    options.num_engines = 2;
    Stepper s(m.program, options);
    s.controller.start();
    EXPECT_THAT(s.take_issued(), ElementsAre("a(i=0)", "z"));
    EXPECT_EQ(s.controller.tokens_in_flight(0), 1u);
    EXPECT_EQ(s.controller.tokens_in_flight(1), 1u);
    s.complete("a(i=0)");
    EXPECT_THAT(s.take_issued(), ElementsAre("a(i=1)"));
    s.complete("a(i=1)");
    EXPECT_THAT(s.take_issued(), ElementsAre("a(i=2)"));
}

// A floating task takes its entry at the engine that @seq_engine names.
TEST(Controller, FloatingTasksUseTheirTokenEngine) {
    ProgramMaker m;
    m.at(m.task("a")).token_engine = 1;
    ControlOptions options;
    options.num_engines = 2;
    Stepper s(m.program, options);
    s.controller.start();
    EXPECT_EQ(s.controller.tokens_in_flight(0), 0u);
    EXPECT_EQ(s.controller.tokens_in_flight(1), 1u);
}

// 2^40 iterations run lazily: a thousand tasks cost a thousand tasks, and live tasks never exceed the window.
TEST(Controller, HugeLoopIsLazy) {
    ProgramMaker m;
    m.loop("i", 0, (int64_t{1} << 40) - 1, 4);
    m.loop("j", 0, (int64_t{1} << 40) - 1, 2);
    m.task("a");
    m.end();
    m.end();
    Stepper s(m.program);
    s.controller.start();
    for (int n = 0; n < 1000; ++n) {
        EXPECT_EQ(s.controller.live_count(), 8u);
        s.complete_at(0);
    }
    EXPECT_EQ(s.controller.issued_count(), 1008u);
    EXPECT_FALSE(s.controller.finished());
}

// A huge window does not take memory for every iteration: max_live_tasks bounds what is live, and all of it
// still runs.
TEST(Controller, HugeWindowIsBounded) {
    ProgramMaker m;
    const auto first = m.task("first");
    m.loop("i", 0, 999, uint64_t{1} << 40);
    m.wait({first});
    m.task("a");
    m.end();
    ControlOptions options;
    options.max_live_tasks = 16;
    Stepper s(m.program, options);
    s.controller.start();
    size_t most = 0;
    while (!s.ready.empty()) {
        most = std::max(most, s.controller.live_count());
        s.complete_at(s.ready.size() - 1);
    }
    EXPECT_TRUE(s.controller.finished());
    EXPECT_EQ(s.controller.completed_count(), 1001u);
    EXPECT_LE(most, 16u);
}

// The limit yields when everything live waits for a task that is not issued yet.
TEST(Controller, LiveLimitNeverDeadlocks) {
    ProgramMaker m;
    m.loop("i", 0, 0, 1);
    const auto slow = m.task("slow");
    m.wait({slow});
    const auto late = m.task("late");
    m.end();
    m.loop("k", 0, 9, 10);
    m.task("z", {late});
    m.end();
    ControlOptions options;
    options.max_live_tasks = 2;
    Stepper s(m.program, options);
    s.controller.start();
    while (!s.ready.empty()) s.complete_at(0);
    EXPECT_TRUE(s.controller.finished());
}

// Loops without tasks cost nothing, however many iterations they have.
TEST(Controller, TasklessLoopsAreSkipped) {
    ProgramMaker m;
    m.loop("i", 0, INT64_MAX, 1);
    m.wait({});
    m.end();
    m.task("a");
    Stepper s(m.program);
    s.controller.start();
    EXPECT_THAT(s.issued, ElementsAre("a"));
}

// Addresses follow the loop variable; leaving the buffer is an error that names task, iteration, region and
// bytes.
TEST(Controller, RegionsAreResolvedAndChecked) {
    ProgramMaker m;
    m.buffer("pad", Level::l2, 100);
    const auto buffer = m.buffer("B", Level::l2, 64);
    const auto region = m.region("R", buffer, affine(0, 32, 0), 32);
    m.loop("i", 0, 2, 1);
    m.at(m.task("a")).outputs = {region};
    m.end();
    m.add_positions();
    Stepper s(m.program);
    s.controller.start();
    EXPECT_EQ(s.ready[0]->outputs.at(0).address, 100u);
    s.complete_at(0);
    EXPECT_EQ(s.ready[0]->outputs.at(0).address, 132u);
    try {
        s.complete_at(0);
        FAIL() << "byte 96 of 64 was accepted";
    } catch (const SimulationError& error) {
        EXPECT_THAT(error.what(),
                    HasSubstr("task `a` (i=2) at p.nem:2:1: region `R` takes 32 bytes from byte 64"));
        EXPECT_THAT(error.what(), HasSubstr("buffer `B`, which has 64"));
    }
}

// Future work is what threads have still to issue: kinds, engines and instances, inside loops too, and no
// more.
TEST(Controller, FutureWorkKnowsUnits) {
    ProgramMaker m;
    const auto a = m.task("a", {}, UnitKind::sdma);
    m.wait({a});
    m.loop("i", 0, 1, 1);
    m.at(m.task("b", {}, UnitKind::nmu)).engine = 1;
    m.end();
    const auto c = m.task("c", {}, UnitKind::vpu);
    m.at(c).engine = 0;
    m.at(c).instance = 1;
    ControlOptions options;
    options.num_engines = 2;
    Stepper s(m.program, options);
    s.controller.start();
    const auto& control = s.controller;
    EXPECT_EQ(control.future_work({UnitKind::sdma, -1, -1}), FutureWork::none);
    EXPECT_EQ(control.future_work({UnitKind::nmu, 1, -1}), FutureWork::not_issued);
    EXPECT_EQ(control.future_work({UnitKind::nmu, 0, -1}), FutureWork::none);
    EXPECT_EQ(control.future_work({UnitKind::vpu, 0, 0}), FutureWork::none);
    EXPECT_EQ(control.future_work({UnitKind::vpu, 0, 1}), FutureWork::not_issued);
    s.complete("a");
    EXPECT_EQ(control.future_work({UnitKind::nmu, 1, -1}), FutureWork::not_issued);
    s.complete("b(i=0)");
    EXPECT_EQ(control.future_work({UnitKind::nmu, 1, -1}), FutureWork::none);
    EXPECT_EQ(control.future_work({UnitKind::vpu, 0, 1}), FutureWork::none);
}

// Producers: unsatisfied ones at issue, and all of them for token flows.
TEST(Controller, ProducersAreRecorded) {
    ProgramMaker m;
    const auto a = m.task("a"), b = m.task("b");
    m.wait({a});
    m.task("c", {b, a});
    Stepper s(m.program);
    s.controller.start();
    s.complete("a");
    const TaskInstance* c = s.controller.find(2);
    ASSERT_NE(c, nullptr);
    EXPECT_THAT(c->producers, ElementsAre(1));
    EXPECT_THAT(c->all_producers, ElementsAre(0, 1));
    EXPECT_EQ(s.controller.find(0), nullptr);
    EXPECT_EQ(s.controller.live().size(), 2u);
}

// A task for an engine that the device lacks is refused before anything runs.
TEST(Controller, UnknownEngineIsRefused) {
    ProgramMaker m;
    m.at(m.task("a")).engine = 3;
    EXPECT_THROW(Stepper(m.program), UserError);
}

/// x, then a wait for it, then y, twice at once; s needs both y. With one token the entry goes to s too
/// early.
BoundProgram entry_taken_too_early() {
    ProgramMaker m;
    m.loop("i", 0, 1, 2);
    const auto x = m.task("x");
    m.wait({x});
    const auto y = m.task("y");
    m.end();
    m.task("s", {y});
    m.add_positions();
    return m.program;
}

// A deadlock is told as the chain from the oldest waiting task around to itself, with places and iterations.
TEST(Controller, DeadlockChainNamesEverything) {
    const BoundProgram program = entry_taken_too_early();
    ControlOptions options;
    options.max_active_tokens = 1;
    Stepper s(program, options);
    s.controller.start();
    while (!s.ready.empty()) s.complete_at(0);
    ASSERT_FALSE(s.controller.finished());
    EXPECT_EQ(
        s.controller.explain_block(),
        "task `s` at p.nem:5:1 waits for `y` of every iteration, 2 not complete; in iteration i=0 it is not "
        "issued\n"
        "task `y` (i=0) at p.nem:4:1, in iteration i=0, cannot be issued: the token table of engine 0 is "
        "full "
        "(1 of 1), held first by task `s` at p.nem:5:1\n"
        "task `s` at p.nem:5:1: the chain is closed, none of these can go on");
}

// With one entry more the same program runs to its end.
TEST(Controller, EnoughEntriesAvoidTheDeadlock) {
    const BoundProgram program = entry_taken_too_early();
    ControlOptions options;
    options.max_active_tokens = 2;
    Stepper s(program, options);
    s.controller.start();
    while (!s.ready.empty()) s.complete_at(0);
    EXPECT_TRUE(s.controller.finished());
}

// Obstacles of a stopped program are followed through waits, windows and tasks down to one that is ready.
TEST(Controller, ExplanationFollowsWindowsToARoot) {
    ProgramMaker m;
    m.loop("i", 0, 3, 1);
    const auto a = m.task("a", {}, UnitKind::nmu);
    m.task("b", {a});
    m.end();
    const BoundProgram program = m.program;
    Stepper s(program);
    s.controller.start();
    EXPECT_EQ(s.controller.explain_block(),
              "task `b` (i=0) waits for task `a` (i=0)\n"
              "task `a` (i=0) is ready, but no NMU has taken it");
}

}  // namespace
}  // namespace kpu::execution::test
