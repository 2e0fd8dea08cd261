// Pairs of voltage and frequency per clock domain: which are chosen, what they change, what is refused.
#include "platforms/operating_points.hpp"

#include "platforms/variants.hpp"
#include "support.hpp"

namespace kpu::platforms {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using traces::Component;

constexpr const char* points = R"(name: "dvfs" extends: "edge16"
clock {
  point { name: "slow" mhz: 200 vdd: 0.6 }
  point { name: "fast" mhz: 480 vdd: 1.0 }
  point { name: "fast" domain: array mhz: 600 vdd: 0.9 }
})";

Platform device(const std::string& text, const Overrides& overrides = {}) {
    return parse_textproto(text, "dvfs.textproto", overrides);
}
std::string refusal(const std::string& text, const Overrides& overrides = {}) {
    return error_of([&] { device(text, overrides); });
}

TEST(OperatingPoints, GiveTheirPair) {
    const Platform plain = device(points);
    EXPECT_EQ(plain.clock().core_mhz(), 400);
    EXPECT_FALSE(plain.clock().has_core_vdd());
    const Platform slow = device(points, {{"clock.core_point", "slow"}});
    EXPECT_EQ(slow.clock().core_mhz(), 200);
    EXPECT_EQ(slow.clock().core_vdd(), 0.6);
    // the other domains follow the core where they have no pair of their own
    EXPECT_EQ(mhz_of(slow.clock(), Component::l2), 200);
    EXPECT_EQ(vdd_of(slow.clock(), Component::noc, 0.8), 0.6);
    EXPECT_EQ(vdd_of(slow.clock(), Component::phy, 0.8), 0.8);
    const Platform mixed = device(
        points, {{"clock.core_point", "slow"}, {"clock.array_point", "fast"}, {"clock.sram_vdd", "0.7"}});
    EXPECT_EQ(mhz_of(mixed.clock(), Component::array), 600);
    EXPECT_EQ(vdd_of(mixed.clock(), Component::array, 0.8), 0.9);
    EXPECT_EQ(vdd_of(mixed.clock(), Component::l1, 0.8), 0.7);
    EXPECT_EQ(array_clock(mixed).hz(), 600'000'000u);
    // as it is written beside a run, it is read again
    EXPECT_EQ(to_textproto(device(to_textproto(mixed))), to_textproto(mixed));
    EXPECT_EQ(to_textproto(device(points, {{"clock.core_point", "none"}})), to_textproto(plain));
}

/// Dynamic energy of each domain goes with the square of its own voltage, its leakage with the cube, the clock tree with both
/// the square and the domain's frequency; DRAM and PHY keep theirs.
TEST(OperatingPoints, EnergyFollowsEachDomain) {
    const auto prices = [](const Overrides& overrides) { return energy_prices(device(points, overrides)); };
    const traces::EnergyPrices base = prices({});
    const traces::EnergyPrices at =
        prices({{"clock.array_vdd", "1.0"}, {"clock.array_mhz", "800"}, {"clock.sram_vdd", "0.64"}});
    ASSERT_EQ(base.actions.size(), at.actions.size());
    for (size_t i = 0; i < base.actions.size(); ++i) {
        const Component component = base.actions[i].component;
        const bool sram = component == Component::l1 || component == Component::l2;
        const double factor = component == Component::array ? 1.5625 : sram ? 0.64 : 1;
        EXPECT_NEAR(at.actions[i].energy_pj, base.actions[i].energy_pj * factor,
                    1e-9 * base.actions[i].energy_pj)
            << base.actions[i].action;
    }
    EXPECT_EQ(base.phy_static_mw, at.phy_static_mw);
    EXPECT_EQ(base.dram_background_mw, at.dram_background_mw);
    // gated is leakage + 3 % of the clock tree, on is leakage + all of it
    for (size_t i = 0; i < base.statics.size(); ++i) {
        const auto parts = [](const traces::StaticPower& row) {
            const double tree = (row.on_mw - row.gated_mw) / 0.97;
            return std::pair(row.on_mw - tree, tree);
        };
        const auto [leak, tree] = parts(base.statics[i]);
        const auto [leak_at, tree_at] = parts(at.statics[i]);
        const Component component = base.statics[i].component;
        const bool sram = component == Component::l1 || component == Component::l2;
        const bool array = component == Component::array;
        EXPECT_NEAR(leak_at, leak * (array ? 1.953125 : sram ? 0.512 : 1), 1e-6 * base.statics[i].on_mw);
        EXPECT_NEAR(tree_at, tree * (array ? 2 * 1.5625 : sram ? 0.64 : 1), 1e-6 * base.statics[i].on_mw);
    }
    // all domains at one voltage: what energy.vdd says
    const traces::EnergyPrices core = prices({{"clock.core_vdd", "0.9"}}),
                               all = prices({{"energy.vdd", "0.9"}});
    for (size_t i = 0; i < core.actions.size(); ++i)
        EXPECT_NEAR(core.actions[i].energy_pj, all.actions[i].energy_pj, 1e-9 * all.actions[i].energy_pj);
    for (size_t i = 0; i < core.statics.size(); ++i)
        EXPECT_NEAR(core.statics[i].on_mw, all.statics[i].on_mw, 1e-9 * all.statics[i].on_mw);
}

