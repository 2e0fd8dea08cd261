// diff: what changed between two runs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "explain/run_graph.hpp"
#include "runtime/cli/command.hpp"
#include "runtime/compare/report.hpp"
#include "runtime/compare_runs.hpp"
#include "traces/diff/diff.hpp"

namespace kpu::cli {
namespace {

struct DiffArguments {
    std::string a, b, threshold = "1%", tolerance;
    size_t top = 20;
    bool json = false;
};

/// What changed in the schedules of two programs for one source, and what that cost.
struct Schedules {
    std::optional<compare::PathChange> path;
    std::string no_path;  ///< why `path` is empty
    std::vector<compare::ScheduleChange> changes;
    std::string no_changes;  ///< why `changes` says nothing of the programs
};

/// The program of a run, read from its folder, as it ran.
BoundProgram program_of(const traces::RunResults& run) {
    Diagnostics notes;
    const auto path = std::filesystem::path(run.path) / traces::program_file_name;
    return kpu::bind(compiler::load_program(path.string(), {}, notes), run.manifest.parameters,
                     platforms::agnostic_limits());
}

std::vector<compare::Operation> operations_of(const traces::RunInfo& info) {
    std::vector<compare::Operation> operations;
    for (const traces::RunInfo::Op& op : info.ops) operations.push_back({op.id, {}});
    return operations;
}

/// The events of a run. `run --force` without --events leaves those of the run before in the folder.
traces::Recording events_of(const traces::RunResults& run) {
    traces::Recording recording = traces::read_event_file(run.events);
    if (run.stats.real("cycles.total") != static_cast<double>(recording.info.total_cycles))
        throw UserError(fmt::format("{} is of another run than stats.json beside it", run.events));
    return recording;
}

void compare_paths(const traces::RunResults& a, const traces::RunResults& b, Schedules& schedules) {
    if (a.events.empty() || b.events.empty()) {
        schedules.no_path = fmt::format("{} has no events", a.events.empty() ? a.path : b.path);
        return;
    }
    try {
        const traces::Recording events_a = events_of(a), events_b = events_of(b);
        const explain::RunGraph graph_a(events_a, a.events), graph_b(events_b, b.events);
        schedules.path = compare::path_change(
            graph_a, graph_b,
            compare::match_operations(operations_of(events_a.info), operations_of(events_b.info)));
    } catch (const UserError& error) {
        schedules.no_path = error.what();
    }
}

Schedules compare_schedules(const traces::RunResults& a, const traces::RunResults& b) {
    Schedules schedules;
    compare_paths(a, b, schedules);
    if (a.program.empty() || b.program.empty()) {
        schedules.no_changes =
            fmt::format("{} has no {}", a.program.empty() ? a.path : b.path, traces::program_file_name);
    } else if (a.program != b.program) {
        try {
            const BoundProgram program_a = program_of(a), program_b = program_of(b);
            schedules.changes = compare::schedule_changes({program_a, a.program}, {program_b, b.program});
        } catch (const UserError& error) {
            schedules.no_changes = error.what();
        }
    }
    return schedules;
}

std::string text_of(const Schedules& schedules, size_t top) {
    std::string text = text_of(schedules.changes, top);
    if (!schedules.no_changes.empty())
        text += fmt::format("\nschedules are not compared: {}\n", schedules.no_changes);
    if (!schedules.no_path.empty())
        text += fmt::format("\ncritical paths are not compared: {}\n", schedules.no_path);
    if (schedules.path) text += text_of(*schedules.path, top);
    return text;
}

std::string json_of(const Schedules& schedules, const std::string& rest) {
    auto document = nlohmann::ordered_json::parse(rest);
    document["schedule"] = json_of(schedules.changes);
    if (!schedules.no_changes.empty()) document["no_schedule"] = schedules.no_changes;
    document["critical_path"] = schedules.path ? json_of(*schedules.path) : nlohmann::ordered_json();
    if (!schedules.no_path.empty()) document["no_critical_path"] = schedules.no_path;
    return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

int diff(const DiffArguments& arguments) {
    traces::DiffOptions options;
    options.threshold = parse_percent(arguments.threshold, "--threshold");
    if (!arguments.tolerance.empty()) options.tolerance = parse_percent(arguments.tolerance, "--tolerance");
    options.top = arguments.top;
    const auto a = runtime::read_side(arguments.a), b = runtime::read_side(arguments.b);
    const auto found = traces::compare(a, b, options);
    const Schedules schedules = found.empty() ? Schedules{} : compare_schedules(a.run, b.run);
    if (arguments.json)
        print_data(json_of(schedules, traces::to_json(found, a, b)));
    else
        print_out(traces::to_text(found, a, b, options) + text_of(schedules, options.top));
    if (found.empty() && !arguments.json) print_err("no differences\n");
    if (!found.beyond_tolerance()) return exit_ok;
    for (const auto& row : found.statistics) {
        if (row.beyond_tolerance)
            print_err(fmt::format("error: {} differs by {:.3g} %, more than the tolerance of {}.\n", row.key,
                                  100 * row.relative(), arguments.tolerance));
    }
    return exit_mismatch;
}

}  // namespace

void add_diff(CLI::App& app, int& exit_code) {
    auto arguments = std::make_shared<DiffArguments>();
    auto* command = app.add_subcommand("diff",
                                       "what changed between two runs: parameters, program, schedule, "
                                       "critical path, statistics, operations");
    command->add_option("a", arguments->a, "folder of a run")->required();
    command->add_option("b", arguments->b, "folder of the run to compare with it")->required();
    command->add_option("--threshold", arguments->threshold,
                        "list statistics that changed by at least this (default 1%); units: of cycles.total");
    command->add_option(
        "--tolerance", arguments->tolerance,
        "exit 3 if cycles.total, energy.total_uj, power.* or bytes.* differ by more, e.g. 2%");
    command->add_option("--top", arguments->top, "rows of each table of the text (default 20)");
    command->add_flag("--json", arguments->json, "everything as JSON");
    command->callback([arguments, &exit_code] { exit_code = diff(*arguments); });
}

}  // namespace kpu::cli
