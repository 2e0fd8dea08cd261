// export: traces from a stored event stream, the same bytes as the run would have written.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>

#include "runtime/cli/command.hpp"
#include "traces/event_file.hpp"
#include "traces/konata.hpp"
#include "traces/memory_trace.hpp"
#include "traces/perfetto/perfetto.hpp"
#include "traces/report.hpp"
#include "traces/trace_sizes.hpp"
#include "traces/writers.hpp"

namespace kpu::cli {
namespace {

struct ExportOptions {
    std::string events;
    TracePaths traces;
    double bin_ns = 0;
};

void export_traces(const ExportOptions& options) {
    if (options.traces.empty()) {
        throw UserError(
            "nothing to export. Fix: give --vcd, --power, --stalls, --memory-trace, --perfetto or "
            "--konata with a file name.");
    }
    options.traces.check();
    auto recording = traces::read_event_file(options.events);
    if (options.bin_ns > 0) recording.info.bin_ns = options.bin_ns;
    options.traces.write(recording);
}

}  // namespace

void TracePaths::add_to(CLI::App& command) {
    command.add_option("--vcd", vcd, "unit states, queues, bandwidth and power as waveforms");
    command.add_option("--power", power, "CSV: watts per component over time");
    command.add_option("--stalls", stalls, "CSV: every interval of every unit with its cause");
    command.add_option("--memory-trace", memory, "CSV: every request to a memory");
    command.add_option("--perfetto", perfetto, "tasks, states and counters for ui.perfetto.dev");
    command
        .add_option("--perfetto-time", perfetto_time,
                    "what its nanosecond stands for: cycles (default) or ns")
        ->check(CLI::IsMember({"cycles", "ns"}));
    command.add_option("--konata", konata,
                       "tasks as rows of stages with dependencies, for the Konata viewer");
    command.add_option("--trace-window", window,
                       "A:B: traces show core cycles A to B (either may be left out)");
    command
        .add_option("--trace-filter", filter,
                    "GLOB: traces show the units whose names match, e.g. 'e0_*'; repeatable")
        ->allow_extra_args(false);
}

std::pair<Cycles, Cycles> TracePaths::parse_window() const {
    std::pair<Cycles, Cycles> result{0, ~Cycles{0}};
    if (window.empty()) return result;
    const size_t colon = window.find(':');
    if (colon == std::string::npos)
        throw UserError(
            fmt::format("--trace-window takes A:B in cycles, not `{}`. Fix: write 1000:2000.", window));
    const std::string first = window.substr(0, colon), last = window.substr(colon + 1);
    const auto cycle = [](const std::string& text) {
        const int64_t value = parse_integer(text, "--trace-window");
        if (value < 0) throw UserError("--trace-window: a cycle is negative. Fix: give 0 or more.");
        return static_cast<Cycles>(value);
    };
    if (!first.empty()) result.first = cycle(first);
    if (!last.empty()) result.second = cycle(last);
    if (result.first >= result.second)
        throw UserError(
            fmt::format("--trace-window {}: it ends before it begins. Fix: write A:B with A < B.", window));
    return result;
}

namespace {

/// The part of a recording that was asked for.
traces::TraceView view_of(const traces::RunInfo& info, std::pair<Cycles, Cycles> window,
                          const std::vector<std::string>& filter) {
    const Clock clock = info.clock();
    traces::TraceView view;
    view.units = filter;
    view.from = clock.edge(std::min(window.first, info.total_cycles));
    if (window.second < info.total_cycles) view.to = clock.edge(window.second);
    const bool none = std::none_of(info.units.begin(), info.units.end(),
                                   [&](const auto& unit) { return view.shows(unit.name); });
    if (none && !info.units.empty()) {
        std::vector<std::string> names;
        for (const auto& unit : info.units) names.push_back(unit.name);
        throw UserError(fmt::format("--trace-filter {}: no unit has such a name. Fix: choose among {}.",
                                    fmt::join(filter, " "), fmt::join(names, ", ")));
    }
    return view;
}

}  // namespace

void announce_trace(const std::string& path, uint64_t bytes) {
    constexpr uint64_t big = 256u << 20;
    if (path.empty()) return;
    if (bytes >= big)
        print_err(fmt::format("{}: about {}. --trace-window and --trace-filter make it smaller.\n", path,
                              traces::bytes_text(bytes)));
    std::error_code error;
    const auto folder = std::filesystem::absolute(path, error).parent_path();
    const auto space = std::filesystem::space(folder, error);
    const bool is_disk = !error && space.capacity > 0;  // /proc/self/fd is none
    if (is_disk && space.available < bytes) {
        throw UserError(
            fmt::format("{}: about {} are needed, and its disk has {}. Fix: use --trace-window or "
                        "--trace-filter, or another disk.",
                        path, traces::bytes_text(bytes), traces::bytes_text(space.available)));
    }
}

void write_trace(const std::string& path, const traces::Recording& recording,
                 void (*writer)(const traces::RunInfo&, const std::vector<traces::Event>&, Output&)) {
    if (path.empty()) return;
    auto output = Output::to_file(path);
    writer(recording.info, recording.events, output);
    output.finish();
}

void TracePaths::write(traces::Recording& recording) const {
    recording.info.view = view_of(recording.info, parse_window(), filter);
    const traces::TraceSizes sizes = traces::estimate_sizes(recording.info, recording.events);
    announce_trace(vcd, sizes.vcd);
    announce_trace(stalls, sizes.stalls);
    announce_trace(memory, sizes.memory);
    announce_trace(perfetto, sizes.perfetto);
    announce_trace(konata, sizes.konata);
    write_trace(vcd, recording, traces::write_vcd);
    write_trace(stalls, recording, traces::write_stalls_csv);
    write_trace(power, recording, traces::write_power_csv);
    write_trace(memory, recording, traces::write_memory_trace_csv);
    write_trace(konata, recording, traces::write_konata);
    if (perfetto.empty()) return;
    auto output = Output::to_file(perfetto);
    const auto time = perfetto_time == "ns" ? traces::PerfettoTime::ns : traces::PerfettoTime::cycles;
    traces::write_perfetto(recording.info, recording.events, time, output);
    output.finish();
}

void add_export(CLI::App& app, int&) {
    auto options = std::make_shared<ExportOptions>();
    auto* command = app.add_subcommand("export", "make traces from an event file of `run --events`");
    command->add_option("events", options->events, "event file")->required();
    options->traces.add_to(*command);
    command->add_option("--bin-ns", options->bin_ns, "width of a time bin of power and bandwidth")
        ->check(CLI::PositiveNumber);
    command->callback([options] { export_traces(*options); });
}

}  // namespace kpu::cli
