#include "platforms/ddr.hpp"

#include "support.hpp"

namespace kpu::platforms {
namespace {

/// Every device is consistent with itself: burst, bus, data rate, row cycle, capacity, a source.
TEST(DdrDevices, AreConsistent) {
    EXPECT_THAT(ddr_device_names(),
                testing::ElementsAre("DDR4-3200", "LPDDR4-3200", "HBM2-2000", "LPDDR5-6400"));
    const double peak[] = {25.6, 12.8, 32.0, 25.6};
    const uint64_t gib[] = {8, 2, 1, 2};
    for (size_t i = 0; i < 4; ++i) {
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
        EXPECT_LE(scaled.trefi() * scaled.tck_ns(), rated.trefi() * rated.tck_ns() + 1e-6) << rate;
    }
}

}  // namespace
}  // namespace kpu::platforms
