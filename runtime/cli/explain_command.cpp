// explain: why a run took the cycles that it took, from its event file.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/read_file.hpp"
#include "base/text_output.hpp"
#include "explain/explanation.hpp"
#include "runtime/cli/command.hpp"
#include "runtime/compare/sides.hpp"
#include "runtime/what_if/simulate.hpp"
#include "traces/event_file.hpp"
#include "traces/kernel_rows.hpp"
#include "traces/report.hpp"
#include "traces/run_reader.hpp"

namespace kpu::cli {
namespace {

/// Changes are simulated where all of them together take no longer.
constexpr double simulation_limit_s = 10;

struct ExplainOptions {
    std::string run, op, html;
    bool json = false, bounds_only = false;
};

/// `run --force` without --events leaves the event file of the run before in the folder.
void check_same_run(const std::string& run, const std::string& events, const traces::Recording& recording) {
    if (run == events) return;
    const traces::RunResults results = traces::read_run(run);
    if (results.stats.integer("cycles.total") == recording.info.total_cycles) return;
    throw UserError(
        fmt::format("{}: it is of another run than stats.json beside it: {} cycles, not {}. Fix: run again "
                    "with --events {}.",
                    events, recording.info.total_cycles, results.stats.integer("cycles.total"), events));
}

/// Simulates changes of the run to see what they would save; if the folder does not say what ran, says why
/// not.
what_if::Answers simulate_changes(const ExplainOptions& options, const traces::Recording& recording) {
    what_if::Answers answers;
    std::error_code error;
    const std::filesystem::path folder = options.run;
    if (!std::filesystem::is_directory(folder, error)) {
        answers.skipped = "an event file alone does not say what ran; give the folder of the run";
        return answers;
    }
    const std::string program = (folder / traces::program_file_name).string(),
                      platform = (folder / "platform.textproto").string();
    for (const std::string& file : {program, platform}) {
        if (std::filesystem::exists(file, error)) continue;
        answers.skipped = file + " is missing";
        return answers;
    }
    try {
        Diagnostics findings;
        const what_if::Case base{compiler::load_program(program, {}, findings), platforms::load(platform),
                                 traces::read_run(options.run).manifest.parameters};
        return what_if::simulate_changes(base, recording.info.total_cycles, simulation_limit_s);
    } catch (const UserError& problem) {
        answers.skipped = problem.what();
        return answers;
    }
}

nlohmann::ordered_json json_of(const what_if::Answers& answers) {
    nlohmann::ordered_json changes = nlohmann::ordered_json::array();
    for (const what_if::Outcome& outcome : answers.outcomes) {
        changes.push_back({{"kind", what_if::name_of(outcome.kind)}, {"change", outcome.words}});
        if (outcome.cycles)
            changes.back()["cycles"] = *outcome.cycles;
        else
            changes.back()["problem"] = outcome.problem;
    }
    return {{"skipped", answers.skipped}, {"changes", changes}};
}

/// Reads the rows of kernels from the folder of a run.
std::vector<traces::KernelRow> kernel_rows_of(const std::string& run) {
    const std::string path = (std::filesystem::path(run) / traces::kernels_file_name).string();
    std::error_code error;
    if (!std::filesystem::exists(path, error)) return {};
    return traces::parse_kernel_rows(read_file(path), path);
}

/// Reads what the folder of a run says beside its events; nothing from an event file alone.
explain::RunNumbers numbers_of(const std::string& run) {
    explain::RunNumbers numbers;
    std::error_code error;
    if (!std::filesystem::is_directory(run, error)) return numbers;
    const traces::RunResults results = traces::read_run(run);
    const traces::StatSet& stats = results.stats;
    if (stats.contains("energy.total_uj")) numbers.energy_uj = stats.real("energy.total_uj");
    if (stats.contains("power.average_w")) numbers.power_w = stats.real("power.average_w");
    if (stats.contains("bytes.dram.read")) numbers.dram_read = stats.integer("bytes.dram.read");
    if (stats.contains("bytes.dram.write")) numbers.dram_written = stats.integer("bytes.dram.write");
    for (const traces::OpRow& row : results.ops) {
        if (numbers.energy_uj) numbers.energy_pj.emplace(row.id, row.energy_pj);
    }
    numbers.platform = results.platform;
    return numbers;
}

/// Returns the tensors between operations that are in DRAM, the largest first; of an event file alone, none.
std::vector<compare::DeclaredTensor> tensors_in_dram(const std::string& run) {
    std::vector<compare::DeclaredTensor> found;
    std::error_code error;
    const std::string path = (std::filesystem::path(run) / traces::program_file_name).string();
    if (!std::filesystem::is_regular_file(path, error)) return found;
    for (compare::DeclaredTensor& tensor : compare::tensors_of(read_file(path))) {
        if (tensor.between && tensor.place == "DRAM") found.push_back(std::move(tensor));
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
    return found;
}

std::string text_of(const std::vector<compare::DeclaredTensor>& in_dram) {
    if (in_dram.empty()) return {};
    constexpr size_t most_rows = 12;
    uint64_t all = 0, shown = 0;
    for (const compare::DeclaredTensor& tensor : in_dram) all += tensor.bytes;
    std::string text =
        fmt::format("\nTensors between operations that are in DRAM, not in L2: {} of {} bytes\n",
                    in_dram.size(), traces::grouped(all));
    for (size_t i = 0; i < std::min(most_rows, in_dram.size()); ++i) {
        text += fmt::format("  {:>14}  {}\n", traces::grouped(in_dram[i].bytes), in_dram[i].name);
        shown += in_dram[i].bytes;
    }
    if (in_dram.size() > most_rows)
        text += fmt::format("  {:>14}  {} more\n", traces::grouped(all - shown), in_dram.size() - most_rows);
    return text;
}

void explain(const ExplainOptions& options) {
    if (!options.html.empty()) Output::check(options.html);
    const std::string events = traces::event_file_of(options.run);
    const traces::Recording recording = traces::read_event_file(events);
    check_same_run(options.run, events, recording);
    const explain::RunGraph graph(recording, events);
    if (!options.html.empty() || options.json) {
        const explain::Explanation explanation(graph);
        if (!options.html.empty()) {
            write_file(options.html,
                       html_of(explanation, numbers_of(options.run), explain::page_power(recording)));
            print_err(fmt::format("{} is written: open it in a browser\n", options.html));
        }
        if (options.json) {
            auto data = nlohmann::ordered_json::parse(json_of(explanation));
            auto& in_dram = data["tensors_in_dram"] = nlohmann::ordered_json::array();
            for (const compare::DeclaredTensor& tensor : tensors_in_dram(options.run))
                in_dram.push_back({{"name", tensor.name}, {"bytes", tensor.bytes}});
            if (!options.bounds_only)
                data["what_if_simulated"] = json_of(simulate_changes(options, recording));
            return print_data(data.dump() + "\n");
        }
        if (options.op.empty()) return;
    }
    print_out(text_of(graph, options.op, {}));
    print_out(traces::kernel_text(kernel_rows_of(options.run), options.op));
    if (options.op.empty()) print_out(text_of(tensors_in_dram(options.run)));
    if (options.op.empty() && !options.bounds_only)
        print_out("\n" + text_of(simulate_changes(options, recording)));
}

}  // namespace

void add_explain(CLI::App& app, int&) {
    auto options = std::make_shared<ExplainOptions>();
    auto* command = app.add_subcommand(
        "explain", "why a run took its cycles: formulas with numbers, critical path, what would help");
    command
        ->add_option("run", options->run,
                     "folder of `run -o DIR --events DIR/events.kpuev` (any name in it), or an event file")
        ->required();
    command->add_option(
        "op", options->op,
        "one operation, by its name in ops.csv, or one task, as in g[t=0 k=1]; default: the whole run");
    command->add_flag("--json", options->json, "all of it as JSON on standard output");
    command->add_flag("--bounds-only", options->bounds_only,
                      "no simulation of changes, only the bounds; else each change is simulated where all of "
                      "them take no more than ten seconds");
    command->add_option("--html", options->html,
                        "page to write: timeline, bars, critical path, bounds, roofline");
    command->callback([options] { explain(*options); });
}

}  // namespace kpu::cli
