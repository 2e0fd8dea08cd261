// Tokens of earlier iterations in the controller. Random programs against an oracle: random_program_test.cpp.

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

// A task waits for itself two iterations before; iterations before the first count as done.
TEST(CarriedTokens, HoldATaskBackForSoManyIterations) {
    ProgramMaker m;
    const auto loop = m.loop("i", 0, 4, 5);
    const auto a = m.task("a");
    m.at(a).carried = {{a, loop, 2}};
    m.end();
    Stepper s(m.program);
    s.controller.start();
    EXPECT_THAT(s.ready_labels(), ElementsAre("a(i=0)", "a(i=1)"));
    s.complete("a(i=1)");
    EXPECT_THAT(s.ready_labels(), ElementsAre("a(i=0)", "a(i=3)"));
    s.complete("a(i=0)");
    EXPECT_THAT(s.ready_labels(), ElementsAre("a(i=3)", "a(i=2)"));
}

// The loops between keep their values, also when the earlier iteration has not come to its inner loop, or has no
// such iteration in it.
TEST(CarriedTokens, OfAnOuterLoopFindTheSameIterationOfInnerOnes) {
    ProgramMaker m;
    const auto loop = m.loop("i", 0, 1, 2);
    const auto gate = m.task("gate");
    m.wait({gate});
    m.loop("j", constant(0), affine(1, 1, 0), 9);  // to 1 + i
    const auto a = m.task("a");
    m.at(a).carried = {{a, loop, 1}};
    m.end();
    m.end();
    Stepper s(m.program);
    s.controller.start();
    s.complete("gate(i=1)");
    EXPECT_THAT(s.ready_labels(), ElementsAre("gate(i=0)")) << "nothing is known of iteration 0 yet";
    const TaskInstance* late = s.controller.find(2);
    ASSERT_NE(late, nullptr);
    EXPECT_THAT(late->producers, IsEmpty());
    EXPECT_EQ(s.controller.root_producer(*late), nullptr);
    s.complete("gate(i=0)");
    EXPECT_THAT(s.ready_labels(), ElementsAre("a(i=1, j=2)", "a(i=0, j=0)", "a(i=0, j=1)"));
    s.complete("a(i=0, j=1)");
    EXPECT_THAT(s.ready_labels(), ElementsAre("a(i=1, j=2)", "a(i=0, j=0)", "a(i=1, j=1)"));
}

// A task of an inner loop stands for all its iterations of the earlier one.
TEST(CarriedTokens, OfAnInnerTaskMeanAllItsIterations) {
    ProgramMaker m;
    const auto loop = m.loop("i", 0, 1, 2);
    const auto use = m.task("use");
    m.loop("j", 0, 1, 2);
    const auto a = m.task("a");
    m.end();
    m.end();
    m.at(use).carried = {{a, loop, 1}};
    Stepper s(m.program);
    s.controller.start();
    s.complete("a(i=0, j=1)");
    EXPECT_THAT(s.ready_labels(), testing::Not(testing::Contains("use(i=1)")));
    s.complete("a(i=0, j=0)");
    EXPECT_THAT(s.ready_labels(), testing::Contains("use(i=1)"));
}

// For traces: producers that are complete, whose iteration is over, and that were not issued yet.
TEST(CarriedTokens, ProducersAreRecorded) {
    ProgramMaker m;
    const auto loop = m.loop("i", 0, 2, 2);
    const auto a = m.task("a");
    const auto hold = m.task("hold");
    m.wait({hold});
    const auto b = m.task("b");
    m.end();
    m.at(a).carried = {{b, loop, 1}, {b, loop, 2}};
    Stepper s(m.program);
    s.controller.start();
    const TaskInstance* second = s.controller.find(2);  // a(i=1): b(i=0) is not issued
    ASSERT_NE(second, nullptr);
    EXPECT_THAT(second->carried_producers, IsEmpty());
    s.complete("a(i=0)");
    s.complete("hold(i=0)");
    s.complete("b(i=0)");
    EXPECT_THAT(s.ready_labels(), testing::Contains("a(i=1)"));
    EXPECT_EQ(second->late_producers, 0u);
    EXPECT_THAT(second->carried_producers, ElementsAre(4));
    s.complete("a(i=1)");
    s.complete("hold(i=1)");
    const TaskInstance* third = s.controller.find(5);  // a(i=2)
    ASSERT_NE(third, nullptr);
    EXPECT_EQ(third->statement, a);
    EXPECT_THAT(third->all_producers, ElementsAre(4)) << "iteration 0 is over, and remembered";
}

// Entries taken by tasks that wait for an earlier iteration, which gets none: the chain is told.
TEST(CarriedTokens, AFullTableIsADeadlockThatNamesTheIteration) {
    ProgramMaker m;
    const auto loop = m.loop("i", 0, 3, 4);
    const auto a = m.task("a");
    const auto x = m.task("x");
    m.wait({x});
    const auto c = m.task("c");
    m.end();
    m.at(a).carried = {{c, loop, 1}};
    ControlOptions options;
    options.max_active_tokens = 2;
    Stepper s(m.program, options);
    s.controller.start();
    while (!s.ready.empty()) s.complete_at(0);
    EXPECT_FALSE(s.controller.finished());
    EXPECT_THAT(
        s.controller.explain_block(),
        HasSubstr("task `a` (i=1) waits for `c` of an earlier iteration (1 before); in iteration i=0 it "
                  "is not issued"));
    EXPECT_THAT(s.controller.explain_block(), HasSubstr("the chain is closed"));
}

// Tokens that the container's check refuses are our bug here.
TEST(CarriedTokens, OfNoLoopAroundBothAreRefused) {
    ProgramMaker m;
    const auto a = m.task("a");
    const auto loop = m.loop("i", 0, 3, 4);
    const auto b = m.task("b");
    m.end();
    m.at(b).carried = {{a, loop, 1}};
    EXPECT_THROW(Stepper s(m.program), InternalError);
}

}  // namespace
}  // namespace kpu::execution::test
