// The controller against three other simulators' figures: tests/reference/dram.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/csv.hpp"
#include "tests/dram/support.hpp"

namespace kpu::dram {
namespace {

uint64_t integer(const Row& row, const char* column) { return std::stoull(row.at(column)); }
double real(const Row& row, const char* column) { return std::stod(row.at(column)); }

/// The traffic is that of the reference runs: checksums of addresses, directions and times.
TEST(DramReference, PatternsAreThoseOfTheReferenceRuns) {
    const std::pair<const char*, std::pair<uint64_t, uint64_t>> columns[] = {
        {"checksum_n4096_rs131072", {4096, 131072}},
        {"checksum_n65536_rs131072", {65536, 131072}},
        {"checksum_n4096_rs32768", {4096, 32768}}};
    size_t checked = 0;
    // descriptions hold commas, so cells are counted from the end
    std::ifstream file(reference_file("trace_params.csv"));
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
        const std::string name = line.substr(0, line.find(','));
        for (int i = 2; i >= 0; --i) {
            const size_t comma = line.rfind(',');
            const auto [bursts, stride] = columns[i].second;
            EXPECT_EQ(Pattern(name, bursts, stride).checksum(),
                      std::stoull(line.substr(comma + 1), nullptr, 16))
                << name;
            line.resize(comma);
            ++checked;
        }
    }
    EXPECT_EQ(checked, 24u);
}

/// Every timing and current of the platform table is that of device_params.csv.
TEST(DramReference, DevicesAreThoseOfTheParameterTable) {
    const auto rows = read_csv(reference_file("device_params.csv"));
    ASSERT_FALSE(rows.empty());
    using Get = double (*)(const proto::DdrDevice&);
    const std::map<std::string, Get> fields{
        {"data rate MT/s", [](auto& d) -> double { return d.data_rate_mtps(); }},
        {"tCK ns", [](auto& d) -> double { return d.tck_ns(); }},
        {"bus width bits", [](auto& d) -> double { return d.bus_width_bits(); }},
        {"burst bytes", [](auto& d) -> double { return d.burst_bytes(); }},
        {"burst time nCK", [](auto& d) -> double { return d.burst_nck(); }},
        {"bank groups", [](auto& d) -> double { return d.bank_groups(); }},
        {"banks per group", [](auto& d) -> double { return d.banks_per_group(); }},
        {"rows", [](auto& d) -> double { return d.rows(); }},
        {"row bytes (channel)", [](auto& d) -> double { return d.row_bytes(); }},
        {"CWL/WL nCK", [](auto& d) -> double { return d.cwl(); }},
        {"tRCD (RD/WR) nCK", [](auto& d) -> double { return d.trcd(); }},
        {"tRP nCK", [](auto& d) -> double { return d.trp(); }},
        {"tRAS nCK", [](auto& d) -> double { return d.tras(); }},
        {"tRC nCK", [](auto& d) -> double { return d.trc(); }},
        {"tRRD_S nCK", [](auto& d) -> double { return d.trrd_s(); }},
        {"tRRD_L nCK", [](auto& d) -> double { return d.trrd_l(); }},
        {"tCCD_S nCK", [](auto& d) -> double { return d.tccd_s(); }},
        {"tCCD_L nCK", [](auto& d) -> double { return d.tccd_l(); }},
        {"tFAW nCK", [](auto& d) -> double { return d.tfaw(); }},
        {"tWR nCK", [](auto& d) -> double { return d.twr(); }},
        {"tWTR_S nCK", [](auto& d) -> double { return d.twtr_s(); }},
        {"tWTR_L nCK", [](auto& d) -> double { return d.twtr_l(); }},
        {"tRTP nCK", [](auto& d) -> double { return d.trtp(); }},
        {"tRFC (ab) nCK", [](auto& d) -> double { return d.trfc(); }},
        {"tREFI nCK", [](auto& d) -> double { return d.trefi(); }},
        {"RD->WR nCK (derived)", [](auto& d) -> double { return d.rd_to_wr(); }},
        {"tPPD nCK", [](auto& d) -> double { return d.tppd(); }},
        {"VDD V", [](auto& d) -> double { return d.vdd(); }},
        {"IDD0 mA", [](auto& d) -> double { return d.idd0(); }},
        {"IDD2P", [](auto& d) -> double { return d.idd2p(); }},
        {"IDD2N", [](auto& d) -> double { return d.idd2n(); }},
        {"IDD3P", [](auto& d) -> double { return d.idd3p(); }},
        {"IDD3N", [](auto& d) -> double { return d.idd3n(); }},
        {"IDD4W", [](auto& d) -> double { return d.idd4w(); }},
        {"IDD4R", [](auto& d) -> double { return d.idd4r(); }},
        {"IDD5AB", [](auto& d) -> double { return d.idd5ab(); }},
        {"IDD6x", [](auto& d) -> double { return d.idd6(); }},
        {"devices per rank", [](auto& d) -> double { return d.devices_per_rank(); }}};
    size_t compared = 0;
    for (const Row& row : rows) {
        const std::string& parameter = row.at("parameter");
        for (const auto& [column, cell] : row) {
            if (column == "parameter") continue;
            const std::string device = column.substr(0, column.find(' '));
            const proto::DdrDevice& d = platforms::rated_ddr_device(device);
            SCOPED_TRACE(device + " " + parameter);
            if (parameter == "CL/RL nCK") {
                EXPECT_EQ(d.cl(), device == "LPDDR4-3200" ? 34 : std::stod(cell));  // RL 28 + tDQSCK 6
            } else if (parameter == "ROW_STRIDE bytes (conflict)") {
                EXPECT_EQ(row_stride(device), std::stoull(cell));
            } else if (fields.count(parameter) != 0 && !cell.empty() && cell != "-" && cell != "n/a") {
                EXPECT_DOUBLE_EQ(fields.at(parameter)(d), std::stod(cell));
                ++compared;
            }
        }
    }
    EXPECT_GE(compared, 130u);
    EXPECT_EQ(platforms::rated_ddr_device("HBM2-2000").trcd_wr(), 12u);   // "14/12"
    EXPECT_EQ(platforms::rated_ddr_device("LPDDR4-3200").trp_ab(), 34u);  // "29 pb (34 ab ...)"
    EXPECT_EQ(platforms::rated_ddr_device("LPDDR5-6400").trp_ab(), 17u);  // "15 pb / 17 ab"
}

void expect_refreshes(const ReplayResult& result, uint64_t trefi) {
    EXPECT_NEAR(static_cast<double>(result.counters.refreshes),
                std::floor(static_cast<double>(result.cycles) / static_cast<double>(trefi)), 1);
}

/// Cycles, activates and refreshes of every reference row lie in the band of three simulators.
TEST(DramReference, EveryRowLiesInTheBand) {
    size_t rows = 0;
    for (const Row& row : read_csv(reference_file("envelope.csv"))) {
        const std::string &device = row.at("device"), &pattern = row.at("pattern");
        SCOPED_TRACE(device + " " + row.at("mapping") + " " + pattern + " " + row.at("bursts"));
        const ReplayConfig config{config_of(device, mapping_of(row.at("mapping")))};
        const ReplayResult result = replay_pattern(config, device, pattern, integer(row, "bursts"));
        const double margin = real(row, "spread_pct") < 5 ? 0.02 : 0.05;
        EXPECT_GE(static_cast<double>(result.cycles), real(row, "cycles_min") * (1 - margin));
        EXPECT_LE(static_cast<double>(result.cycles), real(row, "cycles_max") * (1 + margin));
        if (pattern != "two_rd") {
            const double least = real(row, "act_min"), most = real(row, "act_max");
            EXPECT_GE(static_cast<double>(result.counters.activates), least - std::max(2.0, least * 0.03));
            EXPECT_LE(static_cast<double>(result.counters.activates), most + std::max(2.0, most * 0.03));
        }
        expect_refreshes(result, config.channel.timing.trefi);
        ++rows;
    }
    EXPECT_EQ(rows, 64u);
}

/// LPDDR5 has one simulator to compare with: cycles within 5 %.
TEST(DramReference, LpddrFiveLiesWithinFivePercentOfItsOneSimulator) {
    size_t rows = 0;
    for (const Row& row : read_csv(reference_file("results_reference.csv"))) {
        if (row.at("device") != "LPDDR5-6400") continue;
        SCOPED_TRACE(row.at("pattern") + " " + row.at("bursts"));
        const ReplayConfig config{config_of("LPDDR5-6400", mapping_of(row.at("mapping")))};
        const ReplayResult result =
            replay_pattern(config, "LPDDR5-6400", row.at("pattern"), integer(row, "bursts"));
        EXPECT_NEAR(static_cast<double>(result.cycles) / real(row, "dram_cycles"), 1, 0.05);
        expect_refreshes(result, config.channel.timing.trefi);
        ++rows;
    }
    EXPECT_EQ(rows, 16u);
}

/// Bandwidth and latency against 1 to 64 outstanding reads: inside of the simulators' band, widened by 5 %.
TEST(DramReference, OutstandingSweepLiesInTheBand) {
    struct Band {
        double bandwidth_min = 1e9, bandwidth_max = 0, latency_min = 1e9, latency_max = 0;
    };
    std::map<std::array<std::string, 5>, Band> bands;
    for (const Row& row : read_csv(reference_file("outstanding_sweep.csv"))) {
        Band& band = bands[{row.at("device"), row.at("mapping"), row.at("pattern"), row.at("bursts"),
                            row.at("max_outstanding_reads")}];
        band.bandwidth_min = std::min(band.bandwidth_min, real(row, "bw_gbps"));
        band.bandwidth_max = std::max(band.bandwidth_max, real(row, "bw_gbps"));
        band.latency_min = std::min(band.latency_min, real(row, "avg_rd_lat_cyc"));
        band.latency_max = std::max(band.latency_max, real(row, "avg_rd_lat_cyc"));
    }
    EXPECT_EQ(bands.size(), 56u);
    for (const auto& [key, band] : bands) {
        SCOPED_TRACE(key[0] + " " + key[2] + ", outstanding " + key[4]);
        ReplayConfig config{config_of(key[0], mapping_of(key[1]))};
        config.max_outstanding = static_cast<uint32_t>(std::stoul(key[4]));
        const uint64_t bursts = std::stoull(key[3]);
        const ReplayResult result = replay_pattern(config, key[0], key[2], bursts);
        const double bandwidth = 64.0 * static_cast<double>(bursts) /
                                 (static_cast<double>(result.cycles) * config.channel.timing.tck_ns);
        EXPECT_GE(bandwidth, band.bandwidth_min * 0.95);
        EXPECT_LE(bandwidth, band.bandwidth_max * 1.05);
        EXPECT_GE(result.read_latency.average, band.latency_min * 0.95);
        EXPECT_LE(result.read_latency.average, band.latency_max * 1.05);
    }
}

}  // namespace
}  // namespace kpu::dram
