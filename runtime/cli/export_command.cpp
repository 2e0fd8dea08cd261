// export: traces from a stored event stream, the same bytes as the run would have written.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>

#include "runtime/cli/command.hpp"
#include "traces/event_file.hpp"
#include "traces/report.hpp"
#include "traces/run_reader.hpp"
#include "traces/viewers/viewer_files.hpp"

namespace kpu::cli {
namespace {

struct ExportOptions {
    std::string events;
    TracePaths traces;
    double bin_ns = 0;
};

void export_traces(const ExportOptions& options) {
    if (options.traces.empty()) {
        std::vector<std::string> names;
        for (const traces::Format* format : traces::formats())
            names.push_back(fmt::format("--{}", format->name));
        throw UserError(
            fmt::format("nothing to export. Fix: give one of {} with a file name.", fmt::join(names, ", ")));
    }
    options.traces.check();
    refuse_repeated(options.traces.paths());
    for (const std::string& path : options.traces.paths()) Output::check(path);
    auto recording = traces::read_event_file(traces::event_file_of(options.events));
    if (options.traces.need_energy()) traces::require_energy(recording.info.prices);
    if (options.bin_ns > 0) {
        traces::check_bin(options.bin_ns, recording.info.clock());
        recording.info.bin_ns = options.bin_ns;
    }
    options.traces.write(recording);
}

}  // namespace

void TracePaths::add_to(CLI::App& command) {
    for (const traces::Format* format : traces::formats()) {
        const auto add = [this, format](const std::string& path) {
            if (!path.empty()) files.push_back({format, path});
        };
        const bool csv = format->file_kind == "CSV";
        command.add_option_function<std::string>(fmt::format("--{}", format->name), add,
                                                 fmt::format("{}{}", csv ? "CSV: " : "", format->meaning));
        add_row_options(command, format->options, options);
    }
    command.add_option("--trace-window", view.window,
                       "A:B: traces show core cycles A to B (either may be left out)");
    const auto patterns = [&command](const char* name, std::vector<std::string>& into, const char* meaning) {
        command.add_option(name, into, meaning)->allow_extra_args(false);
    };
    patterns("--trace-filter", view.units,
             "GLOB: traces show the units whose names match, e.g. 'e0_*'; repeatable");
    patterns("--trace-cause", view.causes,
             "GLOB: traces show the states whose cause matches, e.g. 'stalled.*'; repeatable");
    patterns("--trace-op", view.ops,
             "GLOB: traces show what is of the operations whose names match, e.g. 'conv*'; repeatable");
    command.add_flag("--viewer-files", viewer_files,
                     "beside each waveform F: F.gtkw (with F.causes) and F.sucl, by which GTKWave and Surfer "
                     "open it ready");
    command.add_option(
        "--trace-every", view.every,
        "TIME (ns, us, ms): traces show of each interval so long the state that held longest, and means of "
        "power and bandwidth");
}

void TracePaths::check() const {
    const bool waveform =
        std::any_of(files.begin(), files.end(), [](const File& file) { return file.format->is_waveform; });
    if (viewer_files && !waveform)
        throw UserError("--viewer-files: there is no waveform to open. Fix: add --vcd or --fst.");
    const traces::TraceView shown = traces::check_view(view);
    for (const File& file : files) traces::check_format(*file.format, shown, options_of(*file.format));
}

OptionValues TracePaths::options_of(const traces::Format& format) const {
    GivenOptions own;
    for (const auto& option : options) {
        if (std::any_of(format.options.begin(), format.options.end(),
                        [&](const OptionRow& row) { return row.name == option.first; }))
            own.push_back(option);
    }
    return {format.options, own};
}

std::vector<std::string> TracePaths::paths() const {
    std::vector<std::string> found;
    for (const File& file : files) {
        found.push_back(file.path);
        if (!viewer_files || !file.format->is_waveform) continue;
        for (std::string& path : traces::viewer_paths(file.path)) found.push_back(std::move(path));
    }
    return found;
}

bool TracePaths::need_energy() const {
    return std::any_of(files.begin(), files.end(),
                       [](const File& file) { return file.format->needs_energy; });
}

bool TracePaths::need_accesses() const {
    return std::any_of(files.begin(), files.end(),
                       [](const File& file) { return file.format->needs_accesses; });
}

void refuse_repeated(const std::vector<std::string>& paths) {
    namespace fs = std::filesystem;
    for (size_t i = 0; i < paths.size(); ++i) {
        for (size_t j = 0; j < i; ++j) {
            std::error_code error;
            const bool file = !fs::exists(paths[i], error) || fs::is_regular_file(paths[i], error);
            if (paths[i].empty() || !file) continue;
            const bool same = fs::path(paths[i]).lexically_normal() == fs::path(paths[j]).lexically_normal();
            if (same || fs::equivalent(paths[i], paths[j], error))
                throw UserError(fmt::format(
                    "{}: two outputs would be written there. Fix: give each its own file.", paths[i]));
        }
    }
}

void announce_trace(const std::string& path, uint64_t bytes) {
    constexpr uint64_t big = 256u << 20;
    if (path.empty()) return;
    if (bytes >= big)
        print_err(
            fmt::format("{}: about {}. --trace-window, --trace-filter and --trace-every make it smaller.\n",
                        path, traces::bytes_text(bytes)));
    std::error_code error;
    if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) return;
    const auto folder = std::filesystem::absolute(path, error).parent_path();
    const auto space = std::filesystem::space(folder, error);
    const bool is_disk = !error && space.capacity > 0;
    if (is_disk && space.available < bytes) {
        throw UserError(
            fmt::format("{}: about {} are needed, and its disk has {}. Fix: use --trace-window or "
                        "--trace-filter, or another disk.",
                        path, traces::bytes_text(bytes), traces::bytes_text(space.available)));
    }
}

void TracePaths::write(traces::Recording& recording) const {
    traces::show_view(recording.info, view);
    const traces::RecordCounts counts = traces::count_records(recording.info, recording.events);
    for (const File& file : files) announce_trace(file.path, file.format->size(recording.info, counts));
    for (const File& file : files) {
        auto output = Output::to_file(file.path);
        file.format->write(recording.info, recording.events, options_of(*file.format), output);
        output.finish();
        if (!viewer_files || !file.format->is_waveform) continue;
        for (const auto& beside : traces::viewer_files(recording.info, recording.events, file.path))
            write_file(beside.path, beside.text);
    }
}

void add_export(CLI::App& app, int&) {
    auto options = std::make_shared<ExportOptions>();
    auto* command = app.add_subcommand("export", "make traces from an event file of `run --events`");
    command->add_option("events", options->events, "event file, or the folder of a run that has one")
        ->required();
    options->traces.add_to(*command);
    command->add_option("--bin-ns", options->bin_ns, "width of a time bin of power and bandwidth")
        ->check(not_positive)
        ->excludes("--trace-every");
    command->callback([options] { export_traces(*options); });
}

}  // namespace kpu::cli
