// Savings of a change, by simulation: which changes there are, and what becomes of those that do not hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/what_if/simulate.hpp"
#include "tests/explain/run.hpp"

namespace kpu::what_if {
namespace {

using explain::test::example;
using explain::test::module_of;
using explain::test::traced_run;
using testing::HasSubstr;

Case case_of(std::shared_ptr<const Module> module) {
    return {std::move(module), platforms::load("npm_lite"), {}};
}

const Outcome& find(const Answers& answers, const std::string& words) {
    const auto found = std::find_if(answers.outcomes.begin(), answers.outcomes.end(),
                                    [&](const Outcome& outcome) { return outcome.words == words; });
    if (found == answers.outcomes.end()) throw std::runtime_error("no change: " + words);
    return *found;
}

/// Cycles of a change are those of the program and platform with that change, written by hand.
TEST(WhatIfSimulated, EqualsTheChangeByHand) {
    const Case base = case_of(example("gemm_relu"));
    const Cycles cycles = traced_run(base.module, base.platform).total();
    const Answers answers = simulate_changes(base, cycles, 600);
    ASSERT_EQ(answers.skipped, "");
    EXPECT_EQ(answers.cycles, cycles);
    const auto lanes = platforms::load("npm_lite", {{"system_dma.bytes_per_cycle", "128"}});
    EXPECT_EQ(find(answers, "system DMA 2 times faster").cycles, traced_run(base.module, lanes).total());
    std::string text = read_file(std::string(KPUSIM_SOURCE_DIR) + "/examples/gemm_relu/gemm_relu.nem");
    const std::string before = "const ahead = 4 ";
    text.replace(text.find(before), before.size(), "const ahead = 5 ");
    EXPECT_EQ(find(answers, "`ahead` 5 instead of 4").cycles,
              traced_run(module_of(text), base.platform).total());
}

/// Most cycles saved first, those that do not hold last; a window without its slots makes a race, and says so.
TEST(WhatIfSimulated, RanksAndRefuses) {
    const Case base = case_of(example("gemm_relu"));
    const Cycles cycles = traced_run(base.module, base.platform).total();
    const Answers answers = simulate_changes(base, cycles, 600);
    bool problems = false;
    Cycles last = 0;
    for (const Outcome& outcome : answers.outcomes) {
        EXPECT_EQ(outcome.cycles.has_value(), outcome.problem.empty()) << outcome.words;
        if (!outcome.cycles) {
            problems = true;
            continue;
        }
        EXPECT_FALSE(problems) << outcome.words;
        EXPECT_GE(*outcome.cycles, last);
        last = *outcome.cycles;
    }
    EXPECT_THAT(find(answers, "loop t: 3 iterations in flight instead of 2").problem, HasSubstr("race"));
    EXPECT_LT(*find(answers, "DRAM 64 times faster").cycles, cycles);
    EXPECT_THAT(text_of(answers), HasSubstr("saves"));
}

/// A literal window and the slots that it goes round are changed together, with the buffer that holds them.
TEST(WhatIfSimulated, SlotsGrowWithTheWindow) {
    Case base = case_of(module_of(R"(
buffer x : DDR (size = 65536, align = 64)
buffer y : DDR (size = 65536, align = 64)
buffer m : L2 (size = 8192, align = 64)
loop i in [0..15] @max_in_flight(2):
    a = transfer.async(dst=region(m, (i mod 2) * 4096, 4096), src=region(x, i * 4096, 4096))
    b = transfer.async(dst=region(y, i * 4096, 4096), src=region(m, (i mod 2) * 4096, 4096), deps=[a])
endloop
)"));
    platforms::apply_override(base.platform, "system_dma.channels", "2");  // a load beside a store
    const Cycles cycles = traced_run(base.module, base.platform).total();
    const Answers answers = simulate_changes(base, cycles, 600);
    ASSERT_EQ(answers.skipped, "");
    EXPECT_TRUE(find(answers, "loop i: 3 iterations in flight and as many slots instead of 2").cycles);
    EXPECT_THAT(find(answers, "loop i: 3 iterations in flight instead of 2").problem, HasSubstr("race"));
    EXPECT_GT(*find(answers, "loop i: 1 iterations in flight instead of 2").cycles, cycles);
}

/// A parameter that is the amount of work answers nothing; one that is a tile does.
TEST(WhatIfSimulated, OtherWorkIsNoSaving) {
    const Case base = case_of(module_of(R"(
#! param N = 8 in [1..16]
#! param T = 1024 in [256..4096]
buffer x : DDR (size = 65536, align = 64)
buffer y : DDR (size = 65536, align = 64)
buffer m : L2 (size = 65536, align = 64)
loop i in [0..16384 / T - 1]:
    a = transfer.async(dst=region(m, i * T, T), src=region(x, i * T, T))
    b = transfer.async(dst=region(y, i * T, T), src=region(m, i * T, T), deps=[a])
endloop
loop j in [0..N - 1]:
    c = transfer.async(dst=region(m, 32768, 256), src=region(x, 32768, 256))
    d = transfer.async(dst=region(y, 32768 + j * 256, 256), src=region(m, 32768, 256), deps=[c])
endloop
)"));
    const Cycles cycles = traced_run(base.module, base.platform).total();
    const Answers answers = simulate_changes(base, cycles, 600);
    ASSERT_EQ(answers.skipped, "");
    EXPECT_EQ(find(answers, "parameter N 4 instead of 8").problem, "is other work");
    EXPECT_LT(find(answers, "parameter T 2048 instead of 1024").cycles.value_or(cycles), cycles);
}

/// Nothing is simulated that would take too long, nor of a run that program and platform do not repeat.
TEST(WhatIfSimulated, SaysWhyItIsSkipped) {
    const Case base = case_of(example("gemm_relu"));
    const Cycles cycles = traced_run(base.module, base.platform).total();
    EXPECT_THAT(simulate_changes(base, cycles, 1e-6).skipped, HasSubstr("more than"));
    EXPECT_THAT(simulate_changes(base, cycles + 1, 600).skipped, HasSubstr("do not take the run's"));
    EXPECT_TRUE(simulate_changes(base, cycles + 1, 600).outcomes.empty());
}

}  // namespace
}  // namespace kpu::what_if
