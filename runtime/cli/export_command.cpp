// export: traces from a stored event stream, the same bytes as the run would have written.
#include <fmt/format.h>

#include <memory>

#include "runtime/cli/command.hpp"
#include "traces/event_file.hpp"
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
        throw UserError("nothing to export. Fix: give --vcd, --power or --stalls with a file name.");
    }
    auto recording = traces::read_event_file(options.events);
    if (options.bin_ns > 0) recording.info.bin_ns = options.bin_ns;
    options.traces.write(recording);
}

}  // namespace

void TracePaths::add_to(CLI::App& command) {
    command.add_option("--vcd", vcd, "unit states, queues, bandwidth and power as waveforms");
    command.add_option("--power", power, "CSV: watts per component over time");
    command.add_option("--stalls", stalls, "CSV: every interval of every unit with its cause");
}

void write_trace(const std::string& path, const traces::Recording& recording,
                 void (*writer)(const traces::RunInfo&, const std::vector<traces::Event>&, traces::Output&)) {
    if (path.empty()) return;
    auto output = traces::Output::to_file(path);
    writer(recording.info, recording.events, output);
    output.finish();
}

void TracePaths::write(const traces::Recording& recording) const {
    write_trace(vcd, recording, traces::write_vcd);
    write_trace(stalls, recording, traces::write_stalls_csv);
    write_trace(power, recording, traces::write_power_csv);
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
