#include "runtime/functional_estimate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/device/device.hpp"
#include "model/timing/systolic.hpp"

namespace kpu::runtime {
namespace {

/// Returns core cycles of the program's array work on all arrays of the device at peak.
double compute_cycles(const BoundProgram& program, const execution::FunctionalDriver& driver,
                      const platforms::Platform& platform) {
    const auto engines = platforms::engines_of(platform);
    const double array_cycles = static_cast<double>(platforms::array_clock(platform).hz()) /
                                static_cast<double>(platforms::core_clock(platform).hz());  // in a core cycle
    double cycles = 0;
    for (size_t i = 0; i < program.tasks.size(); ++i) {
        const BoundTask& task = program.tasks[i];
        if (task.macs == 0 || task.inputs.size() < 2) continue;
        const ElemType a = program.regions[task.inputs[0]].elem, b = program.regions[task.inputs[1]].elem;
        double macs_per_cycle = 0;
        for (const proto::Engine& engine : engines) {
            const auto array = timing::array_for(engine.array(), a, b);
            macs_per_cycle += static_cast<double>(array.rows * array.cols) * array.rate *
                              engine.array().count() * array_cycles;
        }
        cycles +=
            static_cast<double>(task.macs) * static_cast<double>(driver.executions()[i]) / macs_per_cycle;
    }
    return cycles;
}

/// Returns core cycles that the DRAM traffic takes at the bandwidth of all channels.
double dram_cycles(const execution::TaskTraffic& work, const platforms::Platform& platform) {
    const auto device = platforms::ddr_device(platform);
    const double bytes_per_second = static_cast<double>(platform.ddr().channels()) *
                                    platform.ddr().data_rate_mtps() * 1e6 * device.bus_width_bits() / 8;
    const auto ddr = static_cast<size_t>(Level::ddr);
    const auto bytes = static_cast<double>(work.read[ddr] + work.written[ddr]);
    return bytes / bytes_per_second * static_cast<double>(platforms::core_clock(platform).hz());
}

}  // namespace

Cycles estimate_cycles(const BoundProgram& program, const execution::FunctionalDriver& driver,
                       const std::optional<platforms::Platform>& platform) {
    if (!platform) return 0;
    const double bound =
        std::max(compute_cycles(program, driver, *platform), dram_cycles(driver.total_traffic(), *platform));
    return static_cast<Cycles>(std::ceil(bound));
}

void functional_stats(const BoundProgram& program, const execution::FunctionalDriver& driver,
                      const std::optional<platforms::Platform>& platform, traces::StatSet& stats) {
    const auto work = driver.total_traffic();
    stats.set("ops.macs", work.macs, "MAC", "multiply-accumulates done");
    stats.set("tasks.completed", driver.completed(), "count", "task instances that completed");
    static constexpr std::string_view levels[] = {"dram", "l2", "l1"};
    for (size_t i = 0; i < 3; ++i) {
        stats.set(fmt::format("bytes.{}.read", levels[i]), work.read[i], "byte", "bytes that tasks read");
        stats.set(fmt::format("bytes.{}.write", levels[i]), work.written[i], "byte",
                  "bytes that tasks wrote");
    }
    model::hazard_statistics(driver.hazards(), stats);
    if (platform) {
        stats.set(
            "cycles.estimate", estimate_cycles(program, driver, platform), "cycle",
            "roofline bound: array work at peak or DRAM traffic at peak bandwidth, the larger; no model ran");
    }
}

}  // namespace kpu::runtime
