// Areas of published chips beside ours: inside our band, with the errors that area.md states.
#include <cmath>

#include "base/read_file.hpp"
#include "platforms/area.hpp"
#include "support.hpp"

namespace kpu::platforms {
namespace {

using traces::UnitInfo;

struct Die {
    const char* name;
    double published_mm2;
    Area ours;
};

Area memory(uint64_t kibibytes, uint32_t banks, uint32_t width_bytes, uint32_t node_nm) {
    proto::Sram sram;
    sram.set_size_bytes(1024 * kibibytes);
    sram.set_banks(banks);
    sram.set_bank_width_bytes(width_bytes);
    sram.set_ports(2);
    sram.set_bytes_per_cycle(width_bytes);
    return sram_area(sram, node_nm);
}

/// Cells of an array with one type.
Area array(uint32_t rows, uint32_t cols, const char* type, uint32_t node_nm) {
    Platform platform = load("gemmini16");
    proto::SystolicArray& array = *platform.mutable_engine(0)->mutable_array();
    array.set_rows(rows);
    array.set_cols(cols);
    array.mutable_rate(0)->set_type(type);
    const UnitInfo unit{"e0_nmu0", UnitKind::nmu, 0};
    return area_of(platform, {unit}, node_nm).rows.at(0).area;
}

/// Returns a row of NVDLA's table: an array, its buffer, a vector unit, four DMA units, a sequencer.
Area nvdla(uint32_t macs, uint64_t buffer_kib, uint32_t node_nm) {
    Platform platform = load("gemmini16");
    proto::Engine& engine = *platform.mutable_engine(0);
    engine.mutable_array()->set_rows(8);
    engine.mutable_array()->set_cols(macs / 8);
    engine.mutable_vector()->set_lanes(std::max(1u, macs / 128));
    engine.mutable_l1()->set_size_bytes(1024 * buffer_kib);
    engine.mutable_l1()->set_banks(macs > 64 ? 16 : 32);
    engine.mutable_l1()->set_bank_width_bytes(std::clamp(macs / 32, 8u, 64u));
    engine.mutable_l1()->set_ports(2);
    std::vector<UnitInfo> units{{"e0_nmu0", UnitKind::nmu, 0},
                                {"e0_cstl0", UnitKind::cstl, 0},
                                {"e0_l1", UnitKind::l1, 0},
                                {"e0_seq", UnitKind::seq, 0}};
    for (int i = 0; i < 4; ++i) units.push_back({fmt::format("e0_dma{}", i), UnitKind::dma, 0});
    const AreaReport report = area_of(platform, units, node_nm);
    return {report.mm2, report.low, report.high, "", "", ""};
}

/// Returns one chip of Simba: 16 processing elements of 64 MACs and 43 KiB, 64 KiB of global buffer, a RISC-V
/// core.
Area simba() {
    Platform platform = load("gemmini16");
    proto::Engine& engine = *platform.mutable_engine(0);
    engine.mutable_array()->set_rows(8);
    engine.mutable_array()->set_cols(8);
    engine.mutable_vector()->set_lanes(8);
    engine.mutable_l1()->set_size_bytes(43 * 1024);
    engine.mutable_l1()->set_banks(8);
    engine.mutable_l1()->set_bank_width_bytes(8);
    engine.mutable_l1()->set_ports(2);
    platform.mutable_l2()->set_size_bytes(64 * 1024);
    platform.mutable_l2()->set_ports(2);
    engine.set_count(16);
    std::vector<UnitInfo> units{{"e0_seq", UnitKind::seq, 0}, {"l2", UnitKind::l2, -1}};
    for (int k = 0; k < 16; ++k) {
        units.push_back({"nmu", UnitKind::nmu, k});
        units.push_back({"cstl", UnitKind::cstl, k});
        units.push_back({"l1", UnitKind::l1, k});
        units.push_back({"link", UnitKind::link, k});
    }
    const AreaReport report = area_of(platform, units, 16);
    return {report.mm2, report.low, report.high, "", "", ""};
}

Area interface(const char* device, uint32_t node_nm) {
    const Platform platform = load("tile32", {{"ddr.device", device}});
    const UnitInfo unit{"ddr0", UnitKind::ddr, -1};
    return area_of(platform, {unit}, node_nm).rows.at(0).area;
}

std::vector<Die> dies() {
    return {
        {"TPU v4i, 128 MiB of CMEM, 7 nm", 112, memory(128 * 1024, 64, 32, 7)},
        {"TPU v1, 24 MiB of unified buffer, 28 nm", 0.29 * 331, memory(24 * 1024, 256, 1, 28)},
        {"Gemmini, 256 KiB of scratchpad, Intel 22 nm", 0.544, memory(256, 4, 16, 22)},
        {"Epiphany-V, 64 MiB in 1024 cores, 16 nm", 62.4, memory(64 * 1024, 4096, 8, 16)},
        {"Cerebras WSE-2, 48 KiB of a core, 7 nm", 0.019, memory(48, 8, 8, 7)},
        {"TPU v4i, 128x128 bf16, 7 nm", 14, array(128, 128, "bf16", 7)},
        {"TPU v1, 256x256 int8, 28 nm", 0.24 * 331, array(256, 256, "i8", 28)},
        {"Gemmini, 16x16 int8, Intel 22 nm", 0.116, array(16, 16, "i8", 22)},
        {"TPU v1, a DDR3 port, 28 nm", 0.03 * 331, interface("DDR4-3200", 28)},
        {"NVDLA, 2048 MACs, 512 KiB, 16 nm", 3.3, nvdla(2048, 512, 16)},
        {"NVDLA, 1024 MACs, 256 KiB, 16 nm", 1.8, nvdla(1024, 256, 16)},
        {"NVDLA, 512 MACs, 256 KiB, 16 nm", 1.4, nvdla(512, 256, 16)},
        {"NVDLA, 256 MACs, 256 KiB, 16 nm", 1.0, nvdla(256, 256, 16)},
        {"NVDLA, 128 MACs, 256 KiB, 16 nm", 0.84, nvdla(128, 256, 16)},
        {"NVDLA, 64 MACs, 128 KiB, 16 nm", 0.55, nvdla(64, 128, 16)},
        {"NVDLA, 32 MACs, 128 KiB, 16 nm", 0.51, nvdla(32, 128, 16)},
        {"NVDLA, 2048 MACs, 512 KiB, 28 nm", 5.5, nvdla(2048, 512, 28)},
        {"NVDLA, 256 MACs, 256 KiB, 28 nm", 1.7, nvdla(256, 256, 28)},
        {"NVDLA, 32 MACs, 128 KiB, 28 nm", 0.85, nvdla(32, 128, 28)},
        {"Simba, one chip without its links to others, 16 nm", 4.01 / 1.29, simba()},
    };
}

TEST(AreaDies, InsideTheBand) {
    for (const Die& die : dies()) {
        SCOPED_TRACE(die.name);
        EXPECT_GE(die.published_mm2, die.ours.low);
        EXPECT_LE(die.published_mm2, die.ours.high);
    }
}

/// The page's table has each of them, with our figure, band and error.
TEST(AreaDies, PageHasTheErrors) {
    const std::string page = read_file(KPUSIM_SOURCE_DIR "/platforms/area.md");
    for (const Die& die : dies()) {
        const int error = static_cast<int>(std::lround(100 * (die.ours.mm2 / die.published_mm2 - 1)));
        EXPECT_THAT(page, testing::HasSubstr(fmt::format(
                              "| {} | {:.3g} | {:.3g} | {:.3g} to {:.3g} | {:+} % |\n", die.name,
                              die.published_mm2, die.ours.mm2, die.ours.low, die.ours.high, error)));
    }
}

}  // namespace
}  // namespace kpu::platforms
