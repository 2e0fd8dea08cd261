#include "tests/accuracy/energy_table.hpp"

#include <fmt/format.h>

#include <memory>
#include <stdexcept>
#include <vector>

#include "platforms/platform.hpp"
#include "runtime/simulation.hpp"
#include "tests/accuracy/resnet50_program.hpp"

namespace kpu::accuracy {
namespace {

/// A figure, what the worked estimate has (empty: nothing), and the band in which it is plausible.
struct Figure {
    std::string name, unit;
    double value;
    std::string estimate;
    double low = 0, high = 0;  ///< equal: no band
};

std::vector<Figure> figures(const traces::StatSet& stats) {
    const auto mj = [&](const std::string& key) { return stats.real("energy." + key) / 1000; };
    const auto dynamic = [&](const std::string& component) {
        return mj("by_component." + component + "_uj") - mj("static." + component + "_uj");
    };
    double on_chip_static = 0, on_chip = 0;
    for (const char* component : {"array", "l1", "l2", "noc", "vector", "dma", "ctrl"}) {
        on_chip_static += mj(fmt::format("static.{}_uj", component));
        on_chip += mj(fmt::format("by_component.{}_uj", component));
    }
    const double total = mj("total_uj"), ms = stats.real("time.total_us") / 1000;
    const auto macs = static_cast<double>(stats.integer("ops.macs"));
    const double dram_mb =
        static_cast<double>(stats.integer("bytes.dram.read") + stats.integer("bytes.dram.write")) / 1e6;
    return {
        {"multiply-accumulates", "G", macs / 1e9, "4.09", 4.08, 4.10},
        {"time", "ms", ms, "38 (34 to 43)", 34, 43},
        {"DRAM traffic", "MB", dram_mb, "38 (26 to 57)", 26, 57},
        {"array, dynamic", "mJ", dynamic("array"), "1.55"},
        {"L1, dynamic", "mJ", dynamic("l1"), "1.53"},
        {"L2, dynamic", "mJ", dynamic("l2"), "0.53"},
        {"interconnect and DMA, dynamic", "mJ", dynamic("noc") + dynamic("dma"), "0.56"},
        {"vector units, dynamic", "mJ", dynamic("vector"), "0.04"},
        {"chip, static", "mJ", on_chip_static, "1.90"},
        {"DRAM and its interface, dynamic", "mJ", dynamic("dram") + dynamic("phy"), "3.4"},
        {"DRAM, background and refresh", "mJ", mj("static.dram_uj"), "3.8"},
        {"DRAM interface, static", "mJ", mj("static.phy_uj"), "1.9"},
        {"total", "mJ", total, "15.2", 12, 20},
        {"average power", "W", stats.real("power.average_w"), "0.40", 0.3, 0.55},
        {"largest power in a microsecond", "W", stats.real("power.peak_w"), "below 2.7", 0, 2.9},
        {"chip alone", "pJ/MAC", on_chip * 1e9 / macs, "1.5", 0.5, 4},
        {"dynamic share", "%", 100 * mj("dynamic_uj") / total, "40 to 60", 40, 60},
    };
}

}  // namespace

std::string energy_table() {
    const auto module = std::make_shared<const Module>(resnet50());
    const auto platform = platforms::load("swkpu-v1");
    runtime::SimulationOptions options;
    options.mode = runtime::Mode::timing;
    runtime::Simulation simulation(module, &platform, options);
    if (simulation.run() != runtime::RunStatus::finished)
        throw std::runtime_error("ResNet-50 did not finish: " + simulation.deadlock_report());
    const traces::StatSet& stats = simulation.stats();
    if (stats.integer("hazards.raw") + stats.integer("hazards.war") + stats.integer("hazards.waw") != 0)
        throw std::runtime_error("the ResNet-50 program has a race");
    std::string text = "| | simulated | estimate | plausible |\n|---|---|---|---|\n";
    for (const Figure& figure : figures(stats)) {
        const bool banded = figure.high > figure.low;
        if (banded && (figure.value < figure.low || figure.value > figure.high))
            throw std::runtime_error(fmt::format("ResNet-50, {}: {:.3g} {} is outside {:g} to {:g}",
                                                 figure.name, figure.value, figure.unit, figure.low,
                                                 figure.high));
        text +=
            fmt::format("| {} | {:.3g} {} | {} | {} |\n", figure.name, figure.value, figure.unit,
                        figure.estimate, banded ? fmt::format("{:g} to {:g}", figure.low, figure.high) : "");
    }
    return text;
}

}  // namespace kpu::accuracy
