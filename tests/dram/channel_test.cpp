// Behaviour of a channel: order, queues, refresh, power states, saturated rates, and what more of anything
// does to time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <tuple>

#include "base/diagnostics.hpp"
#include "model/dram/energy.hpp"
#include "model/dram/request_queue.hpp"
#include "tests/dram/support.hpp"

namespace kpu::dram {
namespace {

const char* const patterns[] = {"seq_rd", "seq_wr", "tile_rd",  "two_rd",
                                "mix21",  "rnd_rd", "conflict", "gaps_rd"};

double clocks_per_burst(const ReplayResult& result, uint64_t bursts) {
    return static_cast<double>(result.cycles) / static_cast<double>(bursts);
}

/// A read of an open row in an idle channel takes CL + burst + 2 clocks.
TEST(DramChannel, IdleRowHitTakesCasLatencyAndBurstAndTwo) {
    for (const std::string& device : platforms::ddr_device_names()) {
        const Config config = config_of(device);
        Channel channel(config);
        channel.push({0, 0, false, 0});
        channel.advance(1000);
        channel.push({1000, 0, false, 1});
        channel.advance(2000);
        ASSERT_EQ(channel.completions().size(), 2u);
        const Completion& hit = channel.completions()[1];
        EXPECT_EQ(hit.done - hit.arrival, config.timing.cl + config.timing.burst + 2u) << device;
        EXPECT_EQ(hit.activates, 0u);
        EXPECT_EQ(hit.waits.row + hit.waits.busy + hit.waits.refresh + hit.waits.turn_around, 0u);
    }
}

/// However many younger bursts go by, the oldest is known; it hits once its row is open.
TEST(DramQueue, KnowsTheOldestBurst) {
    constexpr uint32_t first_bank = 0, busy_bank = 1, first_row = 7, busy_row = 3;
    RequestQueue queue(4);
    EXPECT_TRUE(queue.empty());
    const auto push = [&](uint32_t bank, uint32_t row, uint32_t open_row) {
        Entry entry;
        entry.row = row;
        queue.push(bank, open_row, entry);
    };
    push(first_bank, first_row, ~0u);
    for (int i = 0; i < 1000; ++i) {
        push(busy_bank, busy_row, busy_row);
        push(busy_bank, busy_row, busy_row);
        EXPECT_EQ(queue.bank_of(queue.oldest()), first_bank);
        EXPECT_EQ(queue.list(first_bank).hit, RequestQueue::none);
        queue.pop_hit(busy_bank);
        queue.pop_hit(busy_bank);
    }
    queue.open(first_bank, first_row);
    EXPECT_EQ(queue.bank_of(queue.oldest()), first_bank);
    EXPECT_EQ(queue.list(first_bank).hit, queue.oldest());
    push(busy_bank, busy_row, busy_row);
    EXPECT_EQ(queue.size(), 2u);
    queue.pop_hit(first_bank);
    EXPECT_EQ(queue.bank_of(queue.oldest()), busy_bank);
    EXPECT_EQ(queue.list(busy_bank).hit, queue.oldest());
    queue.pop_hit(busy_bank);
    EXPECT_TRUE(queue.empty());
}

/// Takes every command: then each refresh of an idle rank is stepped.
class Listener final : public CommandObserver {
  public:
    void on_command(const IssuedCommand& command) override {
        if (command.command == Command::refresh || command.command == Command::refresh_same) ++refreshes;
    }
    uint64_t refreshes = 0;
};

/// Refreshes of a long pause are counted instead of stepped: everything that comes of them is the same.
TEST(DramChannel, ALongPauseIsAsIfStepped) {
    for (const std::string& device : platforms::ddr_device_names()) {
        for (const uint32_t ranks : {1u, 2u, 4u}) {
            if (ranks * config_of(device).geometry.banks() > max_banks) continue;
            for (const auto& [power_down, self_refresh] :
                 std::vector<std::pair<uint32_t, uint32_t>>{{0, 0}, {50, 0}, {50, 3'000'000}, {0, 9999}}) {
                SCOPED_TRACE(fmt::format("{} ranks {} pd {} sr {}", device, ranks, power_down, self_refresh));
                ReplayConfig config{config_of(device, "bank_group_interleaved", ranks)};
                config.channel.policy.power_down_nck = power_down;
                config.channel.policy.self_refresh_nck = self_refresh;
                std::mt19937_64 random(ranks + power_down);
                std::vector<TraceRequest> requests;
                uint64_t time = 0;
                for (int i = 0; i < 60; ++i) {
                    if (i % 6 == 5) time += config.channel.timing.trefi * (random() % 900) + random() % 9999;
                    time += random() % 20;
                    const uint64_t address = random() % config.channel.geometry.bytes();
                    requests.push_back({time, address, random() % 3 == 0, 0});
                }
                ListTrace counted(requests), stepped(requests);
                Listener listener;
                const ReplayResult a = replay(config, counted), b = replay(config, stepped, {&listener});
                EXPECT_EQ(a.cycles, b.cycles);
                EXPECT_EQ(a.counters.refreshes, b.counters.refreshes);
                EXPECT_EQ(a.counters.refreshes, listener.refreshes);
                EXPECT_EQ(a.counters.precharges, b.counters.precharges);
                EXPECT_EQ(a.counters.activates, b.counters.activates);
                EXPECT_EQ(a.counters.row_hits, b.counters.row_hits);
                EXPECT_EQ(a.counters.rank_times, b.counters.rank_times);
                EXPECT_EQ(a.read_latency.average, b.read_latency.average);
                EXPECT_EQ(a.read_latency.most, b.read_latency.most);
                EXPECT_EQ(a.waits.refresh, b.waits.refresh);
                EXPECT_EQ(a.waits.row, b.waits.row);
            }
        }
    }
}

/// A pause of 11 days takes no time, and has one refresh of each rank per interval.
TEST(DramChannel, ElevenDaysAreCountedAtOnce) {
    for (const std::string& device : platforms::ddr_device_names()) {
        const ReplayConfig config{config_of(device)};
        const auto pause = static_cast<uint64_t>(1e15 / config.channel.timing.tck_ns);
        ListTrace trace({{0, 0, false, 0}, {pause, 0, false, 0}});
        const ReplayResult result = replay(config, trace);
        EXPECT_GE(result.cycles, pause);
        EXPECT_NEAR(static_cast<double>(result.counters.refreshes),
                    static_cast<double>(pause / config.channel.timing.refresh_interval()), 2);
        uint64_t sum = 0;
        for (const uint64_t time : result.counters.rank_times) sum += time;
        EXPECT_EQ(sum, result.cycles);
    }
}

/// A stream runs at max(burst, tCCD of its mapping) plus refresh; conflicts of one bank cost tRC each; random
/// reads at least max(tFAW / 4, tRRD_S).
TEST(DramChannel, SaturatedRatesAreTheirClosedForms) {
    constexpr uint64_t bursts = 20000;
    for (const std::string& device : platforms::ddr_device_names()) {
        SCOPED_TRACE(device);
        const ReplayConfig config{config_of(device)};
        const Timing& t = config.channel.timing;
        if (t.refresh_sets > 1) continue;  // same_bank_test.cpp
        const double awake = 1 - static_cast<double>(t.trfc + t.trp_ab + t.trcd_rd) / t.trefi;
        const double stream = std::max(t.tccd_s, t.burst) / awake;
        EXPECT_NEAR(clocks_per_burst(replay_pattern(config, device, "seq_rd", bursts), bursts) / stream, 1,
                    0.02);
        EXPECT_NEAR(clocks_per_burst(replay_pattern(config, device, "seq_wr", bursts), bursts) / stream, 1,
                    0.03);
        const double no_data = 1 - static_cast<double>(t.trfc + t.trp_ab) / t.trefi;
        EXPECT_NEAR(
            clocks_per_burst(replay_pattern(config, device, "conflict", bursts), bursts) / (t.trc / no_data),
            1, 0.02);
        EXPECT_GE(clocks_per_burst(replay_pattern(config, device, "rnd_rd", bursts), bursts),
                  std::max(t.tfaw / 4.0, 1.0 * t.trrd_s));
        // one bank group only: tCCD_L
        std::vector<TraceRequest> one_group;
        for (uint64_t i = 0; i < bursts; ++i)
            one_group.push_back({0, i * 64 * config.channel.geometry.groups % 8192, false, 0});
        ListTrace trace(one_group);
        EXPECT_NEAR(clocks_per_burst(replay(config, trace), bursts) / (std::max(t.tccd_l, t.burst) / awake),
                    1, 0.02);
    }
}

/// Little's law: with n reads outstanding, throughput is n / latency, until the bus is full.
TEST(DramChannel, ThroughputFollowsLittlesLaw) {
    for (const uint32_t outstanding : {1u, 2u, 3u, 4u, 5u, 6u}) {
        ReplayConfig config{config_of("DDR4-3200")};
        config.max_outstanding = outstanding;
        const ReplayResult result = replay_pattern(config, "DDR4-3200", "seq_rd", 8000);
        const double per_burst = clocks_per_burst(result, 8000);
        EXPECT_NEAR(per_burst * outstanding / result.read_latency.average, 1, 0.02) << outstanding;
    }
}

/// Sees when refreshes go.
class RefreshTimes final : public CommandObserver {
  public:
    void on_command(const IssuedCommand& c) override {
        if (c.command == Command::refresh || c.command == Command::refresh_same) times.push_back(c.time);
    }
    std::vector<uint64_t> times;
};

/// Refreshes come every tREFI, whatever the traffic, also without any: never before they are due, and once
/// due as soon as the banks can be precharged.
TEST(DramChannel, RefreshesAreOnTime) {
    for (const std::string& device : platforms::ddr_device_names()) {
        const Config config = config_of(device);
        const Timing& t = config.timing;
        const uint64_t latest = t.tras + t.cwl + t.burst + t.twr + t.trp_ab + t.trc;
        for (const char* pattern : patterns) {
            SCOPED_TRACE(device + " " + pattern);
            RefreshTimes refreshes;
            const ReplayResult result = replay_pattern({config}, device, pattern, 5000, &refreshes);
            EXPECT_NEAR(static_cast<double>(result.counters.refreshes),
                        std::floor(static_cast<double>(result.cycles) / t.refresh_interval()), 1);
            for (size_t i = 0; i < refreshes.times.size(); ++i) {
                EXPECT_GE(refreshes.times[i], (i + 1) * t.refresh_interval());
                EXPECT_LE(refreshes.times[i], (i + 1) * t.refresh_interval() + latest);
            }
        }
        Channel idle(config);
        idle.advance(100 * uint64_t{t.refresh_interval()} + 1 + t.trp_ab);
        EXPECT_EQ(idle.counters(idle.now()).refreshes, 100u);
    }
}

/// The four parts of a wait and the least latency add up to the latency of each read.
TEST(DramChannel, WaitsAddUpToLatency) {
    for (const std::string& device : platforms::ddr_device_names()) {
        const Config config = config_of(device);
        for (const char* pattern : {"seq_rd", "mix21", "rnd_rd", "conflict", "gaps_rd"}) {
            const ReplayResult r = replay_pattern({config}, device, pattern, 5000);
            const double waits = r.waits.row + r.waits.refresh + r.waits.turn_around + r.waits.busy;
            EXPECT_NEAR(waits + config.timing.cl + config.timing.burst + 2, r.read_latency.average,
                        1e-9 * r.cycles);
            EXPECT_GT(r.waits.busy, 0) << pattern;
            if (std::string(pattern) == "rnd_rd") {
                EXPECT_GT(r.waits.row, config.timing.trcd_rd);
            }
            EXPECT_EQ(r.waits.turn_around > 0, std::string(pattern) == "mix21");
            EXPECT_GT(r.waits.refresh, 0);
        }
    }
}

/// Every request is served once, by the bank and row of its address, also from several channels.
TEST(DramChannel, EveryBurstIsServedOnceByItsBank) {
    class Count final : public CommandObserver {
      public:
        void on_command(const IssuedCommand& c) override {
            if (c.command == Command::activate) open_[c.bank] = c.row;
            if (c.command == Command::read) ++bursts[{c.bank, open_[c.bank]}];
        }
        std::map<std::pair<uint32_t, uint32_t>, int> bursts;

      private:
        std::map<uint32_t, uint32_t> open_;
    } count;
    const Config config = config_of("HBM2-2000");
    replay_pattern({config}, "HBM2-2000", "rnd_rd", 5000, &count);
    std::map<std::pair<uint32_t, uint32_t>, int> expected;
    const Pattern pattern("rnd_rd", 5000, 0);
    for (uint64_t i = 0; i < 5000; ++i) {
        // HBM2: bg[1:0] col[6:2] ba[8:7] row[23:9]
        const uint64_t a = pattern.burst(i).address >> 6;
        ++expected[{static_cast<uint32_t>((a & 3) * 4 + (a >> 7 & 3)),
                    static_cast<uint32_t>(a >> 9 & 0x7fff)}];
    }
    EXPECT_EQ(count.bursts, expected);
    ReplayConfig three{config, 3};
    const ReplayResult result = replay_pattern(three, "HBM2-2000", "mix21", 6000);
    EXPECT_EQ(result.counters.reads, 4000u);
    EXPECT_EQ(result.counters.writes, 2000u);
    EXPECT_EQ(result.channels.size(), 3u);
}

/// A request of several bursts is the requests of its bursts: the same commands, and answered with the last.
TEST(DramChannel, ARequestIsItsBursts) {
    class Log final : public CommandObserver {
      public:
        void on_command(const IssuedCommand& c) override {
            commands.emplace_back(c.time, static_cast<int>(c.command), c.rank, c.bank, c.row);
        }
        std::vector<std::tuple<uint64_t, int, uint32_t, uint32_t, uint32_t>> commands;
    };
    const auto merge = [](Completion& all, const Completion& one) {
        all.done = std::max(all.done, one.done);
        all.waits.row = std::max(all.waits.row, one.waits.row);
        all.waits.refresh = std::max(all.waits.refresh, one.waits.refresh);
        if (one.waits.busy + one.waits.turn_around < all.waits.busy + all.waits.turn_around) {
            all.waits.busy = one.waits.busy;
            all.waits.turn_around = one.waits.turn_around;
        }
        all.bursts += one.bursts;
        all.activates += one.activates;
    };
    const auto key = [](const Completion& c) {
        return std::make_tuple(c.tag, c.arrival, c.done, c.waits.row, c.waits.refresh, c.waits.turn_around,
                               c.waits.busy, c.bursts, c.activates, c.is_write);
    };
    for (uint32_t seed = 0; seed < 60; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937_64 random(seed);
        const std::vector<std::string> devices = platforms::ddr_device_names();
        Config config =
            config_of(devices[random() % devices.size()],
                      random() % 2 == 0 ? "bank_group_interleaved" : "row_bank_column", 1u << random() % 2);
        config.policy.read_queue = 1 + static_cast<uint32_t>(random() % 40);
        config.policy.row_hit_cap = 1 + static_cast<uint32_t>(random() % 20);
        if (random() % 3 == 0) config.policy.power_down_nck = 50;
        if (random() % 3 == 0) config.policy.self_refresh_nck = 600;
        const uint64_t burst = config.geometry.burst_bytes, rows = random() % 3 == 0 ? 2 : 64;
        Channel whole(config), single(config);
        Log whole_log, single_log;
        whole.observe(&whole_log);
        single.observe(&single_log);
        std::map<uint64_t, Completion> merged;
        uint64_t time = 0;
        for (uint64_t tag = 0; tag < 500; ++tag) {
            time += random() % (random() % 50 == 0 ? 3 * config.timing.trefi : 40);
            const auto bursts = static_cast<uint32_t>(1 + random() % 8);
            const uint64_t address = random() % rows * 131072 + random() % 32 * burst;
            const bool is_write = random() % 3 == 0;
            for (Channel* channel : {&whole, &single}) channel->advance(time);
            whole.post({time, address, is_write, tag, bursts});
            for (uint32_t i = 0; i < bursts; ++i) single.post({time, address + i * burst, is_write, tag});
            EXPECT_EQ(whole.waiting(), single.waiting());
        }
        for (Channel* channel : {&whole, &single}) channel->advance_to_idle(never / 2);
        EXPECT_EQ(whole_log.commands, single_log.commands);
        for (const Completion& c : single.completions()) {
            const auto [first, is_new] = merged.try_emplace(c.tag, c);
            if (!is_new) merge(first->second, c);
        }
        ASSERT_EQ(whole.completions().size(), merged.size());
        for (const Completion& c : whole.completions()) EXPECT_EQ(key(c), key(merged.at(c.tag)));
    }
}

/// The activities hold every burst's data once and every refresh, in order of time.
TEST(DramChannel, ActivitiesAreTheBusAndTheRefreshes) {
    for (const std::string& device : platforms::ddr_device_names()) {
        SCOPED_TRACE(device);
        const Config config = config_of(device);
        const Timing& t = config.timing;
        Channel channel(config);
        std::vector<Activity> activities;
        channel.record_activities(&activities);
        channel.push({10, 0, false, 0});
        channel.advance(1000);
        EXPECT_TRUE(activities.empty()) << "more data may follow back to back";
        std::mt19937_64 random(1);
        for (uint64_t time = 1000; time < 6 * uint64_t{t.trefi}; time += random() % 300) {
            channel.advance(time);
            channel.post({time, random() % 4096 * 64, random() % 2 == 0, 1, 4});
        }
        channel.advance_to_idle(never / 2);
        channel.record_activities(nullptr);
        const Counters counters = channel.counters(channel.now());
        EXPECT_EQ(activities[0].since, 10u);
        EXPECT_EQ(activities[0].from, 11 + t.trcd_rd + t.cl);
        uint64_t data = 0, refreshes = 0, before = 0;
        for (const Activity& a : activities) {
            EXPECT_LE(a.since, a.last_command);
            EXPECT_LE(before, a.last_command);
            before = a.last_command;
            data += a.to - a.from;
            if (a.from == a.to) {
                ++refreshes;
                EXPECT_EQ(a.to, a.last_command + t.trfc);
            }
        }
        EXPECT_EQ(data, counters.data_clocks);
        // a refresh of one bank of every group stops neither the bus nor the rank
        EXPECT_EQ(refreshes, t.refresh_sets == 1 ? counters.refreshes : 0);
    }
}

/// The same trace gives the same figures, and asking the channel in small steps changes nothing.
TEST(DramChannel, IsDeterministicAndIndependentOfStepWidth) {
    const Config config = config_of("DDR4-3200");
    std::vector<std::pair<uint64_t, uint64_t>> results[2];
    for (const int step : {0, 1}) {
        Channel channel(config);
        std::mt19937_64 random(7);
        uint64_t time = 0, tag = 0;
        for (int i = 0; i < 3000; ++i) {
            time += random() % 12;
            if (step == 1) {
                for (uint64_t t = channel.now(); t < time; ++t) channel.advance(t);
            }
            channel.advance(time);
            const uint64_t address = random() % 4 == 0 ? random() % (1u << 26) : tag * 64;
            const bool is_write = random() % 3 == 0;
            if (channel.has_room(is_write)) channel.push({time, address, is_write, tag++});
        }
        channel.advance_to_idle(never / 2);
        for (const Completion& c : channel.completions()) results[step].emplace_back(c.tag, c.done);
        std::sort(results[step].begin(), results[step].end());
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_GT(results[0].size(), 2000u);
}

/// No completion is earlier than the bound that the channel gave before it became certain.
TEST(DramChannel, CompletionBoundHolds) {
    const Config config = config_of("DDR4-3200");
    Channel channel(config);
    std::mt19937_64 random(3);
    EXPECT_EQ(channel.next_completion_bound(), never);
    for (uint64_t time = 0; time < 200000; ++time) {
        const uint64_t bound = channel.next_completion_bound();
        channel.advance(time);
        for (const Completion& c : channel.completions()) {
            if (!c.is_write) {
                EXPECT_GE(c.done, bound);
            }
        }
        channel.completions().clear();
        const bool is_write = random() % 4 == 0;
        // addresses never repeat, so no waiting write answers a read
        if (random() % 8 == 0 && channel.has_room(is_write))
            channel.push({time, time * 64 * 97, is_write, time});
    }
}

/// Queues are bounded: a full one takes nothing until a burst has gone, and then at once.
TEST(DramChannel, FullQueueHoldsBackUntilABurstHasGone) {
    Config config = config_of("DDR4-3200");
    config.policy.read_queue = 4;
    Channel channel(config);
    for (uint64_t i = 0; i < 4; ++i) channel.push({0, i * 131072, false, i});
    EXPECT_FALSE(channel.has_room(false));
    EXPECT_TRUE(channel.has_room(true));
    EXPECT_THROW(channel.push({0, 0, false, 9}), InternalError);
    channel.advance_to_room(false, never / 2);
    EXPECT_TRUE(channel.has_room(false));
    ASSERT_EQ(channel.completions().size(), 1u);
    // activate at 1, read tRCD later, in the clock after it there is room
    EXPECT_EQ(channel.now(), config.timing.trcd_rd + 1u);
    EXPECT_THROW(channel.push({0, 0, false, 9}), InternalError) << "time has passed";
}

/// Writes are done when taken; a read of bytes that wait to be written is answered without the DRAM.
TEST(DramChannel, WritesArePostedAndForwarded) {
    const Config config = config_of("DDR4-3200");
    Channel channel(config);
    channel.push({10, 4096, true, 1});
    channel.push({10, 4096, false, 2});
    ASSERT_EQ(channel.completions().size(), 2u);
    EXPECT_EQ(channel.completions()[0].done, 12u);
    EXPECT_EQ(channel.completions()[1].done, 12u);
    EXPECT_FALSE(channel.completions()[1].is_write);
    channel.advance_to_idle(never / 2);
    const Counters counters = channel.counters(channel.now());
    EXPECT_EQ(counters.forwarded, 1u);
    EXPECT_EQ(counters.reads, 0u);
    EXPECT_EQ(counters.writes, 1u);
}

/// Writes wait until write_high of them do, then go until write_low are left, while reads wait.
TEST(DramChannel, WatermarksStartAndEndWriting) {
    Config config = config_of("DDR4-3200");
    config.policy.write_high = 8;
    config.policy.write_low = 2;
    class Order final : public CommandObserver {
      public:
        void on_command(const IssuedCommand& c) override {
            if (c.command == Command::read) order += 'r';
            if (c.command == Command::write) order += 'w';
        }
        std::string order;
    } order;
    Channel channel(config);
    channel.observe(&order);
    // in one bank, whose row is then no longer fresh when the bus turns
    const uint64_t stride = uint64_t{config.geometry.groups} * 64;
    for (uint64_t i = 0; i < 7; ++i) channel.push({0, (1 << 20) + i * stride, true, i});
    for (uint64_t i = 0; i < 20; ++i) channel.push({0, i * 64, false, 100 + i});
    channel.advance(60);
    EXPECT_EQ(order.order.find('w'), std::string::npos);
    channel.push({60, (1 << 20) + 7 * stride, true, 7});
    channel.advance_to_idle(never / 2);
    const size_t first = order.order.find('w');
    ASSERT_NE(first, std::string::npos);
    EXPECT_EQ(order.order.substr(first, 7), "wwwwwwr");
    EXPECT_EQ(order.order.substr(order.order.size() - 3), "rww");
}

/// At most row_hit_cap bursts of a row pass an older burst to another row of the bank.
TEST(DramChannel, RowHitCapEndsAStreak) {
    for (const uint32_t cap : {1u, 4u, 12u}) {
        Config config = config_of("DDR4-3200", "row_bank_column");
        config.policy.row_hit_cap = cap;
        Channel channel(config);
        channel.push({0, 0, false, 0});
        channel.push({0, 1 << 20, false, 99});  // another row of the same bank
        for (uint64_t i = 1; i < 30; ++i) channel.push({0, i * 64, false, i});
        channel.advance_to_idle(never / 2);
        uint32_t before = 0;
        for (const Completion& c : channel.completions()) {
            if (c.tag == 99) break;
            ++before;
        }
        EXPECT_EQ(before, cap);
    }
}

/// Idle ranks enter power-down and self-refresh, wake in tXP and tXS, and do not refresh while they refresh
/// themselves; the states' times add up.
TEST(DramChannel, PowerStates) {
    for (const std::string& device : platforms::ddr_device_names()) {
        SCOPED_TRACE(device);
        Config config = config_of(device);
        const Timing& t = config.timing;
        const uint64_t interval = t.refresh_interval();
        config.policy.power_down_nck = 50;
        Channel sleeper(config);
        sleeper.push({0, 0, false, 0});
        sleeper.advance(interval / 2);
        sleeper.push({interval / 2, 0, false, 1});
        sleeper.advance(interval * 4);
        const Completion& woken = sleeper.completions()[1];
        EXPECT_EQ(woken.done - woken.arrival, t.txp + t.cl + t.burst + 2u);
        EXPECT_EQ(woken.waits.refresh, t.txp);
        Counters counters = sleeper.counters(sleeper.now());
        EXPECT_NEAR(static_cast<double>(counters.refreshes), 3.5, 0.6);
        EXPECT_EQ(std::accumulate(counters.rank_times.begin(), counters.rank_times.end(), uint64_t{0}),
                  sleeper.now());
        EXPECT_GT(counters.rank_times[static_cast<size_t>(RankState::active_power_down)], interval / 2);
        EXPECT_GT(counters.rank_times[static_cast<size_t>(RankState::precharge_power_down)], interval);

        config.policy.self_refresh_nck = 500;
        Channel deep(config);
        deep.advance(100 * uint64_t{t.trefi});
        counters = deep.counters(deep.now());
        EXPECT_EQ(counters.refreshes, 0u);
        EXPECT_GT(counters.rank_times[static_cast<size_t>(RankState::self_refresh)], 99u * t.trefi);
        deep.push({deep.now(), 0, false, 0});
        const uint64_t arrival = deep.now();
        deep.advance(arrival + 5000);
        EXPECT_EQ(deep.completions()[0].done - arrival, t.txs + t.trcd_rd + t.cl + t.burst + 2u);
        EXPECT_EQ(deep.completions()[0].waits.refresh, t.txs);
    }
}

/// More banks, channels, ranks, queue or a faster clock never make a trace slower than by the anomaly of a
/// scheduler that decides greedily: 5 %.
TEST(DramChannel, MoreOfAnythingIsNotSlower) {
    constexpr double anomaly = 1.05;
    constexpr uint64_t bursts = 6000;
    for (const std::string device : {"DDR4-3200", "LPDDR5-6400"}) {
        for (const char* pattern : patterns) {
            SCOPED_TRACE(device + " " + pattern);
            const auto time = [&](const proto::DdrDevice& d, uint32_t channels, uint32_t ranks,
                                  uint32_t outstanding) {
                ReplayConfig config{
                    make_config(d, platforms::default_ddr_controller(), "bank_group_interleaved", ranks),
                    channels};
                config.max_outstanding = outstanding;
                return static_cast<double>(replay_pattern(config, device, pattern, bursts).cycles) *
                       d.tck_ns();
            };
            const proto::DdrDevice& rated = platforms::rated_ddr_device(device);
            const double base = time(rated, 1, 1, 32);
            EXPECT_LE(base,
                      anomaly * time(platforms::at_data_rate(rated, rated.data_rate_mtps() / 2), 1, 1, 32));
            EXPECT_LE(time(rated, 2, 1, 32), anomaly * base);
            EXPECT_LE(time(rated, 4, 1, 32), anomaly * time(rated, 2, 1, 32));
            EXPECT_LE(time(rated, 1, 1, 64), anomaly * base);
            EXPECT_LE(base, anomaly * time(rated, 1, 1, 8));
            proto::DdrDevice more_banks = rated;
            more_banks.set_banks_per_group(8);
            more_banks.set_rows(rated.rows() / 2);
            if (std::string(pattern) != "conflict") {  // its stride is that of the rated device's banks
                EXPECT_LE(time(more_banks, 1, 1, 32), anomaly * base);
            }
        }
    }
}

/// Random bursts, part of them writes: a row is opened once for each burst, and none is closed unused when the bus
/// turns. Bursts that wait for a row that is open already save an activate, refreshes close some: 2 %.
TEST(DramChannel, RowsAreUsedBeforeTheBusTurns) {
    constexpr uint64_t bursts = 20000;
    for (const std::string& device : platforms::ddr_device_names()) {
        const ReplayConfig config{config_of(device)};
        const auto reads = static_cast<double>(replay_pattern(config, device, "rnd_rd", bursts).cycles);
        for (const char* pattern : {"rnd_mix10", "rnd_mix30", "rnd_mix50"}) {
            SCOPED_TRACE(device + " " + pattern);
            const ReplayResult result = replay_pattern(config, device, pattern, bursts);
            EXPECT_EQ(result.counters.reads + result.counters.writes + result.counters.forwarded, bursts);
            EXPECT_LE(static_cast<double>(result.counters.activates), 1.02 * bursts);
            EXPECT_LE(static_cast<double>(result.cycles), 1.5 * reads);
        }
    }
}

/// A command of several clocks holds the command bus for so long: LPDDR4's activates and columns take four.
TEST(DramChannel, CommandsOfSeveralClocksShareTheBus) {
    Config slow = config_of("LPDDR4-3200", "row_bank_column"), fast = slow;
    EXPECT_EQ(slow.timing.activate_clocks, 4u);
    fast.timing.activate_clocks = fast.timing.column_clocks = fast.timing.precharge_clocks = 1;
    const auto cycles = [](const Config& config) {
        return replay_pattern({config}, "LPDDR4-3200", "rnd_rd", 6000).cycles;
    };
    EXPECT_GE(cycles(slow), cycles(fast));
    slow.timing.activate_clocks = 40;  // more than tRRD: the bus is the limit
    EXPECT_GE(cycles(slow), 6000u * 40);
}

/// Energy by hand from the supply currents of DDR4-3200 (eight chips, 1.2 V), and near DRAMsim3's own figure,
/// whose core has the same currents: 17.504 uJ for 4,096 sequential reads.
TEST(DramEnergy, IsTheFormulasOfTheCounts) {
    const Config config = config_of("DDR4-3200");
    const ReplayResult result = replay_pattern({config}, "DDR4-3200", "seq_rd", 4096);
    const auto prices = platforms::dram_energy(platforms::rated_ddr_device("DDR4-3200"), 0);
    const Energy energy = energy_of(result.counters, prices, 0.625);
    EXPECT_NEAR(energy.read, 4096 * 8 * 1.2 * (168 - 52) * 2.5, 1);
    EXPECT_NEAR(
        energy.activate,
        static_cast<double>(result.counters.activates) * 8 * 1.2 * (57 * 46.25 - (52 * 32.5 + 37 * 13.75)),
        1);
    EXPECT_NEAR(energy.refresh, static_cast<double>(result.counters.refreshes) * 8 * 1.2 * (250 - 52) * 350,
                1);
    EXPECT_NEAR(energy.io, 4096 * 512 * 10.0, 1);
    const auto& times = result.counters.rank_times;
    EXPECT_NEAR(energy.background,
                0.625 * 8 * 1.2 *
                    (52.0 * static_cast<double>(times[0] + times[4]) + 37.0 * static_cast<double>(times[1])),
                1);
    EXPECT_EQ(times[0] + times[1] + times[4], result.cycles);
    EXPECT_NEAR((energy.total() - energy.io) / 17503752.0, 1, 0.01);
    EXPECT_EQ(energy.write, 0);
}

/// Power-down saves energy when the channel idles, and costs none when it does not.
TEST(DramEnergy, PowerDownSavesWhenIdle) {
    Config config = config_of("LPDDR4-3200", "row_bank_column");
    const auto prices = platforms::dram_energy(platforms::rated_ddr_device("LPDDR4-3200"), 0);
    const auto background = [&](uint32_t after, const char* pattern) {
        config.policy.power_down_nck = after;
        return energy_of(replay_pattern({config}, "LPDDR4-3200", pattern, 4096).counters, prices, 0.625)
            .background;
    };
    EXPECT_LT(background(50, "gaps_rd"), 0.7 * background(0, "gaps_rd"));
    EXPECT_NEAR(background(50, "seq_rd") / background(0, "seq_rd"), 1, 1e-9);
}

/// The one system figure of LPDDR5 covers everything but its background.
TEST(DramEnergy, FallbackWithoutSupplyCurrents) {
    const proto::DdrDevice& device = platforms::rated_ddr_device("LPDDR5-6400");
    const ReplayResult result = replay_pattern({config_of("LPDDR5-6400")}, "LPDDR5-6400", "seq_rd", 1000);
    const Energy energy = energy_of(result.counters, platforms::dram_energy(device, 0), device.tck_ns());
    EXPECT_NEAR(energy.read, 1000 * 512 * 8.0, 1e-6);
    EXPECT_NEAR(energy.background, 76 * 1.25 * static_cast<double>(result.cycles), 1e-3);
    EXPECT_EQ(energy.activate + energy.refresh, 0);
}

}  // namespace
}  // namespace kpu::dram
