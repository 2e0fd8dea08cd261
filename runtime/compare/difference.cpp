#include "runtime/compare/difference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "explain/run_graph.hpp"
#include "isa/nem/nem.hpp"
#include "platforms/platform.hpp"
#include "runtime/compare/report.hpp"

namespace kpu::compare {
namespace {

/// Returns the program of a run as it ran, read from its text, whose lines it names. Throws UserError.
BoundProgram program_of(const traces::RunResults& run) {
    Diagnostics notes;
    const nem::FileLoader others = platforms::file_loader({});
    const auto load = [&](const std::string& name,
                          const std::string& from) -> std::optional<nem::SourceFile> {
        if (name == traces::program_kernels_file_name) return nem::SourceFile{name, run.program_kernels};
        return others(name, from);
    };
    nem::Document document = nem::parse(run.program, traces::program_file_name, load, notes);
    if (notes.has_errors()) throw UserError(notes);
    return kpu::bind(std::make_shared<const Module>(std::move(document.module)), run.manifest.parameters,
                     platforms::agnostic_limits());
}

/// The place of an operation is that of its first statement.
std::vector<Operation> operations_of(const explain::RunGraph& graph) {
    std::vector<Operation> operations;
    for (const traces::RunInfo::Op& op : graph.info().ops) operations.push_back({op.id, {}});
    if (!graph.info().carries_places) return operations;
    std::vector<uint32_t> first(operations.size(), traces::no_task);
    for (const explain::TaskRun& task : graph.tasks()) {
        if (task.op < first.size()) first[task.op] = std::min(first[task.op], task.statement);
    }
    for (size_t op = 0; op < operations.size(); ++op) {
        if (first[op] != traces::no_task) operations[op].place = graph.place(first[op]);
    }
    return operations;
}

void compare_paths(const traces::DiffSide& a, const traces::DiffSide& b, Difference& difference) {
    if (const traces::DiffSide* without = traces::without_events(a, b)) {
        difference.no_path = without->no_events;
        return;
    }
    try {
        const explain::RunGraph graph_a(*a.events, a.run.path), graph_b(*b.events, b.run.path);
        difference.path =
            path_change(graph_a, graph_b, match_operations(operations_of(graph_a), operations_of(graph_b)));
    } catch (const UserError& error) {
        difference.no_path = error.what();
    }
}

void compare_schedules(const traces::RunResults& a, const traces::RunResults& b, Difference& difference) {
    if (a.program.empty() || b.program.empty()) {
        difference.no_schedules =
            fmt::format("{} has no {}", a.program.empty() ? a.path : b.path, traces::program_file_name);
    } else if (a.program != b.program) {
        try {
            const BoundProgram program_a = program_of(a), program_b = program_of(b);
            difference.schedules = schedule_changes({program_a, a.program}, {program_b, b.program});
        } catch (const UserError& error) {
            difference.no_schedules = error.what();
        }
    }
}

}  // namespace

Difference difference_of(traces::DiffSide& a, traces::DiffSide& b, const traces::DiffOptions& options) {
    load_events(a, b);
    Difference difference;
    difference.runs = traces::compare(a, b, options);
    if (difference.empty()) return difference;
    compare_paths(a, b, difference);
    compare_schedules(a.run, b.run, difference);
    return difference;
}

std::string to_text(const Difference& difference, const traces::DiffSide& a, const traces::DiffSide& b,
                    const traces::DiffOptions& options) {
    std::string more = text_of(difference.schedules, options.top);
    if (!difference.no_schedules.empty())
        more += fmt::format("\nschedules are not compared: {}\n", difference.no_schedules);
    if (!difference.no_path.empty())
        more += fmt::format("\ncritical paths are not compared: {}\n", difference.no_path);
    if (difference.path) more += text_of(*difference.path, options.top);
    return traces::to_text(difference.runs, a, b, options, more);
}

std::string to_json(const Difference& difference, const traces::DiffSide& a, const traces::DiffSide& b) {
    auto document = nlohmann::ordered_json::parse(traces::to_json(difference.runs, a, b));
    document["schedule"] = json_of(difference.schedules);
    if (!difference.no_schedules.empty()) document["no_schedule"] = difference.no_schedules;
    document["critical_path"] = difference.path ? json_of(*difference.path) : nlohmann::ordered_json();
    if (!difference.no_path.empty()) document["no_critical_path"] = difference.no_path;
    return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace kpu::compare
