#include "runtime/cli/long_run.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>

#include "base/host_memory.hpp"
#include "runtime/cli/command.hpp"
#include "runtime/cli/ending.hpp"
#include "traces/report.hpp"

namespace kpu::cli {
namespace {

/// A run that records stops when no more than this is left beside what ordering its records takes: it records
/// at most so much between two looks, or its files need it.
constexpr uint64_t reserve_bytes = 256u << 20;
constexpr auto look_every = std::chrono::milliseconds(100);

/// Whether a run that records has to end for its records to be kept.
bool memory_is_low(const runtime::Simulation& simulation) {
    const uint64_t available = available_bytes();
    return available > 0 && available < reserve_bytes + runtime::ordering_bytes(simulation.recorded());
}

std::string size_text(double bytes) {
    return traces::bytes_text(static_cast<uint64_t>(std::min(bytes, 1e18)));
}

}  // namespace

void LongRun::prepare(const BoundProgram& program, const runtime::SimulationOptions& options) {
    const runtime::RunEstimate estimate = runtime::estimate_run(program, options);
    tasks_ = estimate.tasks;
    recording_ = options.record_events;
    const auto available = static_cast<double>(available_bytes());
    if (available == 0 || estimate.bytes() <= available) return;
    const bool limited = time_limit() > 0 || options.max_cycles != UINT64_MAX;
    const std::string what = fmt::format(
        "the run may need {} of memory ({} for its data, {} for its events), and {} are "
        "available",
        size_text(estimate.bytes()), size_text(estimate.values_bytes), size_text(estimate.event_bytes),
        size_text(available));
    if (estimate.event_bytes > available && !limited) {
        throw UserError(what +
                        ". Fix: leave the traces out, or limit the run with --max-cycles or --timeout: it "
                        "then keeps what "
                        "it has when the memory is nearly used up.");
    }
    print_err("warning: " + what +
              ". Fix: use --mode timing, fewer traces, or a machine with more memory.\n");
}

runtime::RunStatus LongRun::run(runtime::Simulation& simulation, bool watched) {
    using Clock = std::chrono::steady_clock;
    const KeepsPartialResults keeps;
    const auto begin = Clock::now();
    auto next_look = begin, next_line = begin + std::chrono::seconds(2);
    bool shown = false;
    const auto status = simulation.run(&interrupted, [&](Cycles cycle, uint64_t tasks) {
        const auto now = Clock::now();
        if (recording_ && now >= next_look) {
            next_look = now + look_every;
            if (memory_is_low(simulation)) {
                stop_ = Stop::memory;
                interrupted = true;
            }
        }
        if (!watched || now < next_line) return;
        next_line = now + std::chrono::seconds(1);
        const double seconds = std::chrono::duration<double>(now - begin).count();
        const double share = tasks_ > 0 ? std::min(1.0, static_cast<double>(tasks) / tasks_) : 0;
        print_err(fmt::format("\r{} cycles, {} tasks done ({:.1f} %), {:.3g} M cycles/s ", cycle, tasks,
                              100 * share, static_cast<double>(cycle) / seconds / 1e6));
        shown = true;
    });
    if (shown) print_err("\n");
    if (status != runtime::RunStatus::interrupted) {
        stop_ = Stop::none;
    } else if (time_is_up()) {
        stop_ = Stop::time;
    }
    return status;
}

}  // namespace kpu::cli
