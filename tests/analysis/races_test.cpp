#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/schedule_check.hpp"
#include "isa/verify.hpp"
#include "tests/isa/sample_programs.hpp"

namespace kpu {
namespace {

using namespace builder;
using ::testing::HasSubstr;

std::string hazards(const Module& module) {
    Diagnostics diagnostics;
    const std::optional<BoundProgram> program = verify(std::make_shared<Module>(module), {}, {}, diagnostics);
    if (program) analysis::add_to(analysis::check_schedule(*program, {}), *program, diagnostics);
    return diagnostics.to_string();
}

/// Builds rows that go DDR -> L2 slot -> DDR in each of 8 iterations; `slots` buffers for `window` iterations
/// in flight.
Module pipeline(int64_t slots, int64_t window, bool with_token) {
    Program p("pipeline");
    const TensorType row = tensor(ElemType::i8, {64});
    const Buffer x = p.buffer("X", Level::ddr, 512), y = p.buffer("Y", Level::ddr, 512);
    const Buffer s = p.buffer("S", Level::l2, slots * 64);
    p.loop("i", 0, 7, window, [&](const Expr& i) {
        const Region slot = p.region("slot", s, i % slots * 64, row);
        const Task load = p.transfer("load", slot, p.region("src", x, i * 64, row));
        Task save = p.transfer("save", p.region("dst", y, i * 64, row), slot);
        if (with_token) save.after({load});
    });
    return p.build();
}

TEST(Schedule, WindowsAndTokensOrderSlots) {
    // As many slots as iterations in flight is safe; one slot fewer, or a missing token, is a hazard.
    EXPECT_EQ(hazards(pipeline(1, 1, true)), "");
    EXPECT_EQ(hazards(pipeline(2, 2, true)), "");
    EXPECT_EQ(hazards(pipeline(3, 2, true)), "");
    EXPECT_THAT(hazards(pipeline(1, 2, true)),
                HasSubstr("hazard (waw): task `load` (i=1) writes bytes 0..63 of L2 buffer `S` while task "
                          "`load` (i=0) writes them"));
    EXPECT_THAT(hazards(pipeline(2, 2, false)),
                HasSubstr("hazard (raw): task `save` (i=0) reads bytes 0..63 of L2 buffer `S` while task "
                          "`load` (i=0) writes them"));
}

TEST(Schedule, WaitAndSyncOrderTheRestOfTheThread) {
    // A wait or .sync orders later statements; without either the two writes race.
    const auto two = [](int how) {
        Program p("two");
        const TensorType row = tensor(ElemType::i8, {64});
        const Region a = p.region("a", p.buffer("A", Level::l2, 64), 0, row);
        const Region s = p.region("s", p.buffer("S", Level::ddr, 64), 0, row);
        Task first = p.transfer("first", a, s);
        if (how == 1) first.sync();
        if (how == 2) p.wait({first});
        p.transfer("second", a, s);
        const std::string found = hazards(p.build());
        return found.find("hazard") == std::string::npos ? std::string() : found;
    };
    EXPECT_THAT(
        two(0),
        HasSubstr(
            "hazard (waw): task `second` writes bytes 0..63 of L2 buffer `A` while task `first` writes"));
    EXPECT_EQ(two(1), "");
    EXPECT_EQ(two(2), "");
}

TEST(Schedule, TokensOfAFinishedLoopMeanAllIterations) {
    // After a loop its token stands for every iteration; the loop itself orders only all but the last N.
    const auto after = [](bool with_token, int64_t row_of_last) {
        Program p("after");
        const TensorType row = tensor(ElemType::i8, {64});
        const Buffer x = p.buffer("X", Level::ddr, 512), b = p.buffer("B", Level::l2, 512);
        std::vector<Task> load;
        p.loop("i", 0, 7, 2, [&](const Expr& i) {
            load.push_back(
                p.transfer("load", p.region("dst", b, i * 64, row), p.region("src", x, i * 64, row)));
        });
        Task save = p.transfer("save", p.region("back", p.buffer("Y", Level::ddr, 64), 0, row),
                               p.region("read", b, row_of_last * 64, row));
        if (with_token) save.after(load);
        return hazards(p.build());
    };
    EXPECT_EQ(after(true, 7), "");
    EXPECT_EQ(after(false, 5), "");
    EXPECT_THAT(after(false, 6), HasSubstr("task `load` (i=6) writes them"));
}

TEST(Schedule, GapsOfStridedRegionsAreFree) {
    // Interleaved columns written without order share no byte.
    Program p("columns");
    const Buffer b = p.buffer("B", Level::l2, 64), x = p.buffer("X", Level::ddr, 64);
    for (int64_t k = 0; k < 2; ++k) {
        const std::string n = std::to_string(k);
        p.transfer("", p.region("d" + n, b, k * 4, tensor(ElemType::i8, {8, 4}).strides({8, 1})),
                   p.region("s" + n, x, k * 32, tensor(ElemType::i8, {8, 4})));
    }
    EXPECT_EQ(hazards(p.build()), "");
}

TEST(Schedule, LongTextsAreFollowed) {
    // 40,000 tasks written out, two slots: all in order, and one missing token among them is found.
    const auto written_out = [](int without) {
        Program p("long");
        const TensorType row = tensor(ElemType::i8, {64});
        const Buffer x = p.buffer("X", Level::ddr, 64), y = p.buffer("Y", Level::ddr, 64);
        const Buffer s = p.buffer("S", Level::l2, 128);
        const Region from = p.region("from", x, 0, row), to = p.region("to", y, 0, row);
        const Region slots[] = {p.region("even", s, 0, row), p.region("odd", s, 64, row)};
        std::vector<Task> saved;
        for (int i = 0; i < 20000; ++i) {
            Task load = p.transfer("load" + std::to_string(i), slots[i % 2], from);
            if (i >= 2 && i != without) load.after({saved[static_cast<size_t>(i) - 2]});
            Task save = p.transfer("save" + std::to_string(i), to, slots[i % 2]).after({load});
            if (i >= 1) save.after({saved.back()});
            saved.push_back(save);
        }
        Diagnostics diagnostics;
        const BoundProgram program = *verify(std::make_shared<Module>(p.build()), {}, {}, diagnostics);
        std::vector<std::string> races;
        for (const analysis::Finding& finding : analysis::check_schedule(program, {}).findings)
            if (finding.severity != Severity::info) races.push_back(finding.message);
        return races;
    };
    EXPECT_TRUE(written_out(-1).empty());
    const std::vector<std::string> races = written_out(15000);
    ASSERT_FALSE(races.empty());
    EXPECT_THAT(races[0], HasSubstr("add `save14998` to the deps of `load15000`"));
}

TEST(Schedule, ManyPairsAreDecided) {
    // Columns that many tasks of a loop write side by side: thousands of pairs that only a proof decides, to the last one,
    // which overlaps its neighbour or does not.
    const auto columns = [](int64_t last) {
        Program p("columns");
        const Buffer b = p.buffer("B", Level::l2, 2 * 256 * 512), x = p.buffer("X", Level::ddr, 64);
        p.loop("i", 0, 4096, 2, [&](const Expr& i) {
            for (int64_t k = 0; k < 90; ++k) {
                const std::string n = std::to_string(k);
                p.transfer("t" + n,
                           p.region("d" + n, b, i % 256 * 512 + (k == 89 ? last : k * 4),
                                    tensor(ElemType::i8, {2, 4}).strides({256 * 512, 1})),
                           p.region("s" + n, x, 0, tensor(ElemType::i8, {2, 4})));
            }
        });
        return hazards(p.build());
    };
    EXPECT_EQ(columns(89 * 4), "");
    EXPECT_THAT(columns(89 * 4 - 1), HasSubstr("`t89`"));
}

TEST(Schedule, HugeLoopsEnd) {
    // A loop of 2^40 iterations, with or without tasks, is looked at in bounded time.
    Program p("huge");
    p.loop("i", 0, int64_t{1} << 40, 2, [](const Expr&) {});
    const TensorType row = tensor(ElemType::i8, {64});
    const Buffer x = p.buffer("X", Level::ddr, 64), y = p.buffer("Y", Level::l2, 128);
    p.loop("j", 0, int64_t{1} << 40, 2, [&](const Expr& j) {
        p.transfer("t", p.region("d", y, j % 2 * 64, row), p.region("s", x, 0, row));
    });
    EXPECT_EQ(hazards(p.build()), "");
}

}  // namespace
}  // namespace kpu
