// Imbalance of the DRAM's channels: who camps where, and which interleave spreads it.
#include "explain/channels.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/explain/run.hpp"

namespace kpu::explain {
namespace {

using testing::HasSubstr;
using testing::Not;
using Rows = traces::StreamWork::Rows;

TEST(ChannelSpread, CountsTheChannelsThatRowsReach) {
    const Rows camping{100, 64, 8 * 256};
    EXPECT_EQ(spread_of(camping, 8, 256, 64).reached, 1u);
    EXPECT_DOUBLE_EQ(spread_of(camping, 8, 256, 64).most, 1);
    EXPECT_EQ(spread_of(camping, 8, 2048, 64).reached, 8u);
    const Rows two{100, 512, 8 * 256};  // rows of two blocks
    EXPECT_EQ(spread_of(two, 8, 256, 64).reached, 2u);
    EXPECT_DOUBLE_EQ(spread_of(two, 8, 256, 64).most, 0.5);
    EXPECT_EQ(spread_of({1, 65536, 0}, 8, 256, 64).reached, 8u);
}

// The nearest of the values that spread the rows best; no other than the present one when that does.
TEST(ChannelSpread, FindsTheInterleaveThatHelps) {
    EXPECT_EQ(best_interleave({128, 64, 8 * 256}, 8, 256, 64), 2048u);
    EXPECT_EQ(best_interleave({128, 64, 256}, 8, 256, 64), 256u);
    EXPECT_EQ(best_interleave({1, 1 << 20, 0}, 8, 1 << 20, 64), 131072u);
    for (const Rows& rows : {Rows{64, 64, 4096}, Rows{300, 256, 1024}, Rows{50, 64, 3 * 64}}) {
        const uint64_t best = best_interleave(rows, 4, 256, 64);
        EXPECT_LE(spread_of(rows, 4, best, 64).most, spread_of(rows, 4, 256, 64).most);
    }
}

std::string explained(int64_t stride, const std::string& interleave) {
    using namespace builder;
    Program p("columns");
    constexpr int64_t rows = 512, bytes = 64;
    const Buffer x = p.buffer("x", Level::ddr, rows * stride, 4096),
                 m = p.buffer("m", Level::l2, rows * bytes, 64);
    const Region source = p.region("s", x, 0, tensor(ElemType::i8, {rows, bytes}).strides({stride, 1}));
    p.transfer("load", p.region("d", m, 0, tensor(ElemType::i8, {rows, bytes})), source);
    const auto platform =
        platforms::load("tile32", {{"ddr.channels", "8"}, {"ddr.channel_interleave_bytes", interleave}});
    const auto run = test::traced_run(std::make_shared<Module>(p.build()), platform);
    const RunGraph graph(run.recording, "test");
    return text_of(graph, "", {});
}

// The run says which transfer camps, and its advice holds: with the value that it names it no longer does.
TEST(ChannelAdvice, NamesStrideInterleaveAndWhatHelps) {
    const std::string text = explained(2048, "256");
    EXPECT_THAT(
        text,
        HasSubstr("load: 512 rows of 64 bytes, 2,048 apart, in blocks of 256 bytes reach 1 of 8 channels; "
                  "ddr.channel_interleave_bytes=2048 reaches 8"));
    EXPECT_THAT(text, HasSubstr("DRAM channel imbalance"));
    EXPECT_THAT(explained(2048, "2048"), Not(HasSubstr("channel imbalance")));
}

}  // namespace
}  // namespace kpu::explain
