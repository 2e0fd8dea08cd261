// DDR5's same-bank refresh: one bank of every group at a time, while the others go on.
#include <gtest/gtest.h>

#include "support.hpp"

namespace kpu::dram {
namespace {

/// Same-bank refreshes by set, and commands to banks that are being refreshed.
class SameBank final : public CommandObserver {
  public:
    explicit SameBank(const Config& config) : banks_(config.geometry.banks_per_group), t_(config.timing) {}
    void on_command(const IssuedCommand& c) override {
        EXPECT_NE(c.command, Command::refresh);
        if (c.command == Command::refresh_same) {
            order.push_back(c.bank % banks_);
            last_ = c;
        }
        if (c.command != Command::read || order.empty() || c.time >= last_.time + t_.trfc_sb) return;
        EXPECT_NE(c.bank % banks_, last_.bank % banks_);
        ++reads_meanwhile;
    }
    std::vector<uint32_t> order;
    uint64_t reads_meanwhile = 0;

  private:
    uint32_t banks_;
    Timing t_;
    IssuedCommand last_{};
};

/// Every bank of a group has its turn, and reads of other banks go on meanwhile.
TEST(SameBankRefresh, GoesRoundWhileOthersWork) {
    const Config config = config_of("DDR5-4800");
    SameBank seen(config);
    replay_pattern({config}, "DDR5-4800", "rnd_rd", 20000, &seen);
    ASSERT_GT(seen.order.size(), 8u);
    for (size_t i = 0; i < seen.order.size(); ++i) EXPECT_EQ(seen.order[i], i % 4);
    EXPECT_GT(seen.reads_meanwhile, seen.order.size());
}

/// A random stream loses less to refreshes of one bank than to those of all banks.
TEST(SameBankRefresh, CostsLessThanAllBanks) {
    Config all = config_of("DDR5-4800");
    all.timing.refresh_sets = 1;
    all.timing.trfc_sb = 0;
    const auto cycles = [](const Config& config) {
        return replay_pattern({config}, "DDR5-4800", "rnd_rd", 20000).cycles;
    };
    EXPECT_LT(cycles(config_of("DDR5-4800")), cycles(all));
}

/// Refreshes of single banks cost a stream something, and less than those that stop all banks would.
TEST(SameBankRefresh, StreamsRunBetweenTheBusAndAllBanks) {
    constexpr uint64_t bursts = 20000;
    const Config config = config_of("DDR5-4800");
    const Timing& t = config.timing;
    const double stream = std::max(t.tccd_s, t.burst);
    const double awake = 1 - static_cast<double>(t.trfc + t.trp_ab + t.trcd_rd) / t.trefi;
    for (const char* pattern : {"seq_rd", "seq_wr"}) {
        const double clocks =
            static_cast<double>(replay_pattern({config}, "DDR5-4800", pattern, bursts).cycles) / bursts;
        EXPECT_GT(clocks, stream) << pattern;
        EXPECT_LT(clocks, stream / awake) << pattern;
    }
}

/// An idle memory is not stepped: a long gap gives the refreshes that steps would have given.
TEST(SameBankRefresh, IdlePeriodsAreCounted) {
    const Config config = config_of("DDR5-4800");
    Channel skips(config), steps(config);
    const uint64_t interval = config.timing.refresh_interval(), end = 1000 * interval + interval / 2;
    skips.advance(end);
    for (uint64_t time = 0; time <= end; time += interval / 4) steps.advance(time);
    steps.advance(end);
    EXPECT_EQ(skips.counters(end).refreshes, 1000u);
    EXPECT_EQ(steps.counters(end).refreshes, 1000u);
}

}  // namespace
}  // namespace kpu::dram
