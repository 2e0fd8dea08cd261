#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "tests/analysis/text_program.hpp"

namespace kpu::analysis {
namespace {

using test::findings_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Findings, ReadOfBytesThatNoTaskWrote) {
    // The second half of the buffer is read and never written; the first half is not named.
    EXPECT_THAT(
        findings_of(R"(buffer X : DDR (size = 128)
buffer Y : DDR (size = 128)
buffer T : L1[0] (size = 128)
a = transfer.async(dst=region(T, 0, 64), src=region(X, 0, 64))
b = transfer.async(dst=region(Y, 0, 128), src=region(T, 0, 128), deps=[a])
)"),
        HasSubstr("p.nem:5:1: warning: uninitialised read: task `b` reads bytes 64..127 of L1[0] buffer "
                  "`T`, which no task has written by then"));
}

TEST(Findings, ReadThatAWriteReachesIsClean) {
    // A host gives, an earlier loop wrote, and two tasks wrote the halves: all of it is written.
    EXPECT_EQ(findings_of(R"(buffer X : DDR (size = 128)
buffer Y : DDR (size = 128)
buffer T : L1[0] (size = 128)
loop i in [0..1] @max_in_flight(2):
    a = transfer.async(dst=region(T, i * 64, 64), src=region(X, i * 64, 64))
endloop
b = transfer.async(dst=region(Y, 0, 128), src=region(T, 0, 128), deps=[a])
)"),
              "");
}

TEST(Findings, WhatNothingReadsIsDead) {
    // A transfer overwritten before anyone reads it is dead; what reaches an output is not.
    EXPECT_THAT(findings_of(R"(buffer X : DDR (size = 64)
buffer Y : DDR (size = 64)
buffer T : L2 (size = 64)
a = transfer.async(dst=region(T, 0, 64), src=region(X, 0, 64))
b = transfer.async(dst=region(T, 0, 64), src=region(X, 0, 64), deps=[a])
c = store.async(dst=region(Y, 0, 64), src=region(T, 0, 64), deps=[b])
)"),
                AllOf(HasSubstr("p.nem:4:1: info: dead transfer: nothing reads what task `a` writes"),
                      Not(HasSubstr("task `b`")), Not(HasSubstr("task `c`"))));
}

TEST(Findings, BufferThatNoTaskTouches) {
    EXPECT_THAT(
        findings_of(R"(buffer X : DDR (size = 64)
buffer Y : DDR (size = 64)
buffer spare : L2 (size = 4096)
a = transfer.async(dst=region(Y, 0, 64), src=region(X, 0, 64))
)"),
        HasSubstr("p.nem:3:8: info: unused buffer: no task reads or writes `spare`, which takes 4096 bytes"));
}

constexpr const char* reload = R"(buffer W : DDR (size = 64)
buffer Y : DDR (size = 512)
buffer T : L2 (size = 64)
loop i in [0..7] @max_in_flight(%d):
    load = transfer.async(dst=region(T, 0, 64), src=region(W, 0, 64))
    use = store.async(dst=region(Y, i * 64, 64), src=region(T, 0, 64), deps=[load])
endloop
)";

std::string with_window(const std::string& text, int window) {
    return std::string(text).replace(text.find("%d"), 2, std::to_string(window));
}

TEST(Findings, WeightsReloadedIntoOneSlot) {
    // In overlapping iterations the reload is an unordered write and wasted work; one at a time it is only
    // waste.
    EXPECT_THAT(
        findings_of(with_window(reload, 2)),
        AllOf(HasSubstr("warning: hazard (waw): task `load` (i=1) writes bytes 0..63 of L2 buffer `T` while "
                        "task `load` (i=0)"),
              HasSubstr("info: hoistable reload: task `load` brings the same bytes to the same place of "
                        "buffer `T` in every iteration of the loop over `i`")));
    EXPECT_THAT(findings_of(with_window(reload, 1)),
                AllOf(Not(HasSubstr("warning")), HasSubstr("info: hoistable reload")));
}

TEST(Findings, ReloadOfChangedBytesIsNone) {
    // Bytes that a loop changes must be loaded again.
    EXPECT_EQ(findings_of(R"(buffer W : DDR (size = 64)
buffer T : L2 (size = 64)
loop i in [0..7]:
    load = transfer.async(dst=region(T, 0, 64), src=region(W, 0, 64))
    back = store.async(dst=region(W, 0, 64), src=region(T, 0, 64), deps=[load])
endloop
)"),
              "");
}

