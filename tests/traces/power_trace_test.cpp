#include "traces/power_trace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "base/diagnostics.hpp"
#include "sample.hpp"
#include "traces/component_states.hpp"
#include "traces/peak_power.hpp"

namespace kpu::traces {
namespace {

using test::prime_prices;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

constexpr uint64_t one_gigahertz = 1'000'000'000;
constexpr Yoctojoules pj = 1'000'000'000'000;

/// Two engines with an array and an L1 each, of which the second's is larger, and a DRAM of two channels.
RunInfo two_engines() {
    RunInfo info;
    info.core_hz = one_gigahertz;
    info.units = {{"e0_nmu0", UnitKind::nmu, 0, 0}, {"e1_nmu0", UnitKind::nmu, 1, 0},
                  {"e1_nmu1", UnitKind::nmu, 1, 1}, {"ddr0", UnitKind::ddr, -1, 0},
                  {"ddr1", UnitKind::ddr, -1, 1},   {"e0_l1", UnitKind::l1, 0, 0},
                  {"e1_l1", UnitKind::l1, 1, 0},    {"device", UnitKind::device, -1, 0}};
    info.ops.resize(4);
    for (size_t i = 0; i < info.ops.size(); ++i) info.ops[i].id = "op" + std::to_string(i);
    info.prices = prime_prices();
    info.prices.parts = {{Component::array, 0, 10, 1},
                         {Component::array, 1, 21, 2},
                         {Component::l1, 0, 12, 5},
                         {Component::l1, 1, 25, 0}};
    return info;
}

struct Recorded {
    RunInfo info;
    Events events;
    EnergyTotals totals;
    StatSet stats;
};
/// Calls book(ledger) and ends the run.
template <typename Book>
Recorded run_of(RunInfo info, Cycles end, Book book) {
    EventLog log;
    EnergyLedger ledger(info.prices, info.clock(), info.ops.size(), &log);
    book(ledger);
    Recorded run;
    ledger.finish(end, run.stats);
    run.totals = ledger.totals();
    run.events = log.take_sorted();
    info.total_cycles = end;
    info.end_ps = info.clock().edge(end);
    run.info = std::move(info);
    return run;
}

std::vector<double> in_pj(const std::vector<Yoctojoules>& energies) {
    std::vector<double> values;
    for (const Yoctojoules energy : energies) values.push_back(pj_of(energy));
    return values;
}

Yoctojoules sum_of(const std::vector<Yoctojoules>& energies) {
    return std::accumulate(energies.begin(), energies.end(), Yoctojoules{0});
}

// Powers computed by hand: 60 MACs at 2 pJ from 500 to 3500 ns, a third of them of one array; reads at 23 pJ
// of two channels.
TEST(PowerTrace, HandComputedUnits) {
    RunInfo info = two_engines();
    info.prices.clock_gating = false;
    const Recorded run = run_of(info, 4000, [](EnergyLedger& ledger) {
        ledger.add(0, 60, 500, 3500, 1, {{0, 20}, {2, 40}});
        ledger.add(8, 5, 1000, 1000, 0, {{3, 1}, {4, 4}});
        ledger.add(7, 1, 3999, 4000, background_op);
    });
    const PowerTrace trace = power_trace(run.info, run.events, 1'000'000, {true, true});
    ASSERT_EQ(trace.count, 4u);
    using testing::ElementsAre;
    const auto near = [](double value) { return testing::DoubleNear(value, 2e-12); };
    // 40 pJ and 80 pJ: a sixth in the first bin, two thirds in the middle
    EXPECT_THAT(in_pj(trace.units[2].dynamic),
                ElementsAre(near(80 / 6.), near(80 / 3.), near(80 / 3.), near(80 / 6.)));
    EXPECT_TRUE(sum_of(trace.units[0].dynamic) == 40 * pj);
    EXPECT_THAT(in_pj(trace.units[3].dynamic), ElementsAre(0, 23, 0, 0));
    EXPECT_THAT(in_pj(trace.units[4].dynamic), ElementsAre(0, 92, 0, 0));
    EXPECT_THAT(in_pj(trace.units[8].dynamic), ElementsAre(0, 0, 0, 19)) << "of no unit";
    // 31 mW of the arrays: 10 to 21 by the parts, the latter shared by two; 41 and 43 mW of the channels, evenly
    EXPECT_THAT(in_pj(trace.units[0].statics), ElementsAre(10'000, 10'000, 10'000, 10'000));
    EXPECT_THAT(in_pj(trace.units[1].statics), ElementsAre(10'500, 10'500, 10'500, 10'500));
    EXPECT_THAT(in_pj(trace.units[3].statics), ElementsAre(42'000, 42'000, 42'000, 42'000));
    const EnergyColumn engine = trace.engine(run.info, 1);
    EXPECT_THAT(in_pj(engine.statics), ElementsAre(46'000, 46'000, 46'000, 46'000))
        << "21 of arrays, 25 of L1";
    EXPECT_THAT(trace.op, ElementsAre(1u, 0u, 1u, 1u));
    EXPECT_EQ(trace.ops[1].size(), 2u);
}

/// Checks everything that must be equal, at a width and at half of it.
void expect_sums(const Recorded& run, Picoseconds width) {
    const PowerTrace trace = power_trace(run.info, run.events, width, {true, true});
    const PowerTrace half = power_trace(run.info, run.events, width / 2, {true, true});
    ASSERT_EQ(trace.width, width);
    ASSERT_EQ(half.width, width / 2);
    std::vector<EnergyColumn> by_engine;
    for (const int engine : engines_of(run.info)) by_engine.push_back(trace.engine(run.info, engine));
    const auto by_op = trace.by_op(run.info);
    Yoctojoules all = 0;
    for (size_t bin = 0; bin < trace.count; ++bin) {
        Yoctojoules units = 0, engines = 0;
        for (const EnergyColumn& unit : trace.units) units += unit.of(bin);
        for (const EnergyColumn& engine : by_engine) engines += engine.of(bin);
        EXPECT_TRUE(units == trace.total(bin)) << bin;
        EXPECT_TRUE(engines == trace.total(bin)) << bin;
        Yoctojoules operations = 0;
        for (const auto& [name, column] : by_op) operations += column.of(bin);
        EXPECT_TRUE(operations == trace.total(bin)) << bin;
        for (size_t u = 0; u < trace.units.size(); ++u) {
            for (const auto part : {&EnergyColumn::dynamic, &EnergyColumn::statics}) {
                Yoctojoules halves = (half.units[u].*part)[2 * bin];
                if (2 * bin + 1 < half.count) halves += (half.units[u].*part)[2 * bin + 1];
                EXPECT_TRUE(halves == (trace.units[u].*part)[bin]) << "unit " << u << " bin " << bin;
            }
        }
        all += trace.total(bin);
    }
    EXPECT_TRUE(all == run.totals.exact.total());
    EXPECT_EQ(uj_of(all), run.stats.real("energy.total_uj"));
    for (size_t c = 0; c < component_count; ++c) {
        EXPECT_TRUE(sum_of(trace.components[c].dynamic) == run.totals.exact.dynamic_by_component[c]);
        EXPECT_TRUE(sum_of(trace.components[c].statics) == run.totals.exact.static_by_component[c]);
    }
}

// Units, engines and operations sum to every bin, bins to the statistics, halves to wholes, to the last
// digit: random runs on clocks of any period, with what lies after the end, prices of any length.
TEST(PowerTrace, EverySumIsExact) {
    for (unsigned seed = 1; seed <= 12; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        std::mt19937 random(seed);
        RunInfo info = two_engines();
        info.core_hz = seed % 3 == 0 ? 933'000'000 : one_gigahertz;
        info.prices.clock_gating = seed % 2 == 0;
        for (ActionPrice& price : info.prices.actions)
            price.energy_pj = std::uniform_real_distribution<>(0, 30)(random);
        for (StaticPower& power : info.prices.statics)
            power.on_mw = std::uniform_real_distribution<>(5, 70)(random);
        const Cycles end = 20'000;
        const Recorded run = run_of(info, end, [&](EnergyLedger& ledger) {
            for (const test::Booking& b : test::random_bookings(seed, 300, end + 50, 4)) {
                const uint64_t first = b.count / 3;
                const auto unit = static_cast<uint16_t>(random() % 7);
                Burners burners;
                if (seed % 4 != 0)
                    burners = {{unit, first}, {static_cast<uint16_t>(6 - unit), b.count - first}};
                ledger.add(b.action, b.count, b.from, b.to, b.op, burners);
                ledger.active(info.prices.actions[b.action].component, b.from, b.to);
            }
        });
        for (const Picoseconds width : {20'000u, 1'000'000u, 7'300'000u, 4'000'000'000u})
            expect_sums(run, width);
    }
}

// Amounts are printed and rounded to the last digit, also those that no double holds.
TEST(EnergyAmount, DecimalAndNearest) {
    EXPECT_EQ(pj_text(0), "0");
    EXPECT_EQ(pj_text(1), "0.000000000001");
    EXPECT_EQ(pj_text(12 * pj + pj / 2), "12.5");
    EXPECT_EQ(pj_text(-3 * pj), "-3");
    const Yoctojoules large = Yoctojoules{123'456'789'012'345'678} * pj + 1;
    EXPECT_EQ(pj_text(large), "123456789012345678.000000000001");
    EXPECT_EQ(pj_of(large), 123456789012345678.000000000001);
    EXPECT_EQ(uj_of(large), 123456789012.345678000000000001);
    EXPECT_EQ(uj_of(yj_of_pj(0.16) * 1'000'000), 0.16);
    EXPECT_TRUE(yj_per_ps(31) == 31'000'000'000);
    // against the text, which is read with one rounding
    std::mt19937_64 random(7);
    for (int i = 0; i < 2000; ++i) {
        const Yoctojoules energy = static_cast<Yoctojoules>(random() >> random() % 64) *
                                   static_cast<int64_t>(random() >> 28 >> random() % 32);
        EXPECT_EQ(pj_of(energy), std::stod(pj_text(energy)));
        EXPECT_EQ(pj_of(-energy), -pj_of(energy));
    }
}

// A share is rounded down, and the whole is given whole, whatever the size.
TEST(EnergyAmount, SharesOfLargeEnergies) {
    const Yoctojoules joule = pj * pj;
    EXPECT_TRUE(share_of(joule, 1, 3) == joule / 3);
    EXPECT_TRUE(share_of(1'000'000 * joule, Picoseconds{1} << 61, Picoseconds{1} << 62) == 500'000 * joule);
    EXPECT_TRUE(share_of(joule, 3, 3) == joule);
}

// When, and what took it: three bins above 50 mW, of which two follow each other.
TEST(PeakPower, NamesWhatExceedsIt) {
    RunInfo info = two_engines();
    info.prices.statics.clear();
    info.prices.dram_background_mw = info.prices.phy_static_mw = 0;
    const Recorded run = run_of(info, 10'000, [](EnergyLedger& ledger) {
        ledger.add(0, 60'000, 2000, 4000, 1, {{0, 20'000}, {2, 40'000}});  // 60 mW
        ledger.add(8, 4000, 7000, 8000, 3, {{3, 4000}});                   // 92 mW
    });
    const Verdict fails = judge_peak(run.info, run.events, parse_peak_budget("50mW@1us"), 0);
    EXPECT_FALSE(fails.passed);
    EXPECT_EQ(fails.name, "peak power budget 50mW@1us");
    EXPECT_EQ(fails.text,
              "peak power: 0.092 W over 1 us at 7 us, budget 0.05 W + 0 %; 3 of 10 windows are above\n"
              "  7 us to 8 us, up to 0.092 W: ddr0 0.092 W; operations op3 0.092 W\n"
              "  2 us to 4 us, up to 0.06 W: e1_nmu1 0.04 W, e0_nmu0 0.02 W; operations op1 0.06 W\n");
    EXPECT_TRUE(judge_peak(run.info, run.events, parse_peak_budget("50mW@1us"), 0.85).passed);
    EXPECT_FALSE(judge_peak(run.info, run.events, parse_peak_budget("50mW@1us"), 0.83).passed);
    // over 10 us: 212 nJ
    EXPECT_TRUE(judge_peak(run.info, run.events, parse_peak_budget("0.0213W@10us"), 0).passed);
    EXPECT_FALSE(judge_peak(run.info, run.events, parse_peak_budget("0.0211W@0.01ms"), 0).passed);
}

TEST(PeakPower, RefusesWhatIsNoBudget) {
    for (const char* text : {"2.5", "2.5W", "2.5W@", "2.5@1us", "W@1us", "2.5W@1", "0W@1us", "2.5W@0us",
                             "-1W@1us", "2.5W@1us ", "2.5 W@1us", "nanW@1us", "infW@1us", "2.5W@1s", "@"}) {
        EXPECT_THAT([&] { parse_peak_budget(text); }, ThrowsMessage<UserError>(HasSubstr("like 2.5W@1us")))
            << text;
    }
    const Recorded run = run_of(two_engines(), 10'000'000, [](EnergyLedger&) {});
    EXPECT_THAT([&] { judge_peak(run.info, run.events, parse_peak_budget("1W@0.5ns"), 0); },
                ThrowsMessage<UserError>(HasSubstr("a core cycle takes 1 ns")));
    EXPECT_THAT([&] { judge_peak(run.info, run.events, parse_peak_budget("1W@1ns"), 0); },
                ThrowsMessage<UserError>(HasSubstr("more windows than can be held")));
}

}  // namespace
}  // namespace kpu::traces
