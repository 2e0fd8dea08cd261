// export: traces from a stored event stream, the same bytes as the run would have written.
#include <fmt/format.h>

#include <memory>

#include "runtime/cli/command.hpp"
#include "traces/event_file.hpp"
#include "traces/writers.hpp"

namespace kpu::cli {
namespace {

struct ExportOptions {
    std::string events, vcd, power, stalls;
    double bin_ns = 0;
};

void export_traces(const ExportOptions& options) {
    if ((options.vcd + options.power + options.stalls).empty()) {
        throw UserError("nothing to export. Fix: give --vcd, --power or --stalls with a file name.");
    }
    auto recording = traces::read_event_file(options.events);
    if (options.bin_ns > 0) recording.info.bin_ns = options.bin_ns;
    const auto write = [&](const std::string& path, auto writer) {
        if (path.empty()) return;
        auto output = traces::Output::to_file(path);
        writer(recording.info, recording.events, output);
        output.finish();
    };
    write(options.vcd, traces::write_vcd);
    write(options.stalls, traces::write_stalls_csv);
    write(options.power, traces::write_power_csv);
}

}  // namespace

void add_export(CLI::App& app, int&) {
    auto options = std::make_shared<ExportOptions>();
    auto* command = app.add_subcommand("export", "make traces from an event file of `run --events`");
    command->add_option("events", options->events, "event file")->required();
    command->add_option("--vcd", options->vcd, "unit states, queues, bandwidth and power as waveforms");
    command->add_option("--power", options->power, "CSV: watts per component over time");
    command->add_option("--stalls", options->stalls, "CSV: every interval of every unit with its cause");
    command->add_option("--bin-ns", options->bin_ns, "width of a time bin of power and bandwidth")
        ->check(CLI::PositiveNumber);
    command->callback([options] { export_traces(*options); });
}

}  // namespace kpu::cli
