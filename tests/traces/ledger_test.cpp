#include "traces/ledger.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/diagnostics.hpp"
#include "sample.hpp"
#include "traces/active_intervals.hpp"
#include "traces/power_trace.hpp"

namespace kpu::traces {
namespace {

using test::Booking;
using test::prime_prices;
using test::random_bookings;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr uint64_t gigahertz = 1'000'000'000;
constexpr double exact = 1e-9;

void expect_close(double value, double expected, const std::string& what = "") {
    EXPECT_NEAR(value, expected, exact * std::max(1.0, std::abs(expected))) << what;
}

struct Outcome {
    StatSet stats;
    std::vector<Event> events;
    EnergyLedger ledger;
};

Outcome book(const EnergyPrices& prices, const std::vector<Booking>& bookings, Cycles end, uint32_t ops = 4,
             uint64_t hz = gigahertz) {
    EventLog log;
    EnergyLedger ledger(prices, Clock(hz), ops, &log);
    for (const Booking& b : bookings) {
        ledger.add(b.action, b.count, b.from, b.to, b.op);
        ledger.active(prices.actions[b.action].component, b.from, b.to);
    }
    StatSet stats;
    ledger.finish(end, stats);
    return {std::move(stats), log.take_sorted().to_vector(), std::move(ledger)};
}

RunInfo info_of(const EnergyPrices& prices, Cycles end, uint32_t ops, uint64_t hz = gigahertz) {
    RunInfo info;
    info.core_hz = hz;
    info.total_cycles = end;
    info.end_ps = Clock(hz).edge(end);
    info.ops.resize(ops);
    info.prices = prices;
    return info;
}

// A hand-computed case: 4096 MACs at 2 pJ, 48 bytes at 5 pJ, and 100 ns of static power, to the last digit.
TEST(Ledger, HandComputedTile) {
    EnergyPrices prices = prime_prices();
    prices.clock_gating = false;
    const Outcome r = book(prices, {{0, 4096, 0, 16, 0}, {2, 48, 0, 16, 1}}, 100, 2);
    EXPECT_EQ(r.ledger.op_pj(0), 8192.0);
    EXPECT_EQ(r.ledger.op_pj(1), 240.0);
    EXPECT_EQ(r.ledger.dynamic_pj(), 8432.0);
    // (31 + 37 + 41 + 43) mW x 100 ns = 15200 pJ
    expect_close(r.ledger.static_pj(), 15200);
    expect_close(r.ledger.background_pj(), 15200);
    EXPECT_EQ(r.stats.integer("energy.count.array.mac.i8"), 4096u);
    expect_close(r.stats.real("energy.total_uj") * 1e6, 23632);
    expect_close(r.stats.real("power.average_w"), 0.23632);
}

// Sums over components, over actions and over operations with the background all give the total, as do the
// statistics (invariant 1), and average power times time gives it too (invariant 3).
TEST(Ledger, SumsClose) {
    const Cycles end = 50'000;
    const Outcome r = book(prime_prices(), random_bookings(1, 2000, end, 4), end);
    const EnergyLedger& ledger = r.ledger;
    const double total = ledger.total_pj();
    double by_component = 0, by_row = 0, by_op = ledger.background_pj();
    for (int c = 0; c < component_count; ++c) {
        by_component +=
            r.stats.real(fmt::format("energy.by_component.{}_uj", name_of(static_cast<Component>(c)))) * 1e6;
    }
    for (const EnergyLedger::Row& row : ledger.summary()) {
        by_row += row.energy_pj;
        expect_close(static_cast<double>(row.count) * row.energy_per_action_pj, row.energy_pj, row.action);
    }
    for (uint32_t op = 0; op < 4; ++op) by_op += ledger.op_pj(op);
    expect_close(by_component, total);
    expect_close(by_row, total);
    expect_close(by_op, total);
    expect_close(ledger.dynamic_pj() + ledger.static_pj(), total);
    expect_close(r.stats.real("power.average_w") * static_cast<double>(end) * 1000, total);
    EXPECT_GE(r.stats.real("power.peak_w"), r.stats.real("power.average_w"));
}

// The bins of the power trace sum to the total, per component too, at any width, also with a partial last bin
// and on a clock whose period is not a whole number of picoseconds (invariant 2); no bin lies below the
// static floor and the highest is at least the average (invariant 3).
TEST(Ledger, BinsSumToTheTotalAtAnyWidth) {
    const Cycles end = 50'000;
    for (const uint64_t hz : {gigahertz, uint64_t{933'000'000}}) {
        const Outcome r = book(prime_prices(), random_bookings(2, 500, end, 4), end, 4, hz);
        const RunInfo info = info_of(prime_prices(), end, 4, hz);
        for (const Picoseconds width : {10'000u, 1'000'000u, 7'300'000u, 4'000'000'000u}) {
            const PowerTrace trace = power_trace(info, r.events, width);
            std::array<Yoctojoules, component_count> dynamic{};
            Yoctojoules statics = 0, total = 0;
            double highest = 0;
            Picoseconds time = 0;
            for (size_t bin = 0; bin < trace.count; ++bin) {
                for (size_t c = 0; c < component_count; ++c) {
                    dynamic[c] += trace.components[c].dynamic[bin];
                    statics += trace.components[c].statics[bin];
                }
                total += trace.total(bin);
                time += trace.real_width(bin);
                const double watts = trace.watts(bin, trace.total(bin));
                highest = std::max(highest, watts);
                EXPECT_GE(watts, (3 + 5 + 41 + 43) * 1e-3 * (1 - exact));
            }
            const EnergyTotals::Exact& totals = r.ledger.totals().exact;
            EXPECT_EQ(time, info.end_ps);
            EXPECT_TRUE(total == totals.total()) << "width " << width;
            EXPECT_EQ(uj_of(total), r.stats.real("energy.total_uj"));
            EXPECT_TRUE(dynamic == totals.dynamic_by_component) << "width " << width;
            EXPECT_TRUE(statics == totals.statics) << "width " << width;
            EXPECT_GE(highest * (1 + exact), r.stats.real("power.average_w"));
            if (width == 1'000'000u) expect_close(highest, r.stats.real("power.peak_w"));
        }
    }
}

// Residencies of a component sum to the time of the run, static energy is power times residency, and the
// clock runs while active and for the hysteresis after it (invariant 4).
TEST(Ledger, ResidenciesSumToTheRun) {
    const EnergyPrices prices = prime_prices();
    EnergyLedger ledger(prices, Clock(gigahertz), 0, nullptr);
    ledger.active(Component::array, 100, 200);
    ledger.active(Component::array, 150, 250);  // overlaps
    ledger.active(Component::array, 255, 300);  // within the 10 cycles of hysteresis
    ledger.active(Component::array, 400, 410);
    ledger.active(Component::array, 20, 30);  // out of order
    StatSet stats;
    ledger.finish(1000, stats);
    const auto& array = ledger.counts().residency[static_cast<size_t>(Component::array)];
    const Picoseconds on_cycles = 20 + 210 + 20;  // [20,40) [100,310) [400,420)
    EXPECT_EQ(array.on, on_cycles * 1000);
    EXPECT_EQ(array.on + array.gated, 1'000'000u);
    expect_close(ledger.totals().static_by_component[static_cast<size_t>(Component::array)],
                 (31.0 * on_cycles + 3.0 * (1000 - on_cycles)) * 1e-3 * 1000);
    const auto& l1 = ledger.counts().residency[static_cast<size_t>(Component::l1)];
    EXPECT_EQ(l1.gated, 1'000'000u);
    EXPECT_EQ(stats.real("power.residency.array.on_us"), 0.25);
}

// Gating never costs energy, and gains nothing for a component that never rests (invariant 11).
TEST(Ledger, GatingNeverCosts) {
    EnergyPrices gated = prime_prices(), free = prime_prices();
    free.clock_gating = false;
    const auto bookings = random_bookings(3, 20, 10'000, 4);
    EXPECT_LE(book(gated, bookings, 10'000).ledger.total_pj(),
              book(free, bookings, 10'000).ledger.total_pj());
    EnergyLedger busy(gated, Clock(gigahertz), 0, nullptr), always(free, Clock(gigahertz), 0, nullptr);
    busy.active(Component::array, 0, 10'000);
    busy.active(Component::l1, 0, 10'000);
    StatSet stats;
    busy.finish(10'000, stats);
    always.finish(10'000, stats);
    expect_close(busy.total_pj(), always.total_pj());
}

// Without work the energy is static power times time and the trace is flat; without time there is no energy
// and no undefined number (invariant 5).
TEST(Ledger, NoWorkAndNoTime) {
    const Outcome idle = book(prime_prices(), {}, 10'000);
    expect_close(idle.ledger.total_pj(), (3 + 5 + 41 + 43) * 1e-3 * 10'000'000);
    for (size_t bin = 0; bin < idle.ledger.bins().count(); ++bin) {
        expect_close(idle.ledger.bins().watts(bin, idle.ledger.bins().total(bin)), 0.092);
    }
    EXPECT_EQ(idle.stats.integer("energy.count.dram.read"), 0u);
    const Outcome nothing = book(prime_prices(), {}, 0);
    EXPECT_EQ(nothing.ledger.total_pj(), 0);
    EXPECT_EQ(nothing.stats.real("power.average_w"), 0);
    EXPECT_EQ(nothing.stats.real("power.peak_w"), 0);
}

// Doubling one price adds count times that price; doubling all doubles dynamic energy and leaves static
// energy; a zero price removes exactly its row (invariant 7). Pricing dumped counts again gives the online
// numbers (invariant 8).
TEST(Ledger, LinearInPricesAndRepricedOffline) {
    const Cycles end = 20'000;
    const auto bookings = random_bookings(4, 300, end, 4);
    const EnergyPrices base = prime_prices();
    const Outcome r = book(base, bookings, end);
    const double total = r.ledger.total_pj();
    for (size_t action = 0; action < base.actions.size(); ++action) {
        EnergyPrices changed = base;
        const double part =
            static_cast<double>(r.ledger.counts().of_action(action)) * base.actions[action].energy_pj;
        changed.actions[action].energy_pj *= 2;
        expect_close(book(changed, bookings, end).ledger.total_pj(), total + part);
        expect_close(price(r.ledger.counts(), changed).total(), total + part);
        changed.actions[action].energy_pj = 0;
        expect_close(price(r.ledger.counts(), changed).total(), total - part);
    }
    EnergyPrices doubled = base;
    for (ActionPrice& entry : doubled.actions) entry.energy_pj *= 2;
    const EnergyTotals totals = price(r.ledger.counts(), doubled);
    expect_close(totals.dynamic, 2 * r.ledger.dynamic_pj());
    EXPECT_EQ(totals.statics, r.ledger.static_pj());
    EXPECT_EQ(price(r.ledger.counts(), base).total(), total);
}

// Recording events changes nothing, and the same calls give the same bits (invariant 8).
TEST(Ledger, SameWithAndWithoutEvents) {
    const auto bookings = random_bookings(5, 300, 20'000, 4);
    const Outcome r = book(prime_prices(), bookings, 20'000), again = book(prime_prices(), bookings, 20'000);
    EnergyLedger quiet(prime_prices(), Clock(gigahertz), 4, nullptr);
    for (const Booking& b : bookings) {
        quiet.add(b.action, b.count, b.from, b.to, b.op);
        quiet.active(prime_prices().actions[b.action].component, b.from, b.to);
    }
    StatSet stats;
    quiet.finish(20'000, stats);
    EXPECT_EQ(stats.to_json(true), r.stats.to_json(true));
    EXPECT_EQ(again.stats.to_json(true), r.stats.to_json(true));
}

// Static energy scales with the period of the clock, dynamic energy does not (invariant 10).
TEST(Ledger, HalfTheClockDoublesStaticEnergyOnly) {
    const auto bookings = random_bookings(6, 100, 20'000, 4);
    const Outcome fast = book(prime_prices(), bookings, 20'000),
                  slow = book(prime_prices(), bookings, 20'000, 4, gigahertz / 2);
    EXPECT_EQ(slow.ledger.dynamic_pj(), fast.ledger.dynamic_pj());
    expect_close(slow.ledger.static_pj(), 2 * fast.ledger.static_pj());
}

// A missing action, a negative or undefined price, a price without source or unit and a price given twice are
// errors that name the key (invariant 15).
TEST(Ledger, RefusesBadTables) {
    const EnergyPrices good = prime_prices();
    EXPECT_EQ(good.find(Component::l1, "write"), 3);
    EXPECT_THAT([&] { good.find(Component::array, "mac.f64"); },
                ThrowsMessage<UserError>(testing::AllOf(HasSubstr("array.mac.f64"), HasSubstr("primes"))));
    const auto refused = [](EnergyPrices prices, const std::string& key) {
        EXPECT_THAT([&] { EnergyLedger(prices, Clock(gigahertz), 1, nullptr); },
                    ThrowsMessage<UserError>(HasSubstr(key)));
    };
    for (const double bad : {-1.0, std::nan(""), HUGE_VAL}) {
        EnergyPrices prices = good;
        prices.actions[2].energy_pj = bad;
        refused(prices, "l1.read");
        prices = good;
        prices.statics[1].on_mw = bad;
        refused(prices, "l1.static.on");
        prices = good;
        prices.phy_static_mw = bad;
        refused(prices, "phy.static");
    }
    EnergyPrices prices = good;
    prices.actions[3].source.clear();
    refused(prices, "l1.write` has no source");
    prices = good;
    prices.actions[3].per.clear();
    refused(prices, "l1.write` has no unit");
    prices = good;
    prices.actions[3].action = "read";
    refused(prices, "given twice");
    EnergyLedger ledger(good, Clock(gigahertz), 1, nullptr);
    EXPECT_THROW(ledger.add(10, 1, 0, 1, 0), InternalError);
    EXPECT_THROW(ledger.add(0, 1, 0, 1, 1), InternalError);
}

// 64-bit counters: 10^12 actions and one more are told apart (invariant 16).
TEST(Ledger, CountsAreExact) {
    const Outcome r = book(prime_prices(), {{0, 1'000'000'000'000, 0, 10, 0}, {0, 1, 0, 10, 0}}, 10);
    EXPECT_EQ(r.stats.integer("energy.count.array.mac.i8"), 1'000'000'000'001u);
    EXPECT_EQ(r.ledger.op_pj(0), 2'000'000'000'002.0);
}

// On long runs the bins get wider instead of more, and still sum to what was booked; actions without length
// or at the very end of the run are kept.
TEST(PowerBins, DoublesItsWidthAndLosesNothing) {
    PowerBins bins(1000, 8);
    bins.add(0, 10, 0, 0);
    bins.add(1, 20, 500, 2500);
    bins.add(2, 30, 6000, 100'000);
    bins.add(3, 40, 100'000, 100'000);  // at the end of the run
    bins.finish(100'000);
    EXPECT_LE(bins.count(), 8u);
    EXPECT_EQ(bins.width(), 16'000u);
    double sum = 0;
    for (size_t bin = 0; bin < bins.count(); ++bin) sum += bins.total(bin);
    expect_close(sum, 100);
    EXPECT_EQ(bins.real_width(bins.count() - 1), 100'000u % 16'000u);
}

// Energy is spread pro rata over the bins that its interval touches.
TEST(PowerBins, SpreadsProRata) {
    PowerBins bins(1000, 100);
    bins.add(0, 100, 500, 2500);
    bins.finish(2500);
    ASSERT_EQ(bins.count(), 3u);
    expect_close(bins.row(0)[0], 25);
    expect_close(bins.row(1)[0], 50);
    expect_close(bins.row(2)[0], 25);
    expect_close(bins.watts(2, bins.row(2)[0]), 0.05);  // 25 pJ in 500 ps
}

// The union of many random intervals equals the union computed cycle by cycle.
TEST(ActiveIntervals, EqualsCycleByCycle) {
    std::mt19937 random(7);
    for (const Cycles hysteresis : {0u, 3u}) {
        ActiveIntervals active(hysteresis);
        std::vector<bool> on(2000);
        for (int i = 0; i < 100; ++i) {
            const Cycles from = random() % 1900, to = from + random() % 10;
            active.add(from, to);
            for (Cycles c = from; to > from && c < to + hysteresis && c < on.size(); ++c) on[c] = true;
        }
        std::vector<bool> merged(2000);
        Cycles last = 0;
        for (const auto& [from, to] : active.on_until(2000)) {
            EXPECT_GE(from, last);
            last = to;
            for (Cycles c = from; c < to; ++c) merged[c] = true;
        }
        EXPECT_EQ(merged, on);
    }
}

}  // namespace
}  // namespace kpu::traces
