#include "runtime/cli/long_run.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>

#include "base/host_memory.hpp"
#include "base/scratch_file.hpp"
#include "runtime/cli/command.hpp"
#include "runtime/cli/ending.hpp"
#include "traces/event_log.hpp"
#include "traces/report.hpp"

namespace kpu::cli {
namespace {

/// A run that records stops when no more than this is left: its log goes to disk in pieces of this size, and its files
/// need some.
constexpr uint64_t reserve_memory = 2 * traces::EventLog::usual_memory,
                   reserve_disk = 4 * traces::EventLog::usual_memory;
constexpr auto look_every = std::chrono::milliseconds(100);

std::string size_text(double bytes) {
    return traces::bytes_text(static_cast<uint64_t>(std::min(bytes, 1e18)));
}

}  // namespace

void LongRun::prepare(const BoundProgram& program, const runtime::SimulationOptions& options) {
    const runtime::RunEstimate estimate = runtime::estimate_run(program, options);
    tasks_ = estimate.tasks;
    recording_ = options.record_events;
    if (recording_) ScratchFile();  // a folder that takes none is told before the run
    const bool limited = time_limit() > 0 || options.max_cycles != UINT64_MAX;
    const auto memory = static_cast<double>(available_bytes()), disk = static_cast<double>(scratch_bytes());
    if (disk > 0 && estimate.event_bytes > disk && !limited) {
        throw UserError(
            fmt::format("the events of the run may need {} of disk, and {} has {}. Fix: leave the traces "
                        "out, set TMPDIR to a "
                        "folder on a larger disk, or limit the run with --max-cycles or --timeout: it then "
                        "keeps what it has "
                        "when the disk is nearly full.",
                        size_text(estimate.event_bytes), scratch_folder(), size_text(disk)));
    }
    if (memory > 0 && estimate.values_bytes > memory)
        print_err(
            fmt::format("warning: the run may need {} of memory for its data, and {} are available. Fix: use "
                        "--mode timing, or a machine with more memory.\n",
                        size_text(estimate.values_bytes), size_text(memory)));
}

runtime::RunStatus LongRun::run(runtime::Simulation& simulation, bool watched) {
    using Clock = std::chrono::steady_clock;
    simulation.prepare();  // until then a signal ends the process at once
    const KeepsPartialResults keeps;
    const auto begin = Clock::now();
    auto next_look = begin, next_line = begin + std::chrono::seconds(2);
    bool shown = false;
    const auto status = simulation.run(&interrupted, [&](Cycles cycle, uint64_t tasks) {
        const auto now = Clock::now();
        if (recording_ && now >= next_look) {
            next_look = now + look_every;
            const uint64_t memory = available_bytes(), disk = scratch_bytes();
            if (memory > 0 && memory < reserve_memory) stop_ = Stop::memory;
            if (disk > 0 && disk < reserve_disk) stop_ = Stop::disk;
            if (stop_ != Stop::none) interrupted = true;
        }
        if (!watched || now < next_line) return;
        next_line = now + std::chrono::seconds(1);
        const double seconds = std::chrono::duration<double>(now - begin).count();
        const double share = tasks_ > 0 ? std::min(1.0, static_cast<double>(tasks) / tasks_) : 0;
        print_progress(fmt::format("\r{} cycles, {} tasks done ({:.1f} %), {:.3g} M cycles/s ", cycle, tasks,
                                   100 * share, static_cast<double>(cycle) / seconds / 1e6));
        shown = true;
    });
    if (shown) print_progress("\n");
    if (status != runtime::RunStatus::interrupted) {
        stop_ = Stop::none;
    } else if (time_is_up()) {
        stop_ = Stop::time;
    }
    return status;
}

}  // namespace kpu::cli
