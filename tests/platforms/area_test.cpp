#include "platforms/area.hpp"

#include <cmath>
#include <random>

#include "isa/unit_kind.hpp"
#include "platforms/area_sram.hpp"
#include "platforms/units.hpp"
#include "support.hpp"

namespace kpu::platforms {
namespace {

using testing::HasSubstr;
using traces::Component;
using traces::UnitInfo;

constexpr double kib = 1024, mib = 1024 * kib;

/// Returns the units of a device whose engines are joined by a crossbar.
std::vector<UnitInfo> units_of(const Platform& platform) {
    std::vector<UnitInfo> units;
    const auto add = [&](UnitKind kind, int engine, uint32_t count, std::string name = "") {
        for (uint32_t i = 0; i < count; ++i)
            units.push_back({name.empty() ? fmt::format("{}{}", row_of(kind).name, i) : name, kind, engine});
    };
    const Engines engines = engines_of(platform);
    for (size_t k = 0; k < engines.size(); ++k) {
        const int number = static_cast<int>(k);
        for (const UnitKind kind :
             {UnitKind::nmu, UnitKind::cstl, UnitKind::vpu, UnitKind::dma, UnitKind::seq})
            add(kind, number, unit_count(platform, &engines[k].get(), kind));
        add(UnitKind::link, number, 1, fmt::format("e{}_link", k));
        add(UnitKind::l1, number, 1);
    }
    add(UnitKind::sdma, -1, unit_count(platform, nullptr, UnitKind::sdma));
    add(UnitKind::link, -1, 1, "link_sys");
    add(UnitKind::l2, -1, 1);
    add(UnitKind::ddr, -1, platform.ddr().channels());
    add(UnitKind::device, -1, 1);
    return units;
}

AreaReport area_at(const Platform& platform, uint32_t node_nm = 16) {
    return area_of(platform, units_of(platform), node_nm);
}

Area sum_of(const AreaReport& report, Component component) {
    Area sum;
    for (const AreaRow& row : report.rows) {
        if (row.component != component) continue;
        sum.mm2 += row.area.mm2;
        sum.low += row.area.low;
        sum.high += row.area.high;
        sum.not_modelled += row.area.not_modelled;
    }
    return sum;
}

/// The table at its points is as it stands, between them between its neighbours, and beyond them as area.md says.
TEST(AreaSram, Interpolation) {
    const SramTable& table = SramTable::shipped();
    const auto& points = table.points();
    ASSERT_EQ(points.mm2.size(), points.width_bytes.size());
    for (size_t w = 0; w < points.width_bytes.size(); ++w) {
        ASSERT_EQ(points.mm2[w].size(), points.size_bytes.size());
        for (size_t s = 0; s < points.size_bytes.size(); ++s) {
            EXPECT_EQ(table.macro_mm2(points.size_bytes[s], points.width_bytes[w]), points.mm2[w][s]);
            if (s + 1 == points.size_bytes.size()) continue;
            const double middle = table.macro_mm2(std::sqrt(points.size_bytes[s] * points.size_bytes[s + 1]),
                                                  points.width_bytes[w]);
            EXPECT_NEAR(middle, std::sqrt(points.mm2[w][s] * points.mm2[w][s + 1]), 1e-12);
        }
    }
    const double largest = points.size_bytes.back(), widest = points.width_bytes.back();
    EXPECT_DOUBLE_EQ(table.macro_mm2(3 * largest, widest), 3 * table.macro_mm2(largest, widest));
    EXPECT_DOUBLE_EQ(table.macro_mm2(64 * kib, 4 * widest), 4 * table.macro_mm2(16 * kib, widest));
    EXPECT_EQ(table.macro_mm2(100, 4), points.mm2[0][0]);
    EXPECT_EQ(table.macro_mm2(64 * kib, 1), table.macro_mm2(64 * kib, points.width_bytes.front()));
}

/// Between 0 and 1 times as much for twice the size, and never less for twice the width.
TEST(AreaSram, TableGrows) {
    const auto& points = SramTable::shipped().points();
    for (size_t w = 0; w < points.width_bytes.size(); ++w) {
        for (size_t s = 0; s < points.size_bytes.size(); ++s) {
            const double here = points.mm2[w][s];
            EXPECT_GT(here, points.size_bytes[s] * 8 * SramTable::cell_um2 * 1e-6) << "less than its cells";
            if (s > 0) {
                EXPECT_GE(here, points.mm2[w][s - 1]);
                EXPECT_LE(here / points.size_bytes[s],
                          points.mm2[w][s - 1] / points.size_bytes[s - 1] * (1 + 1e-9));
            }
            if (w > 0) {
                EXPECT_GE(here, points.mm2[w - 1][s]);
            }
        }
    }
}

/// swkpu-v1 by hand: cells, lanes, channels, links and sequencer times their figures.
TEST(Area, HandComputed) {
    const Platform platform = load("swkpu-v1");
    const AreaReport report = area_at(platform);
    EXPECT_DOUBLE_EQ(sum_of(report, Component::array).mm2, 256 * 0.0015);  // it has f16
    EXPECT_DOUBLE_EQ(sum_of(report, Component::array).low, 256 * 0.00075);
    EXPECT_DOUBLE_EQ(sum_of(report, Component::vector).mm2, 2 * 16 * 0.01);
    EXPECT_DOUBLE_EQ(sum_of(report, Component::dma).mm2, 4 * 0.05);
    EXPECT_DOUBLE_EQ(sum_of(report, Component::noc).high, 2 * 64 * 0.0006);
    EXPECT_DOUBLE_EQ(sum_of(report, Component::ctrl).mm2, 0.1);
    EXPECT_DOUBLE_EQ(sum_of(report, Component::phy).mm2, 2 * 32 * 0.11);
    // a bank of 64 bytes is two macros side by side; 4 ports and 16 banks of 512 bits, both ways
    const double l2 = 16 * 2 * SramTable::shipped().macro_mm2(64 * kib, 32) * 0.07 / 0.0707;
    EXPECT_NEAR(sum_of(report, Component::l2).mm2, 1.7 * l2 + 2 * 4 * 16 * 512 * 8.6e-7, 1e-9);
    double sum = 0;
    for (const AreaRow& row : report.rows) {
        EXPECT_LE(row.area.low, row.area.mm2);
        EXPECT_GE(row.area.high, row.area.mm2);
        EXPECT_FALSE(row.area.source.empty()) << row.unit;
        sum += row.area.mm2;
    }
    EXPECT_DOUBLE_EQ(report.mm2, sum);
    EXPECT_EQ(report.rows.size() + 1, units_of(platform).size());  // the device itself has no area
}

/// f32 cells are larger than those of f16, these than those of integers; a smaller node makes all smaller, none grow.
TEST(Area, TypesAndNodes) {
    const auto cells = [](const char* name) {
        return sum_of(area_at(load(name, {{"engine.array.rows", "32"}, {"engine.array.cols", "32"}})),
                      Component::array)
            .mm2;
    };
    EXPECT_DOUBLE_EQ(cells("tile32"), 1024 * 0.003);
    EXPECT_DOUBLE_EQ(cells("edge16"), 1024 * 0.0015);
    EXPECT_DOUBLE_EQ(cells("gemmini16"), 1024 * 0.0006);
    const Platform platform = load("npm_mid");
    double before = 0;
    for (uint32_t node = 5; node <= 65; ++node) {
        const AreaReport report = area_at(platform, node);
        EXPECT_GT(report.low, 0);
        EXPECT_GT(report.mm2, before) << node;
        before = report.mm2;
    }
}

/// Checks that parts without a figure say why and count nothing: HBM's interface, every unit at a node
/// without one.
TEST(Area, NotModelled) {
    const AreaReport hbm = area_at(load("core128-hbm2"));
    const Area phy = sum_of(hbm, Component::phy);
    EXPECT_THAT(phy.not_modelled, HasSubstr("HBM"));
    EXPECT_EQ(phy.high, 0);
    EXPECT_GT(hbm.mm2, 0);
    for (const uint32_t node : {3u, 4u, 90u, 180u}) {
        const AreaReport report = area_at(load("swkpu-v1"), node);
        EXPECT_EQ(report.high, 0);
        for (const AreaRow& row : report.rows)
            EXPECT_EQ(row.area.not_modelled,
                      fmt::format("areas are known from 5 to 65 nm, and the node is {} nm", node));
    }
    EXPECT_THAT(sram_area(load("edge16").l2(), 90).not_modelled, HasSubstr("65 nm"));
    const UnitInfo strange{"other0", UnitKind::wdm, -1};
    const AreaReport report = area_of(load("edge16"), {strange}, 16);
    EXPECT_THAT(report.rows.at(0).area.not_modelled, HasSubstr("this kind"));
}

/// Banks that CACTI is not made for are said.
TEST(Area, DoubtfulBanks) {
    const auto source = [](const char* size, const char* banks, const char* width, const char* ports) {
        return sram_area(load("edge16", {{"l2.size_bytes", size},
                                         {"l2.banks", banks},
                                         {"l2.bank_width_bytes", width},
                                         {"l2.interleave_bytes", width},
                                         {"l2.ports", ports}})
                             .l2(),
                         16)
            .note;
    };
    EXPECT_THAT(source("524288", "8", "32", "4"), testing::Not(HasSubstr("reliable")));
    EXPECT_THAT(source("32768", "64", "16", "4"),
                HasSubstr("not reliable for banks of 512 bytes and 32 words, which count as 1024"));
    EXPECT_THAT(source("524288", "8", "128", "4"), HasSubstr("4 macros of 32 bytes a word side by side"));
    EXPECT_THAT(source("268435456", "8", "32", "4"), HasSubstr("several of 16 MiB"));
    EXPECT_THAT(source("524288", "8", "32", "200"), HasSubstr("beyond the published one's 128"));
}

/// Whatever the device, more or larger parts never take less area, nominal, low or high.
TEST(Area, NeverDecreasesWhenASizeGrows) {
    const struct {
        const char* path;
        double least, most;
    } sizes[] = {{"engine.count", 1, 4},
                 {"engine.array.count", 1, 4},
                 {"engine.array.rows", 1, 256},
                 {"engine.array.cols", 1, 256},
                 {"engine.vector.cstl_count", 1, 8},
                 {"engine.vector.vpu_count", 0, 4},
                 {"engine.vector.lanes", 1, 256},
                 {"engine.l1.size_bytes", 4096, 16 * mib},
                 {"engine.l1.banks", 1, 128},
                 {"engine.l1.bank_width_bytes", 1, 256},
                 {"engine.l1.ports", 1, 32},
                 {"engine.l1.bytes_per_cycle", 1, 1024},
                 {"engine.dma.channels", 1, 8},
                 {"engine.dma.bytes_per_cycle", 1, 512},
                 {"l2.size_bytes", 16384, 256 * mib},
                 {"l2.banks", 1, 256},
                 {"l2.bank_width_bytes", 1, 256},
                 {"l2.ports", 1, 64},
                 {"l2.bytes_per_cycle", 1, 1024},
                 {"system_dma.channels", 0, 8},
                 {"system_dma.bytes_per_cycle", 1, 512},
                 {"interconnect.link_bytes_per_cycle", 1, 1024},
                 {"interconnect.system_link_bytes_per_cycle", 1, 1024},
                 {"sequencer.max_active_tokens", 1, 512},
                 {"ddr.channels", 1, 16}};
    std::mt19937 random(56);
    const auto draw = [&](double low, double high) {
        return low + (high - low) * std::uniform_real_distribution<>()(random);
    };
    const auto powers_of_two = [](const std::string& path) { return path.find("bank") != std::string::npos; };
    for (int round = 0; round < 40; ++round) {
        Platform platform = load(round % 2 == 0 ? "edge16" : "tile32");
        const auto set = [](Platform& at, const std::string& path, double value) {
            apply_override(at, path, fmt::format("{:.0f}", value));
        };
        std::vector<double> values;
        for (const auto& size : sizes) {
            double value =
                std::floor(std::exp2(draw(std::log2(std::max(size.least, 0.5)), std::log2(size.most))));
            if (powers_of_two(size.path)) value = std::exp2(std::floor(std::log2(std::max(1.0, value))));
            set(platform, size.path, value);
            values.push_back(value);
        }
        const uint32_t node = 5 + random() % 61;
        const AreaReport before = area_at(platform, node);
        for (size_t i = 0; i < std::size(sizes); ++i) {
            const std::string path = sizes[i].path;
            Platform larger = platform;
            const double grown =
                powers_of_two(path) ? 2 * values[i] : std::ceil(values[i] * draw(1, 3)) + (random() % 2);
            set(larger, path, grown);
            const AreaReport after = area_at(larger, node);
            const auto grows = [&](double was, double is) {
                EXPECT_GE(is, was * (1 - 1e-9))
                    << path << " " << values[i] << " -> " << grown << " at " << node << " nm";
            };
            grows(before.mm2, after.mm2);
            grows(before.low, after.low);
            grows(before.high, after.high);
        }
    }
}

/// Leakage takes its areas from the same figures.
TEST(Area, LeakageHasTheSameAreas) {
    const Platform platform = load("npm_mid", {{"energy.corner", "nominal"}});
    const auto parts = energy_parts(platform);
    const AreaReport report = area_at(platform);
    const traces::EnergyPrices prices = energy_prices(platform);
    // sequencers: 15 mW a mm2, and 20 % of the peak of their 2 instructions in dispatch_cycles
    const double clock =
        0.2 * 2 / platform.sequencer().dispatch_cycles() * 35 * platform.clock().core_mhz() * 1e-3;
    const auto& ctrl = prices.statics.at(static_cast<size_t>(Component::ctrl));
    EXPECT_NEAR(ctrl.on_mw, 15 * sum_of(report, Component::ctrl).mm2 + clock, 1e-9);
    EXPECT_FALSE(parts.empty());
}

}  // namespace
}  // namespace kpu::platforms
