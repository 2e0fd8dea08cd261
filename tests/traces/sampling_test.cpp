// Values that held longest in intervals, and the clocks of components, by random stretches.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "sample.hpp"
#include "traces/component_activity.hpp"
#include "traces/component_states.hpp"
#include "traces/majority.hpp"

namespace kpu::traces {
namespace {

// The sampler has, for each interval, the value that held at most of its picoseconds, of equals the first;
// stretches follow each other from begin to end, and neighbours differ.
TEST(Sampler, HasWhatHeldLongest) {
    std::mt19937 random(3);
    for (int round = 0; round < 200; ++round) {
        const Picoseconds every = 1 + random() % 40;
        std::vector<int> at;  // by picosecond
        std::vector<std::pair<int, std::pair<Picoseconds, Picoseconds>>> found;
        Sampler<int> sampler(
            every, [](const int& value) { return value; },
            [&](const int& value, Picoseconds from, Picoseconds to) {
                found.push_back({value, {from, to}});
            });
        for (int i = 0; i < 30; ++i) {
            const int value = static_cast<int>(random() % 4);
            const Picoseconds length = random() % 5 == 0 ? random() % 300 : random() % 20;
            sampler.add(value, at.size(), at.size() + length);
            at.insert(at.end(), length, value);
        }
        sampler.finish();
        std::vector<int> sampled;
        for (const auto& [value, stretch] : found) {
            ASSERT_EQ(stretch.first, sampled.size());
            ASSERT_TRUE(sampled.empty() || sampled.back() != value);
            sampled.insert(sampled.end(), stretch.second - stretch.first, value);
        }
        ASSERT_EQ(sampled.size(), at.size());
        for (size_t start = 0; start < at.size(); start += every) {
            const size_t end = std::min<size_t>(at.size(), start + every);
            std::map<int, size_t> count;
            size_t most = 0;
            for (size_t i = start; i < end; ++i) most = std::max(most, ++count[at[i]]);
            size_t first = start;
            while (count[at[first]] != most) ++first;
            for (size_t i = start; i < end; ++i) ASSERT_EQ(sampled[i], at[first]) << "interval at " << start;
        }
    }
}

// The time in active and idle is when the component is ON by the accounts of energy, and active is the union of what the
// records say, with and without clock gating.
TEST(ComponentActivity, TimeOnIsThatOfTheAccounts) {
    std::mt19937 random(4);
    for (int round = 0; round < 60; ++round) {
        RunInfo info;
        info.core_hz = round % 2 == 0 ? 1'000'000'000 : 733'000'000;
        info.prices = test::prime_prices();
        info.prices.clock_gating = round % 3 != 0;
        constexpr Cycles cycles = 4000;
        info.end_ps = info.clock().edge(cycles);
        ComponentStates accounts(info.prices);
        std::vector<Event> events;
        std::vector<std::vector<bool>> busy(component_count, std::vector<bool>(cycles));
        for (int i = 0; i < 120; ++i) {
            Event event;
            event.kind = EventKind::active;
            event.unit = static_cast<uint16_t>(random() % component_count);
            const Cycles from = random() % cycles, length = 1 + random() % 30;
            event.time_ps = info.clock().edge(from);
            event.set_duration(length, no_unit);
            events.push_back(event);
            accounts.active(static_cast<Component>(event.unit), from, from + length);
            for (Cycles c = from; c < std::min(cycles, from + length); ++c) busy[event.unit][c] = true;
        }
        sort_by_time(events);
        std::map<std::pair<size_t, ClockState>, Picoseconds> time;
        std::vector<Picoseconds> reached(ComponentActivity::count);
        for_each_clock_state(info, Events(events),
                             [&](size_t c, ClockState state, Picoseconds from, Picoseconds to) {
                                 EXPECT_EQ(from, reached[c]);
                                 reached[c] = to;
                                 time[{c, state}] += to - from;
                             });
        for (const ComponentOn& on : accounts.finish(info.clock(), cycles)) {
            const auto c = static_cast<size_t>(on.component);
            if (c >= ComponentActivity::count) continue;
            EXPECT_EQ(reached[c], info.end_ps);
            const Picoseconds active = time[{c, ClockState::active}], idle = time[{c, ClockState::idle}];
            EXPECT_EQ(active + idle, on.residency.on);
            const Picoseconds gated = time[{c, ClockState::gated}];
            EXPECT_EQ(gated, on.residency.gated);
            Picoseconds expected = 0;
            for (Cycles i = 0; i < cycles; ++i)
                if (busy[c][i]) expected += info.clock().edge(i + 1) - info.clock().edge(i);
            EXPECT_EQ(active, expected);
        }
    }
}

}  // namespace
}  // namespace kpu::traces
