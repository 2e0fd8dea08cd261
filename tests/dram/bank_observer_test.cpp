// Use of banks by requests, told from the commands of a channel.
#include "model/dram/bank_observer.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <optional>

#include "tests/dram/support.hpp"

namespace kpu::dram {
namespace {

using traces::BankUse;

/// Counts uses, and judges each burst by what it knows of rows itself.
class Judge final : public BankObserver {
  public:
    explicit Judge(const Config& config) : BankObserver(config.geometry) {}
    uint64_t reads = 0, writes = 0, activates = 0, hits = 0, misses = 0, conflicts = 0, turned = 0;
    std::map<uint32_t, uint64_t> by_source;

  private:
    void on_use(const BankUse& use, const IssuedCommand& command) override {
        EXPECT_EQ(BankUse::of_code(use.code())->code(), use.code());
        if (use.kind == BankUse::Kind::activate) {
            ++activates;
            row_[command.bank] = command.row;
            first_[command.bank] = true;
            EXPECT_NE(use.row, BankUse::Row::hit);
            return;
        }
        const bool write = use.kind == BankUse::Kind::write;
        ++(write ? writes : reads);
        ++by_source[command.source];
        // traces here say in `source` to which row the burst goes
        EXPECT_EQ(command.source, row_[command.bank]);
        EXPECT_EQ(use.row == BankUse::Row::hit, !first_[command.bank]);
        first_[command.bank] = false;
        ++(use.row == BankUse::Row::hit ? hits : use.row == BankUse::Row::miss ? misses : conflicts);
        EXPECT_EQ(use.turned, last_.has_value() && *last_ != write);
        turned += use.turned ? 1 : 0;
        last_ = write;
    }
    std::map<uint32_t, uint32_t> row_;
    std::map<uint32_t, bool> first_;
    std::optional<bool> last_;
};

/// Returns random bursts to few rows, reads and writes, whose source is their row.
ListTrace random_trace(const AddressMap& map, uint32_t channels, uint64_t count) {
    std::vector<TraceRequest> requests;
    uint64_t x = 88172645463325252u;
    for (uint64_t i = 0; i < count; ++i) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        TraceRequest request;
        request.address = (x >> 20) % (uint64_t{1} << 22) / 64 * 64;
        request.is_write = x % 5 < 2;
        request.time = i * 3 / 2 + (i / 500) * 20000;
        const uint64_t block = request.address / 256;
        request.source = map.place(block / channels * 256 + request.address % 256).row;
        requests.push_back(request);
    }
    return ListTrace(requests);
}

/// On every kind of device and refresh, with several ranks and channels: sums are the channel's own counters, and each
/// burst, written ones long after they were answered too, is charged to who asked for it.
TEST(BankObserver, SumsAndSourcesAreExact) {
    for (const char* device : {"DDR4-3200", "LPDDR4-3200", "HBM2-2000", "LPDDR5-6400", "DDR5-4800"}) {
        for (const uint32_t channels : {1u, 2u}) {
            for (const uint32_t ranks : {1u, 2u}) {
                if (ranks > 1 && std::string(device) == "DDR5-4800") continue;  // 64 banks at most
                const ReplayConfig config{config_of(device, "row_bank_column", ranks), channels};
                ListTrace trace = random_trace(config.channel.map, channels, 6000);
                std::deque<Judge> judges;
                std::vector<CommandObserver*> observers;
                for (uint32_t c = 0; c < channels; ++c)
                    observers.push_back(&judges.emplace_back(config.channel));
                const ReplayResult result = replay(config, trace, observers);
                for (uint32_t c = 0; c < channels; ++c) {
                    const Judge& judge = judges[c];
                    const Counters& counters = result.channels[c];
                    EXPECT_EQ(judge.reads, counters.reads) << device;
                    EXPECT_EQ(judge.writes, counters.writes);
                    EXPECT_EQ(judge.activates, counters.activates);
                    EXPECT_EQ(judge.hits, counters.row_hits);
                    EXPECT_EQ(judge.hits + judge.misses + judge.conflicts, judge.reads + judge.writes);
                    EXPECT_GT(judge.conflicts, 0u);
                    EXPECT_GT(judge.misses, 0u);
                    EXPECT_GT(judge.turned, 0u);
                    EXPECT_GT(judge.by_source.size(), 3u);
                }
            }
        }
    }
}

/// Checks that an observer changes nothing.
TEST(BankObserver, ChangesNoFigure) {
    const ReplayConfig config{config_of("DDR4-3200")};
    ListTrace watched = random_trace(config.channel.map, 1, 3000), alone = watched;
    Judge judge(config.channel);
    const ReplayResult a = replay(config, watched, {&judge}), b = replay(config, alone);
    EXPECT_EQ(a.cycles, b.cycles);
    EXPECT_EQ(a.counters.row_hits, b.counters.row_hits);
    EXPECT_EQ(a.read_latency.average, b.read_latency.average);
}

/// A row that a refresh closed is a miss, one that another row's burst closed a conflict.
TEST(BankObserver, TellsMissFromConflict) {
    const Config config = config_of("DDR4-3200");
    const uint64_t stride = row_stride("DDR4-3200"), long_after = 3 * uint64_t{config.timing.trefi};
    ListTrace trace({{0, 0, false, 1, false, 0},
                     {0, 64 * 4, false, 2, false, 0},
                     {500, stride, false, 3, false, 1},
                     {long_after, stride, false, 4, false, 1}});
    Judge judge(config);
    replay({config}, trace, {&judge});
    EXPECT_EQ(judge.hits, 1u);  // the second burst of row 0: bank group by bank group, it is the same bank
    EXPECT_EQ(judge.conflicts, 1u);  // row 1 of the same bank
    EXPECT_EQ(judge.misses, 2u);     // at the start, and after refreshes
}

TEST(BankUse, UnknownCodesAreNone) {
    for (const int code : {3, 7, 12, 32, 255}) EXPECT_FALSE(BankUse::of_code(static_cast<uint8_t>(code)));
}

}  // namespace
}  // namespace kpu::dram