TEST(Findings, TokenOfALoopThatNeverRuns) {
    EXPECT_THAT(findings_of(R"(buffer X : DDR (size = 64)
buffer Y : DDR (size = 64)
loop i in [1..0]:
    a = transfer.async(dst=region(Y, 0, 64), src=region(X, 0, 64))
endloop
b = transfer.async(dst=region(Y, 0, 64), src=region(X, 0, 64), deps=[a])
)"),
                HasSubstr("p.nem:6:1: warning: token of a loop that never runs: `a` is satisfied at once"));
    // with a parameter it is meant
    EXPECT_THAT(findings_of(R"(#! param n = 0 in [0..1]
buffer X : DDR (size = 64)
buffer Y : DDR (size = 64)
loop i in [0..n - 1]:
    a = transfer.async(dst=region(Y, 0, 64), src=region(X, 0, 64))
endloop
b = transfer.async(dst=region(Y, 0, 64), src=region(X, 0, 64), deps=[a])
)"),
                ::testing::Not(HasSubstr("never runs")));
}

TEST(Findings, TokenTableThatFillsUp) {
    // c takes the entry that b needs, and waits for b; a table of two has room for both.
    const std::string text = R"(buffer X : DDR (size = 64)
buffer Y : DDR (size = 64)
buffer T : L2 (size = 64)
loop i in [0..0]:
    a = transfer.async(dst=region(T, 0, 64), src=region(X, 0, 64))
    wait(a)
    b = store.async(dst=region(Y, 0, 64), src=region(T, 0, 64))
endloop
c = transfer.async(dst=region(T, 0, 64), src=region(Y, 0, 64), deps=[b])
)";
    DeviceLimits limits;
    limits.agnostic = false;
    limits.units.fill(2);
    limits.max_active_tokens = 1;
    EXPECT_THAT(findings_of(text, limits),
                HasSubstr("warning: deadlock: the token table of the device holds 1"));
    limits.max_active_tokens = 2;
    EXPECT_THAT(findings_of(text, limits), Not(HasSubstr("deadlock")));
}

TEST(Findings, MoreTasksInFlightThanTokens) {
    // Two copies that nothing orders are in flight together: a table of one makes the second wait, one of two
    // does not.
    const std::string text = R"(buffer X : DDR (size = 128)
buffer Y : DDR (size = 128)
a = transfer.async(dst=region(Y, 0, 64), src=region(X, 0, 64))
b = transfer.async(dst=region(Y, 64, 64), src=region(X, 64, 64))
)";
    DeviceLimits limits;
    limits.agnostic = false;
    limits.units.fill(2);
    limits.max_active_tokens = 1;
    EXPECT_THAT(
        findings_of(text, limits),
        HasSubstr("info: token limit: up to 2 tasks of engine 0 are in flight, and the token table of the "
                  "device holds 1"));
    limits.max_active_tokens = 2;
    EXPECT_EQ(findings_of(text, limits), "");
}

TEST(Findings, FixNamesTheLargestSafeWindow) {
    // Slots repeat after 4 iterations: a window of 6 must shrink to 4.
    EXPECT_THAT(findings_of(R"(buffer X : DDR (size = 65536)
buffer T : L2 (size = 256)
loop i in [0..1000] @max_in_flight(6):
    a = transfer.async(dst=region(T, i mod 4 * 64, 64), src=region(X, i * 64, 64))
endloop
)"),
                HasSubstr("reduce @max_in_flight of the loop over `i` from 6 to 4"));
}

TEST(Findings, ProductOfVariablesIsNotProved) {
    // isl decides no products of variables: more iterations than are tried one by one give "not proved". The
    // bytes that different iterations write are the same for some i and j, so silence would be wrong too.
    EXPECT_THAT(findings_of(R"(buffer T : DDR (size = 2000000)
buffer X : DDR (size = 64)
loop i in [0..1000] @max_in_flight(2):
    loop j in [0..1000]:
        a = transfer.async(dst=region(T, i * j + 1, 1), src=region(X, 0, 1))
    endloop
endloop
)"),
                AllOf(HasSubstr("warning: not proved: task `a` and task `a`"),
                      HasSubstr("an offset or bound multiplies two variables")));
}

