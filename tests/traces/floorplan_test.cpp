// HotSpot's two files: rectangles of the units' areas that fill a die without overlap, and the energy of the chip.
#include "traces/floorplan.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <sstream>

#include "base/diagnostics.hpp"
#include "sample.hpp"
#include "traces/formats.hpp"
#include "traces/power_trace.hpp"

namespace kpu::traces {
namespace {

RunInfo random_chip(unsigned seed) {
    std::mt19937 random(seed);
    RunInfo info;
    info.program = "p", info.platform = "d";
    const int engines = 1 + static_cast<int>(random() % 9);
    for (int k = -1; k < engines; ++k) {
        const int units = 1 + static_cast<int>(random() % 6);
        for (int u = 0; u < units; ++u) {
            UnitInfo unit{fmt::format("e{}_u{}", k, u), UnitKind::nmu, k, u};
            unit.area_mm2 = std::exp(std::uniform_real_distribution<>(-6, 3)(random));
            if (random() % 8 == 0) unit.area_mm2 = 0;
            info.units.push_back(unit);
        }
    }
    info.units.push_back({"device", UnitKind::device, -1, 0});
    return info;
}

TEST(Floorplan, FillsTheDieWithoutOverlap) {
    for (unsigned seed = 1; seed <= 200; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        const RunInfo info = random_chip(seed);
        const Floorplan plan = floorplan_of(info);
        double sum = 0;
        for (const Block& a : plan.blocks) {
            const Rectangle& at = a.place;
            const double area = info.units[a.unit].area_mm2;
            sum += area;
            EXPECT_NEAR(at.width * at.height, area, 1e-9 * area);
            EXPECT_GE(at.x, -1e-9 * plan.side_mm);
            EXPECT_LE(at.x + at.width, plan.side_mm * (1 + 1e-9));
            EXPECT_LE(at.y + at.height, plan.side_mm * (1 + 1e-9));
            for (const Block& b : plan.blocks) {
                if (a.unit >= b.unit) continue;
                const double wide =
                    std::min(at.x + at.width, b.place.x + b.place.width) - std::max(at.x, b.place.x);
                const double high =
                    std::min(at.y + at.height, b.place.y + b.place.height) - std::max(at.y, b.place.y);
                EXPECT_TRUE(wide <= 1e-9 * plan.side_mm || high <= 1e-9 * plan.side_mm);
            }
        }
        EXPECT_NEAR(sum, plan.side_mm * plan.side_mm, 1e-9 * sum);
        EXPECT_EQ(plan.blocks.size() + plan.left_out.size() + 1, info.units.size());
    }
}

TEST(Floorplan, RefusesAChipWithoutAreas) {
    RunInfo info = random_chip(1);
    for (UnitInfo& unit : info.units) unit.area_mm2 = 0;
    EXPECT_THAT([&] { floorplan_of(info); },
                testing::ThrowsMessage<UserError>(testing::HasSubstr("needs the area of a unit")));
}

std::string written(const char* format, const RunInfo& info, const std::vector<Event>& events) {
    const Format& of = find_format(format);
    return test::text_of(
        [&](Output& output) { of.write(info, events, OptionValues(of.options, {}), output); });
}

// The rows times the interval are the energy of the run without its DRAM chips; names are those of the floor plan, in order.
TEST(PowerOfBlocks, SumsToTheEnergyOfTheChip) {
    test::Sample sample = test::sample_run();
    sample.info.bin_ns = 700;
    std::istringstream flp(written("flp", sample.info, sample.events)),
        power(written("ptrace", sample.info, sample.events));
    std::vector<std::string> blocks;
    for (std::string line; std::getline(flp, line);)
        if (line[0] != '#') blocks.push_back(line.substr(0, line.find('\t')));
    std::string header;
    std::getline(power, header);
    EXPECT_EQ(header, fmt::format("{}", fmt::join(blocks, "\t")));
    EXPECT_EQ(blocks, (std::vector<std::string>{"e0_nmu0", "e0_dma0", "ddr0"}));
    double joules = 0;
    for (double watts; power >> watts;) joules += watts * 700e-9;
    const EnergyTotals::Exact& exact = sample.totals.exact;
    const auto dram = static_cast<size_t>(Component::dram);
    Yoctojoules chip = exact.total() - exact.dynamic_by_component[dram] - exact.static_by_component[dram];
    // what no unit of the sample is known to burn has no block
    const PowerTrace whole =
        power_trace(sample.info, Events(sample.events), sample.info.end_ps, {true, false, true});
    chip -= whole.units.back().of(0) + whole.units[3].of(0);
    EXPECT_NEAR(joules, uj_of(chip) * 1e-6, 1e-12 * joules);
    EXPECT_GT(joules, 0);
}

}  // namespace
}  // namespace kpu::traces