TEST(OperatingPoints, AnExtendingFileReplacesThePair) {
    Platform base = device(points, {{"clock.core_point", "slow"}});
    proto::Clock clock = base.clock(), changes;
    changes.set_core_point("fast");
    forget_replaced_pairs(clock, changes);
    EXPECT_FALSE(clock.has_core_mhz());
    EXPECT_FALSE(clock.has_core_vdd());
    const Platform own = device(
        R"(name: "own" extends: "edge16" clock { core_point: "p" point { name: "p" mhz: 123 vdd: 0.7 } })");
    EXPECT_EQ(own.clock().core_mhz(), 123);
}

TEST(OperatingPoints, RefusesContradictions) {
    EXPECT_THAT(refusal(points, {{"clock.core_point", "fats"}}),
                AllOf(HasSubstr("no operating point `fats`; there are slow, fast"),
                      HasSubstr("did you mean `fast`?")));
    EXPECT_THAT(
        refusal(points, {{"clock.sram_point", "fast"}}),
        HasSubstr("the platform has no operating points of its sram clock. Fix: add `clock { point {"));
    EXPECT_THAT(
        refusal(points, {{"clock.core_point", "slow"}, {"clock.core_mhz", "300"}}),
        HasSubstr(
            "`clock.core_mhz` is 300, and `clock.core_point` is `slow`, at which it is 200. Fix: leave one"));
    EXPECT_EQ(device(points, {{"clock.core_point", "slow"}, {"clock.core_mhz", "200"}}).clock().core_vdd(),
              0.6);
    EXPECT_THAT(
        refusal(
            R"(name: "x" extends: "edge16" clock { core_mhz: 300 core_point: "a" point { name: "a" mhz: 200 vdd: 0.7 } })"),
        HasSubstr("`clock.core_mhz` is 300"));
    EXPECT_THAT(refusal(R"(name: "x" extends: "edge16" clock { point { name: "a" vdd: 0.7 } })"),
                HasSubstr("`clock.point[0].mhz` is missing"));
    EXPECT_THAT(refusal(R"(name: "x" extends: "edge16" clock { point { name: "a" mhz: 200 vdd: 1.7 } })"),
                HasSubstr("from 0.6 to 1.1"));
    proto::Clock clock;
    const auto add = [&](const char* name, double mhz, double vdd) {
        proto::OperatingPoint& point = *clock.add_point();
        point.set_name(name), point.set_mhz(mhz), point.set_vdd(vdd);
    };
    add("a", 200, 0.7), add("b", 300, 0.8);
    EXPECT_THAT(point_problems(clock), ElementsAre());
    add("b", 400, 0.9);
    EXPECT_THAT(point_problems(clock), ElementsAre(HasSubstr("has `b` of the core clock twice")));
    clock.mutable_point()->RemoveLast();
    add("c", 250, 0.9), add("none", 500, 1.0);
    EXPECT_THAT(
        point_problems(clock),
        ElementsAre(
            HasSubstr("`c` of the core clock takes 0.9 V for 250 MHz, and `b` runs at 300 MHz with 0.8 V"),
            HasSubstr("is `none`. Fix: give the point another name")));
}

}  // namespace
}  // namespace kpu::platforms
