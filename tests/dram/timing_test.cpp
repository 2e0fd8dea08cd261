// Every command stream against every rule; every rule at t - 1 and t.
#include <gtest/gtest.h>

#include <random>

#include "tests/dram/command_checker.hpp"
#include "tests/dram/support.hpp"

namespace kpu::dram {
namespace {

/// Reads and writes in random order to random and near addresses, with pauses: every kind of conflict.
std::vector<TraceRequest> random_mix(uint64_t seed, size_t count, uint64_t bytes, uint64_t longest_pause) {
    std::mt19937_64 random(seed);
    std::vector<TraceRequest> requests;
    uint64_t time = 0, address = 0;
    for (size_t i = 0; i < count; ++i) {
        if (random() % 4 == 0) address = random() % bytes;
        address = (address + 64) % bytes;
        if (random() % 64 == 0) time += random() % longest_pause;
        requests.push_back({time, address, random() % 3 == 0, i + 1});
    }
    return requests;
}

struct Case {
    std::string device, mapping;
    uint32_t ranks;
    bool power_down;
};

Config case_config(const Case& c) {
    Config config = config_of(c.device, c.mapping, c.ranks);
    if (c.power_down) {
        config.policy.power_down_nck = 20;
        config.policy.self_refresh_nck = 3000;
    }
    return config;
}

std::vector<Case> all_cases() {
    std::vector<Case> cases;
    for (const std::string& device : platforms::ddr_device_names()) {
        for (const char* mapping : {"bank_group_interleaved", "row_bank_column"}) {
            for (const uint32_t ranks : {1u, 2u}) {
                for (const bool power_down : {false, true})
                    cases.push_back({device, mapping, ranks, power_down});
            }
        }
    }
    return cases;
}

void merge(std::map<std::string, int64_t>& into, const std::map<std::string, int64_t>& from) {
    for (const auto& [rule, slack] : from) {
        const auto found = into.emplace(rule, slack).first;
        found->second = std::min(found->second, slack);
    }
}

void expect_legal(const CommandChecker& checker) {
    const auto& violations = checker.violations();
    EXPECT_TRUE(violations.empty()) << violations.size() << " violations, first: " << violations.front();
}

/// A row is closed for another one this long before a refresh is due, while a second bank is open if all are refreshed.
std::vector<TraceRequest> close_before_refresh(const Config& config, uint64_t early) {
    const uint64_t due = config.timing.refresh_interval(), row = config.geometry.row_bytes;
    const uint64_t other_row = row * config.geometry.banks_per_rank();
    std::vector<TraceRequest> requests{{due - 1000, 0, false, 1}};
    if (config.timing.refresh_sets == 1) requests.push_back({due - 1000, row, false, 2});
    requests.push_back({due - early, other_row, false, 3});
    return requests;
}

/// No command of any pattern on any device comes too early, and every rule is what held some command back:
/// the controller issues at t, never at t - 1.
TEST(DramTiming, EveryCommandStreamIsLegalAndEveryRuleIsReached) {
    std::map<std::string, int64_t> slack;
    for (const Case& c : all_cases()) {
        SCOPED_TRACE(c.device + " " + c.mapping + (c.power_down ? " with power-down" : "") + " ranks " +
                     std::to_string(c.ranks));
        const ReplayConfig config{case_config(c)};
        for (const char* pattern : {"seq_rd", "seq_wr", "tile_rd", "two_rd", "mix21", "rnd_rd", "conflict",
                                    "gaps_rd", "rnd_mix30"}) {
            CommandChecker checker(config.channel);
            replay_pattern(config, c.device, pattern, 1500, &checker);
            expect_legal(checker);
            merge(slack, checker.slack());
        }
        for (const uint64_t bytes : {uint64_t{1} << 18, uint64_t{1} << 29}) {
            CommandChecker checker(config.channel);
            ListTrace trace(random_mix(bytes, 4000, bytes, 8000));
            replay(config, trace, {&checker});
            expect_legal(checker);
            merge(slack, checker.slack());
        }
        for (uint64_t early = 1; early < 100 && c.mapping == "row_bank_column" && c.ranks == 1; ++early) {
            CommandChecker checker(config.channel);
            ListTrace trace(close_before_refresh(config.channel, early));
            replay(config, trace, {&checker});
            expect_legal(checker);
            merge(slack, checker.slack());
        }
        ReplayConfig sleepy = config;
        sleepy.channel.policy.self_refresh_nck = 0;
        CommandChecker checker(config.channel);
        ListTrace idle({{0, 0, false, 1}, {5 * uint64_t{config.channel.timing.trefi}, 64, false, 2}});
        replay(sleepy, idle, {&checker});
        expect_legal(checker);
        merge(slack, checker.slack());
    }
    CommandChecker any(config_of("DDR5-4800"));
    for (const CommandChecker::Rule& rule : any.rules()) {
        ASSERT_EQ(slack.count(rule.name), 1u) << rule.name << " was never met";
        // what another rule hides: tRC = tRAS + tRP at least; a refresh follows a precharge of all banks; a
        // power state is left for a burst or a refresh only; tREFI counts anew after self-refresh; a refresh follows
        // a precharge of same banks
        const bool hidden = rule.name == "tRC to refresh" || rule.name == "tRFC to refresh" ||
                            rule.name == "tXP to precharge" || rule.name == "tXP to write" ||
                            rule.name == "tRFC to self-refresh" || rule.name == "tXS to refresh" ||
                            rule.name == "tRP of same banks" || rule.name == "tRC to same-bank refresh" ||
                            rule.name == "tRFCsb to self-refresh";
        if (!hidden) {
            EXPECT_EQ(slack[rule.name], 0) << rule.name;
        }
    }
    EXPECT_EQ(slack["tFAW"], 0);
}

/// The checker itself: for each rule a second command `clocks` after the first is legal, one clock sooner is
/// not.
TEST(DramTiming, CheckerAcceptsAtTAndRejectsAtTMinusOne) {
    using Scope = CommandChecker::Scope;
    for (const char* device : {"LPDDR4-3200", "DDR5-4800"}) {
        SCOPED_TRACE(device);
        const Config config = config_of(device, "row_bank_column", 2);
        const CommandChecker table(config);
        for (const CommandChecker::Rule& rule : table.rules()) {
            for (const uint64_t early : {0u, 1u}) {
                CommandChecker checker(config);
                const uint32_t second_rank = rule.scope == Scope::other_rank ? 1 : 0;
                const bool one_bank = rule.scope == Scope::bank || rule.scope == Scope::same_bank;
                const uint32_t second_bank =
                    one_bank ? 0 : second_rank * config.geometry.banks_per_rank() + 1;
                checker.on_command({100000, rule.first, 0, 0, 0});
                checker.on_command({100000 + rule.clocks - early, rule.then, second_rank, second_bank, 0});
                bool found = false;
                for (const std::string& violation : checker.violations())
                    found |= violation.rfind(rule.name + " broken", 0) == 0;
                EXPECT_EQ(found, early == 1) << rule.name;
            }
        }
    }
}

/// Two bursts, the second `gap` clocks of commands after the first: the closed form of each pair.
TEST(DramTiming, PairsOfBurstsAreSpacedByTheirRule) {
    for (const std::string& device : platforms::ddr_device_names()) {
        SCOPED_TRACE(device);
        const Config config = config_of(device, "row_bank_column");
        const Timing& t = config.timing;
        const uint64_t row = config.geometry.row_bytes;
        const uint64_t other_row = row * config.geometry.banks_per_rank();
        // completion of the second of two reads, given both at clock 0
        const auto second_done = [&](uint64_t address) {
            Channel channel(config);
            channel.push({0, 0, false, 0});
            channel.push({0, address, false, 1});
            channel.advance_to_idle(never / 2);
            EXPECT_EQ(channel.completions()[0].done, 1 + t.trcd_rd + t.cl + t.burst + 1);
            return channel.completions()[1].done - channel.completions()[0].done;
        };
        EXPECT_EQ(second_done(64), std::max(t.tccd_l, t.burst));  // the same row
        EXPECT_EQ(second_done(other_row), t.trc);                 // another row of the bank
        const uint32_t next_activate = config.geometry.groups > 1 ? t.trrd_s : t.trrd_l;
        EXPECT_EQ(second_done(row), std::max({next_activate, t.tccd_s, t.burst}));  // another bank
    }
}

}  // namespace
}  // namespace kpu::dram