TEST(Findings, LoopsOfAnyLengthAreProved) {
    // 2^40 iterations of a two-slot pipeline: proved clean, and with a window of three refuted, without
    // unrolling.
    const std::string text = R"(buffer X : DDR (size = 4096)
buffer Y : DDR (size = 4096)
buffer T : L2 (size = 128)
loop i in [0..1099511627776] @max_in_flight(%d):
    load = transfer.async(dst=region(T, i mod 2 * 64, 64), src=region(X, i mod 64 * 64, 64))
    save = store.async(dst=region(Y, i mod 64 * 64, 64), src=region(T, i mod 2 * 64, 64), deps=[load])
endloop
)";
    EXPECT_EQ(findings_of(with_window(text, 2)), "");
    EXPECT_THAT(findings_of(with_window(text, 3)), HasSubstr("hazard (waw): task `load` (i=2)"));
}

TEST(Findings, PeakOfLiveBytes) {
    // Two buffers that are never needed at one time take 128 bytes and hold 64 at most.
    const BoundProgram program = bind(test::module_of(R"(buffer X : DDR (size = 64)
buffer Y : DDR (size = 64)
buffer A : L2 (size = 64)
buffer B : L2 (size = 64)
a = transfer.async(dst=region(A, 0, 64), src=region(X, 0, 64))
b = store.async(dst=region(Y, 0, 64), src=region(A, 0, 64), deps=[a])
c = transfer.async(dst=region(B, 0, 64), src=region(Y, 0, 64), deps=[b])
d = store.async(dst=region(Y, 0, 64), src=region(B, 0, 64), deps=[c])
)"),
                                      {}, {});
    const ScheduleReport report = check_schedule(program, {});
    for (const MemoryUse& use : report.memory) {
        if (use.level != Level::l2) continue;
        EXPECT_EQ(use.declared, 128u);
        EXPECT_EQ(use.peak_live, 64u);
    }
    EXPECT_EQ(report.memory.size(), 2u);
}

TEST(Findings, BytesReadAndWrittenInPlaceAreNeededOnce) {
    // relu in place: the slot holds either its input or its result.
    const BoundProgram program = bind(test::module_of(R"(buffer X : DDR (size = 64)
buffer T : L1[0] (size = 64)
a = transfer.async(dst=region(T, 0, 64), src=region(X, 0, 64))
let t = region(T, 0, 64) elem=i8, shape=[64], layout=C
r = relu.async in t out t deps=[a]
b = transfer.async(dst=region(X, 0, 64), src=region(T, 0, 64), deps=[r])
)"),
                                      {}, {});
    for (const MemoryUse& use : check_schedule(program, {}).memory) {
        if (use.level != Level::l1) continue;
        EXPECT_EQ(use.peak_live, 64u);
    }
}

TEST(Findings, AnAccumulatorInPlaceIsNotToldToUseOtherBytes) {
    // Each step adds to what the one before left: with bytes of its own each would have a part of the sum.
    const std::string accumulator = R"(buffer X : L2 (size = 64)
buffer S : L1[0] (size = 64)
let s = region(S, 0, 64) elem=i8, shape=[64], strides=[1]
a = transfer.async(dst=region(S, 0, 64), src=region(X, 0, 64))
loop k in [0..7] @max_in_flight(2):
    g = add.async in s, s out s deps=[a]
endloop
)";
    EXPECT_THAT(
        findings_of(accumulator, {}),
        AllOf(HasSubstr(
                  "Fix: write `#! deps g[k-1]` before `g`, which goes on from what it left in these bytes"),
              Not(HasSubstr("bytes of its own"))));
    // The same task on bytes that every iteration loads anew: there slots are right.
    const std::string loaded = R"(buffer X : L2 (size = 512)
buffer S : L1[0] (size = 64)
let s = region(S, 0, 64) elem=i8, shape=[64], strides=[1]
loop k in [0..7] @max_in_flight(2):
    a = transfer.async(dst=region(S, 0, 64), src=region(X, k * 64, 64))
    g = add.async in s, s out s deps=[a]
endloop
)";
    EXPECT_THAT(findings_of(loaded, {}), AllOf(HasSubstr("give each iteration in flight bytes of its own"),
                                               Not(HasSubstr("goes on from"))));
}

}  // namespace
}  // namespace kpu::analysis
