#include "runtime/validation/row_runner.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/text.hpp"
#include "runtime/simulation.hpp"
#include "runtime/validation/schedule.hpp"

namespace kpu::validation {
namespace {

Causes causes_of(const traces::StatSet& stats, double cycles) {
    constexpr std::string_view unit = "units.e0_nmu0.";
    Causes causes;
    double most = 0;
    for (const auto& [key, stat] : stats.all()) {
        if (!starts_with(key, unit)) continue;
        const std::string_view cause = std::string_view(key).substr(unit.size());
        const double share = stats.real(key) / cycles;
        if (cause == "busy.useful")
            causes.useful = share;
        else if (cause == "busy.fill_drain")
            causes.fill_drain = share;
        else if (cause == "busy.padding")
            causes.padding = share;
        else if (starts_with(cause, "stalled.")) {
            causes.stalled += share;
            if (share > most)
                most = share, causes.largest = cause.substr(std::string_view("stalled.").size());
        }
    }
    return causes;
}

Run run_program(Module module, const platforms::Platform& platform, const std::atomic<bool>* interrupt) {
    runtime::SimulationOptions options;
    options.mode = runtime::Mode::timing;
    options.hazards = false;  // what adds to sums in order has no tokens for it: see measured_schedule()
    runtime::Simulation simulation(std::make_shared<const Module>(std::move(module)), &platform, options);
    const execution::RunStatus status = simulation.run(interrupt);
    if (status == execution::RunStatus::deadlock) throw InternalError(simulation.deadlock_report());
    Run result;
    result.cycles = double(simulation.now());
    result.causes = causes_of(simulation.stats(), result.cycles);
    result.dram_bytes =
        simulation.stats().real("bytes.dram.read") + simulation.stats().real("bytes.dram.write");
    return result;
}

/// Returns the sum of two runs, one after the other.
Run both(const Run& first, const Run& second) {
    Run sum;
    sum.cycles = first.cycles + second.cycles;
    sum.dram_bytes = first.dram_bytes + second.dram_bytes;
    const double share = second.cycles / sum.cycles, rest = 1 - share;
    const auto mean = [&](double a, double b) { return a * rest + b * share; };
    const Causes &a = first.causes, &b = second.causes;
    sum.causes.useful = mean(a.useful, b.useful);
    sum.causes.fill_drain = mean(a.fill_drain, b.fill_drain);
    sum.causes.padding = mean(a.padding, b.padding);
    sum.causes.stalled = mean(a.stalled, b.stalled);
    sum.causes.largest = b.stalled * share > a.stalled * rest ? b.largest : a.largest;
    return sum;
}

}  // namespace

RowRunner::RowRunner(const platforms::Platform& platform, const std::atomic<bool>* interrupt)
    : platform_(platform), behind_(platform), interrupt_(interrupt) {
    behind_.mutable_sequencer()->set_launch_cycles(0);
}

Run RowRunner::run(Module module) { return run_program(std::move(module), platform_, interrupt_); }

Run RowRunner::run(const MeasuredRow& row) {
    if (row.mapped) return run(mapped_schedule(*row.mapped, platform_));
    if (row.kernels.empty()) return run(measured_schedule(row, platform_));
    Run sum;
    for (size_t i = 0; i < row.kernels.size(); ++i) {
        const Kernel& kernel = row.kernels[i];
        const std::string text = fmt::format("{} {}", i == 0, kernel.text());
        auto found = known_.find(text);
        if (found == known_.end()) {
            const platforms::Platform& used = i == 0 ? platform_ : behind_;
            found = known_.emplace(text, run_program(kernel_program(kernel, used), used, interrupt_)).first;
        }
        sum = i == 0 ? found->second : both(sum, found->second);
    }
    return sum;
}

void to_cycles(MeasuredRow& row, const platforms::Platform& platform) {
    const double mhz = platform.clock().core_mhz();
    row.cycles *= mhz, row.least *= mhz, row.most *= mhz;
    row.in_microseconds = false;
}

}  // namespace kpu::validation
