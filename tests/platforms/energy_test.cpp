#include <cmath>

#include "platforms/ddr.hpp"
#include "platforms/energy_table.hpp"
#include "support.hpp"

namespace kpu::platforms {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using traces::Component;

double price(const traces::EnergyPrices& prices, Component component, const std::string& action) {
    for (const traces::ActionPrice& row : prices.actions) {
        if (row.component == component && row.action == action) return row.energy_pj;
    }
    ADD_FAILURE() << "no action " << action;
    return std::nan("");
}

const traces::StaticPower& statics(const traces::EnergyPrices& prices, Component component) {
    return prices.statics.at(static_cast<size_t>(component));
}

/// Hand-computed from the supply currents, one x16 chip of LPDDR4-3200 and 32 bytes: read core 1348 pJ and
/// 825 pJ of output, ACT and PRE 1205 pJ, 22 nJ a refresh; our channel is two chips and 64 bytes.
TEST(Energy, DramCheckValues) {
    const DramEnergy energy = dram_energy(rated_ddr_device("LPDDR4-3200"), 2.5);
    EXPECT_NEAR(energy.read_pj / 2, 1347.5 + 825, 1);
    EXPECT_NEAR(energy.write_pj / 2, 1.1 * (212.25 - 32.25) * 5 + 256 * 1.2, 1e-6);
    EXPECT_NEAR(energy.activate_pj / 2, 1205, 1);
    EXPECT_NEAR(energy.refresh_pj / 2, 22400, 100);
    EXPECT_NEAR(energy.standby_mw / 2, 37.05, 1e-9);
}

/// DDR4: eight chips, one rail: E = 8 * 1.2 V * (168 - 52) mA * 2.5 ns + io, from the formulas with their
/// data.
TEST(Energy, DramOneRail) {
    const DramEnergy energy = dram_energy(rated_ddr_device("DDR4-3200"), 2.5);
    EXPECT_NEAR(energy.read_pj, 8 * 1.2 * 116 * 2.5 + 512 * 10.0, 1e-6);
    EXPECT_NEAR(energy.activate_pj, 8 * 1.2 * (57 * 46.25 - 52 * 32.5 - 37 * 13.75), 1e-6);
    EXPECT_NEAR(energy.refresh_pj, 8 * 1.2 * (250 - 52) * 350, 1e-6);
}

/// LPDDR5 has no public currents: 8 pJ/bit for the whole system, of which the PHY's 2.5 are charged to the
/// PHY.
TEST(Energy, DramFallback) {
    const DramEnergy energy = dram_energy(rated_ddr_device("LPDDR5-6400"), 2.5);
    EXPECT_DOUBLE_EQ(energy.read_pj, 512 * 5.5);
    EXPECT_EQ(energy.activate_pj, 0);
    EXPECT_EQ(energy.standby_mw, 76);
}

/// Currents that would give a negative energy are refused.
TEST(Energy, NegativeDramEnergy) {
    proto::DdrDevice device = rated_ddr_device("DDR4-3200");
    device.set_idd0(40);
    EXPECT_THAT(error_of([&] { dram_energy(device, 2.5); }),
                AllOf(HasSubstr("DDR4-3200"), HasSubstr("negative")));
}

/// SRAM words by the fit 0.80 * (size / 64 KiB)^0.28 pJ/B: within 4 % of the published rows at every size.
TEST(Energy, SramFit) {
    struct Row {
        const char* size;
        double read;
    };
    for (const Row& row : {Row{"8192", .45}, Row{"65536", .80}, Row{"262144", 1.2}, Row{"1048576", 1.7},
                           Row{"2097152", 2.1}, Row{"4194304", 2.6}, Row{"8388608", 3.1}}) {
        const auto prices = energy_prices(load("swkpu-v1", {{"l2.size_bytes", row.size}}));
        const double read = price(prices, Component::l2, "read");
        EXPECT_NEAR(read / 64 / row.read, 1, 0.04) << row.size;
        EXPECT_DOUBLE_EQ(price(prices, Component::l2, "write"), read * 1.2);
    }
}

/// Prices of swkpu-v1 at nominal, by hand from the table: arithmetic, links, PHY, background.
TEST(Energy, HandComputedPrices) {
    const auto prices = energy_prices(load("swkpu-v1"));
    EXPECT_EQ(prices.corner, "nominal");
    EXPECT_EQ(prices.node_nm, 16u);
    EXPECT_DOUBLE_EQ(price(prices, Component::array, "mac.i8"), .16);
    EXPECT_DOUBLE_EQ(price(prices, Component::array, "mac.f16"), 1.13);
    EXPECT_DOUBLE_EQ(price(prices, Component::array, "pe.shift"), .22);
    EXPECT_DOUBLE_EQ(price(prices, Component::noc, "byte"), .5 + 2 * .64);
    EXPECT_DOUBLE_EQ(price(prices, Component::phy, "burst"), 512 * 2.5);
    EXPECT_NEAR(prices.dram_background_mw, 4 * 37.05, 1e-9);
    EXPECT_DOUBLE_EQ(prices.phy_static_mw, 50);
    // L1: leakage 3 mW/MiB, clock 20 % of what a port moves; gated keeps 3 % of the clock
    const double clock = 0.2 * 0.8 * std::pow(4, 0.28) * 128 * 0.5;
    EXPECT_NEAR(statics(prices, Component::l1).on_mw, 0.75 + clock, 1e-9);
    EXPECT_NEAR(statics(prices, Component::l1).gated_mw, 0.75 + 0.03 * clock, 1e-9);
}

/// Idle power of the deployment client's device lies in the published band, 0.1 to 0.5 W, gated and not.
TEST(Energy, IdlePowerIsPlausible) {
    const auto prices = energy_prices(load("swkpu-v1"));
    double on = prices.dram_background_mw + prices.phy_static_mw, gated = on;
    for (const traces::StaticPower& row : prices.statics) {
        on += row.on_mw;
        gated += row.gated_mw;
        EXPECT_LE(row.gated_mw, row.on_mw);
    }
    EXPECT_GT(gated, 100);
    EXPECT_LT(on, 500);
    EXPECT_EQ(prices.statics.size(), 7u);
}

std::vector<double> all_prices(const platforms::Overrides& overrides) {
    std::vector<double> values;
    for (const traces::ActionPrice& row : energy_prices(load("tile32", overrides)).actions) {
        if (row.component != Component::dram && row.component != Component::phy)
            values.push_back(row.energy_pj);
    }
    return values;
}

/// Corners are ordered; an older node never costs less; voltage goes with its square; temperature changes no
/// action.
TEST(Energy, ScalingIsMonotone) {
    const auto low = all_prices({{"energy.corner", "low"}}), nominal = all_prices({}),
               high = all_prices({{"energy.corner", "high"}});
    const auto node7 = all_prices({{"energy.node_nm", "7"}}), node45 = all_prices({{"energy.node_nm", "45"}});
    const auto volt = all_prices({{"energy.vdd", "1.0"}}), hot = all_prices({{"energy.temp_c", "107"}});
    for (size_t i = 0; i < nominal.size(); ++i) {
        EXPECT_LE(low[i], nominal[i]);
        EXPECT_LE(nominal[i], high[i]);
        EXPECT_LT(node7[i], nominal[i]);
        EXPECT_LT(nominal[i], node45[i]);
        EXPECT_NEAR(volt[i], nominal[i] * 1.5625, 1e-9 * volt[i]);
        EXPECT_EQ(hot[i], nominal[i]);
    }
}

/// The table's exponents reproduce the published columns of other nodes within 15 %.
TEST(Energy, NodeColumns) {
    struct Row {
        const char* action;
        double nm45, nm28, nm7;
    };
    const auto at = [](const char* node) {
        return energy_prices(load("tile32", {{"energy.node_nm", node}}));
    };
    const auto p45 = at("45"), p28 = at("28"), p7 = at("7");
    for (const Row& row : {Row{"mac.i8", .30, .23, .10}, Row{"mac.f16", 2.0, 1.54, .72},
                           Row{"mac.bf16", 1.6, 1.23, .59}, Row{"mac.f32", 4.6, 3.6, 1.7}}) {
        EXPECT_NEAR(price(p45, Component::array, row.action) / row.nm45, 1, .15) << row.action;
        EXPECT_NEAR(price(p28, Component::array, row.action) / row.nm28, 1, .15) << row.action;
        EXPECT_NEAR(price(p7, Component::array, row.action) / row.nm7, 1, .15) << row.action;
    }
}

/// Leakage doubles every 22 degrees and goes with the cube of the voltage; DRAM does not follow the core's
/// voltage.
TEST(Energy, Leakage) {
    const auto table = find_energy_table("generic_16nm");
    proto::Energy conditions;
    const auto leak = [&] {
        const proto::EnergyTable scaled = scale_table(table, conditions);
        for (const auto& entry : scaled.entry()) {
            if (entry.component() == "sram" && entry.action() == "static.leak") return entry.energy_pj();
        }
        return 0.0;
    };
    EXPECT_DOUBLE_EQ(leak(), 3);
    conditions.set_temp_c(107);
    EXPECT_DOUBLE_EQ(leak(), 6);
    conditions.set_temp_c(85);
    conditions.set_vdd(1.0);
    EXPECT_NEAR(leak(), 3 * 1.953125, 1e-9);
    EXPECT_EQ(energy_prices(load("tile32", {{"energy.vdd", "1.0"}})).dram_background_mw,
              energy_prices(load("tile32")).dram_background_mw);
}

/// Per type: i4 <= i8 <= bf16 <= f16 <= f32; L1 <= L2 per byte; bigger memories cost more.
TEST(Energy, Order) {
    const auto prices = energy_prices(load("npm_mid"));
    const auto tile = energy_prices(load("tile32"));
    EXPECT_LE(price(prices, Component::array, "mac.i4"), price(prices, Component::array, "mac.i8"));
    EXPECT_LE(price(prices, Component::array, "mac.i8"), price(prices, Component::array, "mac.i16"));
    EXPECT_LE(price(tile, Component::array, "mac.i8"), price(tile, Component::array, "mac.bf16"));
    EXPECT_LE(price(tile, Component::array, "mac.bf16"), price(tile, Component::array, "mac.f16"));
    EXPECT_LE(price(tile, Component::array, "mac.f16"), price(tile, Component::array, "mac.f32"));
    EXPECT_LT(price(tile, Component::l1, "read"), price(tile, Component::l2, "read"));
    EXPECT_LT(price(tile, Component::l2, "read"), price(tile, Component::dram, "read"));
}

/// A table without an entry that the platform can issue is an error naming the key; one it cannot issue may
/// be missing.
TEST(Energy, MissingEntry) {
    const proto::EnergyTable table = find_energy_table("generic_16nm");
    const Platform platform = load("swkpu-v1");
    const auto without = [&](const std::string& component, const std::string& action) {
        proto::EnergyTable cut = table;
        cut.clear_entry();
        for (const auto& entry : table.entry()) {
            if (entry.component() != component || entry.action() != action) *cut.add_entry() = entry;
        }
        EXPECT_EQ(cut.entry_size() + 1, table.entry_size()) << action;
        return cut;
    };
    for (const auto& [component, action] :
         {std::pair("array", "mac.i8"), std::pair("array", "pe.idle"),
          std::pair("vector", "op.transcendental"), std::pair("sram", "read.64kib"),
          std::pair("sram", "write_ratio"), std::pair("noc", "wire"), std::pair("dma", "burst"),
          std::pair("ctrl", "instr"), std::pair("phy", "bit"), std::pair("logic", "static.leak"),
          std::pair("clock", "static.gated")}) {
        EXPECT_THAT(error_of([&, c = component, a = action] { energy_prices(platform, without(c, a)); }),
                    HasSubstr(fmt::format("no entry `{}.{}`", component, action)));
    }
    EXPECT_NO_THROW(energy_prices(platform, without("array", "mac.f32")));
    EXPECT_NO_THROW(energy_prices(platform, without("phy", "bit.in_package")));
}

std::string table_error(const std::string& entry) {
    const std::string head = "name: \"t\" node_nm: 16 vdd: 0.8 temp_c: 85\n";
    return error_of([&] { parse_energy_table(head + entry, "t.textproto"); });
}

/// Checks what a table may not hold: each message names place and key.
TEST(Energy, TableErrors) {
    const std::string rest = " per: \"mac\" source: \"s\" confidence: \"assumed\" }";
    const std::string key = "entry { component: \"array\" action: \"mac.i8\" ";
    EXPECT_THAT(table_error(key + "energy_pj: -1" + rest),
                AllOf(HasSubstr("t.textproto:2:1"), HasSubstr("array.mac.i8")));
    EXPECT_THAT(table_error(key + "energy_pj: nan" + rest), HasSubstr("nan"));
    EXPECT_THAT(table_error(key + "energy_pj: inf" + rest), HasSubstr("inf"));
    EXPECT_THAT(table_error(key + rest), HasSubstr("no energy_pj"));
    EXPECT_THAT(table_error(key + "energy_pj: 1 low: 2" + rest), HasSubstr("not ascending"));
    EXPECT_THAT(table_error(key + "energy_pj: 1 low: -1" + rest), HasSubstr("-1"));
    EXPECT_THAT(table_error(key + "energy_pj: 1 per: \"mac\" confidence: \"assumed\" }"),
                HasSubstr("no source"));
    EXPECT_THAT(table_error(key + "energy_pj: 1 per: \"byte\" source: \"s\" confidence: \"assumed\" }"),
                HasSubstr("per `mac`, not per `byte`"));
    EXPECT_THAT(table_error(key + "energy_pj: 1 per: \"mac\" source: \"s\" confidence: \"sure\" }"),
                HasSubstr("`sure`"));
    EXPECT_THAT(table_error("entry { component: \"array\" action: \"mac.i9\" energy_pj: 1" + rest),
                AllOf(HasSubstr("unknown key `array.mac.i9`"), HasSubstr("did you mean `array.mac.i8`?")));
    EXPECT_THAT(table_error(key + "energy_pj: 1" + rest + "\n" + key + "energy_pj: 1" + rest),
                AllOf(HasSubstr("t.textproto:3:1"), HasSubstr("twice")));
    EXPECT_THAT(table_error("entry { componnt: \"array\" }"), HasSubstr("did you mean `component`?"));
    EXPECT_THAT(error_of([] { parse_energy_table("", "t.textproto"); }),
                AllOf(HasSubstr("node_nm"), HasSubstr("vdd")));
}

/// The shipped table states source and confidence of every entry, and its corners are ordered.
TEST(Energy, ShippedTable) {
    const proto::EnergyTable table = find_energy_table("generic_16nm");
    EXPECT_EQ(table.entry_size(), 40);
    for (const auto& entry : table.entry()) {
        EXPECT_LE(entry.low(), entry.energy_pj()) << entry.action();
        EXPECT_GE(entry.high(), entry.energy_pj()) << entry.action();
        EXPECT_FALSE(entry.source().empty());
    }
}

}  // namespace
}  // namespace kpu::platforms
