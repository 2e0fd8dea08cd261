#include "platforms/ddr.hpp"

#include "support.hpp"

namespace kpu::platforms {
namespace {

/// Every device is consistent with itself: burst, bus, data rate, row cycle, capacity, a source.
TEST(DdrDevices, AreConsistent) {
    EXPECT_THAT(ddr_device_names(), testing::ElementsAre("DDR4-3200", "LPDDR4-3200", "HBM2-2000",
                                                         "LPDDR5-6400", "DDR5-4800", "DDR3-2000-quad"));
    const double peak[] = {25.6, 12.8, 32.0, 25.6, 19.2};
    const uint64_t gib[] = {8, 2, 1, 2, 8};
    for (size_t i = 0; i < 5; ++i) {
        const proto::DdrDevice& device = rated_ddr_device(ddr_device_names()[i]);
        SCOPED_TRACE(device.name());
        EXPECT_DOUBLE_EQ(device.data_rate_mtps() * 1e-3 * device.bus_width_bits() / 8, peak[i]);
        EXPECT_DOUBLE_EQ(device.burst_bytes() / (device.burst_nck() * device.tck_ns()), peak[i]);
        EXPECT_EQ(device.trc(), device.tras() + device.trp());
        EXPECT_EQ(channel_bytes(device), gib[i] << 30);
        EXPECT_FALSE(device.source().empty());
        EXPECT_GE(device.tccd_l(), device.tccd_s());
        EXPECT_EQ(device.row_bytes() % device.burst_bytes(), 0u);
    }
}

/// At half the data rate clocks are twice as long: times stay times, bursts keep their clocks, refresh stays
/// in time.
TEST(DdrDevices, DataRate) {
    Platform platform = load("tile32", {{"ddr.data_rate_mtps", "1600"}});
    const proto::DdrDevice slow = ddr_device(platform);
    const proto::DdrDevice& rated = rated_ddr_device("DDR4-3200");
    EXPECT_DOUBLE_EQ(slow.tck_ns(), 1.25);
    EXPECT_EQ(slow.cl(), 11u);
    EXPECT_EQ(slow.tras(), 26u);
    EXPECT_EQ(slow.burst_nck(), rated.burst_nck());
    EXPECT_EQ(slow.tccd_s(), rated.tccd_s());
    EXPECT_EQ(slow.tccd_l(), 4u);
    EXPECT_EQ(slow.trefi(), 6240u);
    EXPECT_EQ(slow.rd_to_wr(), 11u - 8u + 6u);
    for (const uint32_t rate : {3199u, 2400u, 1333u, 100u}) {
        const proto::DdrDevice scaled = at_data_rate(rated, rate);
        for (auto [fast_clocks, clocks] :
             {std::pair(rated.trcd(), scaled.trcd()), std::pair(rated.tfaw(), scaled.tfaw()),
              std::pair(rated.trfc(), scaled.trfc())}) {
            EXPECT_GE(clocks * scaled.tck_ns(), fast_clocks * rated.tck_ns() - 1e-9) << rate;
            EXPECT_LT((clocks - 1) * scaled.tck_ns(), fast_clocks * rated.tck_ns()) << rate;
        }
        EXPECT_GE(scaled.trc(), scaled.tras() + scaled.trp()) << rate;
        EXPECT_LE(scaled.trefi() * scaled.tck_ns(), rated.trefi() * rated.tck_ns() + 1e-6) << rate;
    }
}

/// A resolved platform says what its controllers do; what it does not say is the table's default.
TEST(DdrControllers, TakeDefaultsFromTheTable) {
    const Platform platform = load("tile32", {{"ddr.controller.write_low", "3"}});
    EXPECT_EQ(platform.ddr().fidelity(), "simple");
    EXPECT_EQ(platform.ddr().ranks(), 1u);
    EXPECT_EQ(platform.ddr().controller().write_low(), 3u);
    EXPECT_EQ(platform.ddr().controller().read_queue(), default_ddr_controller().read_queue());
    EXPECT_FALSE(platform.ddr().controller().has_request_nck());  // follows controller_latency_ns
    EXPECT_EQ(load("tile32", {{"ddr.ranks", "2"}, {"ddr.size_bytes", "17179869184"}}).ddr().size_bytes(),
              uint64_t{16} << 30);
}

/// Each impossible setting is refused, naming the field and what to do.
TEST(DdrControllers, ImpossibleSettingsAreRefused) {
    const std::vector<std::pair<Overrides, std::string>> cases = {
        {{{"ddr.fidelity", "exact"}}, "must be one of simple|burst"},
        {{{"interconnect.topology", "torus"}}, "must be one of crossbar|ring|mesh"},
        {{{"interconnect.arbitration", "fair"}}, "must be one of age|round_robin|priority"},
        {{{"clock.sram_mhz", "0"}}, "`clock.sram_mhz` is 0"},
        {{{"engine.dma.priority", "256"}}, "it must be from 0 to 255"},
        {{{"l2.turnaround_cycles", "1001"}}, "it must be from 0 to 1000"},
        {{{"ddr.ranks", "3"}}, "it must be a power of two"},
        {{{"ddr.ranks", "0"}}, "`ddr.ranks` is 0"},
        {{{"ddr.channels", "0"}}, "`ddr.channels` is 0"},
        {{{"ddr.controller.read_queue", "0"}}, "`ddr.controller.read_queue` is 0"},
        {{{"ddr.controller.write_queue", "8"}}, "a write queue of 8 never reaches"},
        {{{"ddr.controller.write_low", "26"}}, "not below write_high = 26"},
        {{{"ddr.controller.write_hi", "26"}}, "did you mean `ddr.controller.write_high`?"},
        {{{"ddr.mapping", "row_bank_colum"}}, "did you mean `row_bank_column`?"},
        {{{"ddr.mapping", "col:2 bg col ba row"}}, "knows only bank_group_interleaved, row_bank_column"},
    };
    for (const auto& [overrides, expected] : cases) {
        SCOPED_TRACE(expected);
        try {
            load("tile32", overrides);
            ADD_FAILURE() << "accepted";
        } catch (const UserError& error) {
            EXPECT_THAT(error.what(), testing::HasSubstr(expected));
            EXPECT_THAT(error.what(), testing::HasSubstr("Fix: "));
        }
    }
}

/// Background power: under burst a floor that no rank leaves, and what each state costs beyond it; with one
/// state only active these add up to the standby power that simple charges throughout.
TEST(DdrControllers, PowerStatesAddUpToTheStandby) {
    const auto prices = [](const Overrides& overrides) { return energy_prices(load("tile32", overrides)); };
    const auto price_of = [](const traces::EnergyPrices& all, const std::string& action) {
        for (const traces::ActionPrice& price : all.actions)
            if (price.component == traces::Component::dram && price.action == action) return price.energy_pj;
        ADD_FAILURE() << "no price of " << action;
        return 0.0;
    };
    const auto simple = prices({}), burst = prices({{"ddr.fidelity", "burst"}});
    const double tck_ns = 0.625;
    EXPECT_NEAR(burst.dram_background_mw + price_of(burst, "state.active") / tck_ns,
                simple.dram_background_mw, 1e-9);
    EXPECT_EQ(price_of(burst, "state.precharged"), 0);
    const auto sleepy = prices({{"ddr.fidelity", "burst"}, {"ddr.controller.power_down_nck", "64"}});
    EXPECT_NEAR(sleepy.dram_background_mw + price_of(sleepy, "state.active") / tck_ns,
                simple.dram_background_mw, 1e-9);
    EXPECT_LT(sleepy.dram_background_mw, burst.dram_background_mw);
    EXPECT_EQ(price_of(sleepy, "state.precharge_power_down"), 0);
    EXPECT_NEAR(prices({{"ddr.ranks", "2"}}).dram_background_mw, 2 * simple.dram_background_mw, 1e-9);
}

}  // namespace
}  // namespace kpu::platforms
