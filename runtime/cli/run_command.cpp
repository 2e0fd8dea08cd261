// run: verify, bind, simulate, report, write what was asked for.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/digest.hpp"
#include "base/scratch_file.hpp"
#include "base/terminal_text.hpp"
#include "base/text_output.hpp"
#include "execution/hazard_report.hpp"
#include "runtime/cli/budgets.hpp"
#include "runtime/cli/command.hpp"
#include "runtime/cli/ending.hpp"
#include "runtime/cli/generate.hpp"
#include "runtime/cli/junit.hpp"
#include "runtime/cli/long_run.hpp"
#include "runtime/host_boundary.hpp"
#include "runtime/save_run.hpp"
#include "runtime/simulation.hpp"
#include "traces/report.hpp"
#include "traces/run_folder.hpp"

namespace kpu::cli {
namespace {

struct RunOptions {
    std::string program;
    DeviceOptions device;
    GivenOptions front_end;
    ParamOptions params;
    InputOptions inputs;
    std::string mode = "values+timing", order = "program", values = "fast", stepper = "fast";
    bool mode_given = false;
    bool strict = false, retarget = false, no_hazards = false, allow_hazards = false, force = false,
         json = false, quiet = false;
    uint64_t max_cycles = 0, max_steps = 0, seed = 0;
    double bin_ns = 0;
    std::string out, events, hazards, junit;
    TracePaths traces;
    Budgets budgets;
    LongRun long_run;
    GenerateOptions generate;
    bool wants_traces() const { return !events.empty() || !traces.empty(); }
};

runtime::SimulationOptions simulation_options(const RunOptions& options) {
    runtime::SimulationOptions result;
    result.params = options.params.bindings();
    if (options.mode == "timing") {
        result.mode = runtime::Mode::timing;
    } else if (options.mode == "functional") {
        result.mode = runtime::Mode::functional;
    }
    result.strict = options.strict;
    result.retarget = options.retarget;
    result.hazards = !options.no_hazards;
    result.seed = options.seed;
    if (options.order != "program") {
        const auto seed = seed_of(options.order, "random", "--order");
        if (!seed) refuse("--order", options.order, "program or random:SEED");
        if (result.mode != runtime::Mode::functional) {
            throw UserError(
                "--order is for --mode functional: with timing, the model decides the order. Fix: add "
                "--mode functional.");
        }
        result.random_order = true;
        result.seed = *seed;
    }
    if (options.max_cycles > 0) result.max_cycles = options.max_cycles;
    if (options.max_steps > 0) result.max_steps = options.max_steps;
    options.traces.check();
    result.bin_ns = options.bin_ns;
    result.record_events = options.wants_traces() || options.budgets.need_events();
    result.record_accesses = options.traces.need_accesses();
    if (result.record_events && result.mode == runtime::Mode::functional) {
        throw UserError(
            "--mode functional has no time to trace. Fix: leave out --events, --vcd, the other traces and "
            "--peak-power-budget.");
    }
    result.oracle_stepper = options.stepper == "oracle";
    result.reference_values = options.values == "reference";
    return result;
}

/// Refuses outputs that cannot be written before the run, not after it. The output folder is still to be
/// made.
void check_output_paths(const RunOptions& options, const runtime::Simulation& simulation) {
    namespace fs = std::filesystem;
    if (!options.out.empty()) {
        std::vector<std::string> outputs;
        for (const TensorSpec& spec : simulation.output_specs()) outputs.push_back(spec.name);
        traces::RunFolder::check(options.out, options.force, outputs);
    }
    std::vector<std::string> paths = options.traces.paths();
    paths.insert(paths.end(), {options.events, options.hazards, options.junit, options.budgets.written()});
    refuse_repeated(paths);
    if (options.traces.need_energy() && simulation.platform() != nullptr)
        traces::require_energy(platforms::energy_prices(*simulation.platform()));
    for (const auto& path : paths) {
        const fs::path folder = fs::path(path).parent_path();
        const bool inside = !options.out.empty() && !path.empty() &&
                            folder.lexically_normal() == fs::path(options.out).lexically_normal();
        if (inside && fs::path(path).filename().string().size() > NAME_MAX)
            throw UserError(
                fmt::format("{}: the name is too long for a file. Fix: give a shorter one.", path));
        if (!path.empty() && !inside) Output::check(path);
    }
}

size_t terminal_width() {
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 100;
    return std::clamp<size_t>(size.ws_col, 60, 140);
}

/// Tells that the time, the memory or the disk for the run was used up.
int stopped(const LongRun& run, const runtime::Simulation& simulation) {
    std::string why = fmt::format("{:g} seconds", time_limit()), fix = "raise --timeout";
    if (run.stop() != LongRun::Stop::time) {
        const bool disk = run.stop() == LongRun::Stop::disk;
        why = disk ? fmt::format("the disk of {} was nearly full", scratch_folder())
                   : "the memory was nearly used up";
        fix = "leave traces out, or limit the run with --max-cycles";
        if (disk) fix += ", or set TMPDIR to a folder on a larger disk";
    }
    print_err(fmt::format("error: stopped at cycle {} after {}: results are partial. Fix: {}.\n",
                          simulation.now(), why, fix));
    return exit_failed;
}

/// Says what went wrong, for people; the exit code says it to programs.
int conclude(const RunOptions& options, runtime::RunStatus status, const runtime::Simulation& simulation) {
    switch (status) {
        case runtime::RunStatus::deadlock:
            print_err(fmt::format("error: deadlock at cycle {}: work remains and nothing can run.\n{}",
                                  simulation.now(), simulation.deadlock_report()));
            return exit_failed;
        case runtime::RunStatus::limit_reached:
            if (simulation.options().mode == runtime::Mode::functional)
                return exit_failed;  // a finding has said it
            print_err(fmt::format(
                "error: stopped at the limit of {} cycles with work left. Fix: raise --max-cycles.\n",
                options.max_cycles));
            return exit_failed;
        case runtime::RunStatus::interrupted:
            if (options.long_run.stop() != LongRun::Stop::none) return stopped(options.long_run, simulation);
            print_err(fmt::format("interrupted at cycle {}: results are partial\n", simulation.now()));
            return exit_interrupted;
        default:
            break;
    }
    if (simulation.hazards().count() > 0 && !options.allow_hazards) return exit_failed;
    return exit_ok;
}

/// Says what the race detection of a run left out; empty when nothing.
std::string races_not_followed(const runtime::Simulation& simulation) {
    const std::string& why = simulation.hazards().limited();
    if (why.empty()) return {};
    return fmt::format(
        "races with tasks that were over are not looked for, only with those in flight: {}. Fix: `kpusim "
        "check` "
        "looks for them without running.",
        why);
}

/// Prints one line in any case, and what there is to each cause unless `quiet`.
void print_hazards(const runtime::Simulation& simulation, bool allowed, bool quiet) {
    constexpr size_t most = 20;
    const execution::HazardLog& log = simulation.hazards();
    if (log.count() > 0) {
        print_err(fmt::format("{}: {}. Fix: add the missing dependencies{}.\n", allowed ? "warning" : "error",
                              execution::summary(log),
                              allowed ? "" : ", or accept them with --allow-hazards"));
    }
    if (quiet) return;
    const auto causes = execution::causes_of(log);
    for (size_t i = 0; i < std::min(most, causes.size()); ++i)
        print_err(execution::to_string(log, causes[i]) + "\n");
    if (causes.size() > most) print_err(fmt::format("... and {} more buffers\n", causes.size() - most));
    if (const std::string limited = races_not_followed(simulation); !limited.empty())
        print_err("info: " + limited + "\n");
}

/// Writes the hazards of a run, as `check` reports its findings.
void write_hazards(const std::string& path, const runtime::Simulation& simulation) {
    Diagnostics diagnostics;
    analysis::FindingOrigins origins;
    const BoundProgram& program = simulation.program();
    for (const execution::HazardFinding& finding : simulation.hazards().findings()) {
        analysis::FindingOrigin& origin = origins[diagnostics.all().size()];
        origin.kind = name_of(finding.kind);
        origin.side = analysis::side_of(program, finding.statement, finding.loops);
        if (!finding.other_task.empty())
            origin.other = analysis::side_of(program, finding.other_statement, finding.other_loops);
        origin.buffer = finding.buffer;
        origin.bytes = {finding.first, finding.last};
        const bool benign = finding.benign == finding.count;
        diagnostics.add({benign ? Severity::info : Severity::warning, to_string(finding), finding.pos, {}});
    }
    if (std::string limited = races_not_followed(simulation); !limited.empty())
        diagnostics.add({Severity::info, std::move(limited), {}, {}});
    const bool sarif = std::filesystem::path(path).extension() == ".sarif";
    write_file(path, sarif ? sarif_text(diagnostics, origins) : json_text(diagnostics, origins));
}

/// Prints the report to standard output, unless that has data of the run.
void print_report(const RunOptions& options, runtime::Simulation& simulation,
                  const std::vector<traces::OpRow>& ops) {
    std::vector<std::string> paths = options.traces.paths();
    paths.insert(paths.end(), {options.events, options.hazards, options.junit, options.budgets.written()});
    const bool taken = options.json || std::any_of(paths.begin(), paths.end(), [](const std::string& path) {
                           return path == "-" || path == "/dev/stdout" || path == "/dev/fd/1";
                       });
    traces::ReportOptions report_options;
    report_options.width = terminal_width();
    std::string text = traces::report(simulation.stats(), simulation.run_info(), ops, report_options);
    for (const std::string& line : runtime::boundary_lines(simulation.program()))
        text += "host: " + line + "\n";
    if (taken) return print_err(text);
    if (isatty(STDOUT_FILENO) == 0) return print_out(text);
    print_data(traces::coloured(terminal_text(text)));
}

/// Returns the path from the folder on; empty: it does not lead into it.
std::string path_inside(const std::string& folder, const std::string& path) {
    namespace fs = std::filesystem;
    if (path.empty()) return {};
    std::error_code error;
    const fs::path inside =
        fs::weakly_canonical(path, error).lexically_relative(fs::weakly_canonical(folder, error));
    return inside.empty() || *inside.begin() == ".." || inside == "." ? std::string() : inside.string();
}

/// Judges the budgets of a run that did not fail, and reports. Returns the exit code.
int judge(const RunOptions& options, int code, runtime::Simulation& simulation,
          const std::vector<traces::OpRow>& ops, const traces::Recording* recording) {
    using Outcome = TestCase::Outcome;
    std::vector<TestCase> cases = {{"run"}};
    if (code == exit_ok) {
        for (traces::Verdict& verdict : options.budgets.judge(simulation.stats(), ops, recording)) {
            if (!verdict.passed) code = exit_mismatch;
            const std::string line = verdict.text.substr(0, verdict.text.find('\n'));
            cases.push_back({std::move(verdict.name), verdict.passed ? Outcome::passed : Outcome::failed,
                             line, std::move(verdict.text)});
        }
        if (!options.budgets.written().empty()) options.budgets.write(simulation.stats(), ops);
    } else {
        cases[0].outcome = Outcome::failed;
        cases[0].message = fmt::format("the run failed with exit code {}, budgets were not judged", code);
        if (!options.budgets.written().empty())
            print_err(fmt::format(
                "error: {} is not written: the run failed. Fix: write budgets of a run that ends.\n",
                options.budgets.written()));
    }
    if (!options.junit.empty()) write_file(options.junit, junit_text("run", options.program, cases));
    return code;
}

void write_traces(const RunOptions& options, traces::Recording& recording) {
    options.budgets.fill_in(recording.info);
    if (!options.events.empty()) {
        announce_trace(options.events, recording.events.size() * sizeof(traces::Event));
        auto output = Output::to_file(options.events);
        traces::write_event_file(recording.info, recording.events, output);
        output.finish();
    }
    options.traces.write(recording);
}

/// A chain of runs has no one run to trace, to save or to judge.
int run_steps(const RunOptions& options) {
    const std::pair<bool, const char*> others[] = {{!options.out.empty(), "-o"},
                                                   {options.wants_traces(), "traces"},
                                                   {!options.budgets.empty(), "budgets"},
                                                   {!options.junit.empty(), "--junit"},
                                                   {!options.hazards.empty(), "--hazards"}};
    for (const auto& [given, name] : others) {
        if (given)
            throw UserError(fmt::format(
                "--generate has no {}. Fix: run one step alone for that, with --param position=P.", name));
    }
    GenerateRequest request{
        options.program, options.device, options.front_end, options.inputs, simulation_options(options),
        options.json,    options.quiet};
    generate(options.generate, request);
    return interrupted ? exit_interrupted : exit_ok;
}

int run(RunOptions options, const std::vector<std::string>& command_line) {
    if (options.generate.steps > 0) return run_steps(options);
    if (!options.generate.prompt.empty() || !options.generate.next.empty())
        throw UserError("--prompt and --next belong to --generate N. Fix: add it, or leave them out.");
    Diagnostics diagnostics;
    const auto source = compiler::Source::of_file(options.program);
    compiler::DeviceChoice device = options.device.choice();
    device.values =
        options.mode != "timing" || !options.out.empty();  // a folder of a run names its program's bytes
    compiler::Input input = compiler::load_for_device(source, options.front_end, device, diagnostics);
    auto& [front_end, module, platform, no_values] = input;
    if (module == nullptr) compiler::refuse_no_program(source);
    if (!no_values.empty() && options.mode != "timing") throw UserError(no_values);
    if (!front_end->has_values && options.mode != "timing") {
        if (options.mode_given) {
            throw UserError(fmt::format("{}: a {} has no data to compute with. Fix: leave out --mode.",
                                        source.origin(), front_end->name));
        }
        options.mode = "timing";
    }
    auto settings = simulation_options(options);
    if (!input.has_values()) settings.hazards = false;  // nothing writes its operands
    if (options.strict && diagnostics.warning_count() > 0) {
        diagnostics.promote_warnings();
        throw UserError(diagnostics);
    }
    settings.sheds_text = options.out.empty();  // a folder of a run names its program's bytes
    runtime::Simulation simulation(std::move(module), platform ? &*platform : nullptr, settings);
    print_findings(diagnostics);
    print_findings(simulation.diagnostics());
    traces::Manifest manifest;
    manifest.inputs = options.inputs.bind(options.program, options.mode != "timing", simulation);
    options.budgets.prepare(simulation, settings.mode);
    options.long_run.prepare(simulation.program(), settings);
    check_output_paths(options, simulation);
    std::optional<traces::RunFolder> files;
    if (!options.out.empty()) files.emplace(options.out, options.force);

    const auto status = options.long_run.run(simulation, !options.quiet && isatty(STDERR_FILENO) != 0);

    Diagnostics found = simulation.run_findings();
    if (options.strict) found.promote_warnings();
    print_findings(found);
    print_findings(simulation.value_findings());
    std::vector<traces::OpRow> ops;
    if (files || !options.quiet || !options.budgets.empty()) ops = simulation.take_op_rows();
    options.budgets.fill_in(ops);
    if (files) {
        manifest.command_line = command_line;
        manifest.events = path_inside(options.out, options.events);
        manifest.program.path = options.program;
        manifest.platform.path = options.device.platform;
        runtime::save_run(*files, simulation, ops, std::move(manifest));
    }
    if (!options.hazards.empty()) write_hazards(options.hazards, simulation);
    std::optional<traces::Recording> recording;
    if (simulation.options().record_events) recording = simulation.take_recording();
    if (recording) write_traces(options, *recording);
    if (files) runtime::finish_saved_run(*files, simulation);
    print_hazards(simulation, options.allow_hazards, options.quiet);
    if (options.json) print_data(simulation.stats().to_json(simulation.complete()));
    if (!options.quiet) print_report(options, simulation, ops);
    int code = conclude(options, status, simulation);
    if (code == exit_ok && found.has_errors()) code = exit_failed;
    code = judge(options, code, simulation, ops, recording ? &*recording : nullptr);
    if (status == runtime::RunStatus::interrupted) leave(code);
    return code;
}

}  // namespace

void add_run(CLI::App& app, int& exit_code, const std::vector<std::string>& command_line) {
    auto options = std::make_shared<RunOptions>();
    auto* command = app.add_subcommand("run", "run a program on a platform: values, cycles, causes, energy");
    command->add_option("program", options->program, program_help())->required();
    options->device.add_to(*command);
    add_row_options(*command, compiler::front_end_options(), options->front_end);
    options->params.add_to(*command);
    options->inputs.add_to(*command);
    command->add_option("--mode", options->mode, "values+timing (default), timing, functional")
        ->check(CLI::IsMember({"values+timing", "timing", "functional"}));
    command->add_option("--order", options->order, "functional mode: program (default) or random:SEED");
    command
        ->add_option("--values", options->values, "arithmetic engine: fast (default) or reference; same bits")
        ->check(CLI::IsMember({"fast", "reference"}));
    command
        ->add_option("--stepper", options->stepper, "memory stepper: fast (default) or oracle; same cycles")
        ->check(CLI::IsMember({"fast", "oracle"}));
    command->add_flag("--strict", options->strict, "warnings are errors, but for those of values");
    command->add_flag("--retarget", options->retarget, retarget_help);
    auto* allow = command->add_flag("--allow-hazards", options->allow_hazards,
                                    "races and unwritten reads of the run do not make it fail (exit 2)");
    command->add_flag("--no-hazards", options->no_hazards, "do not look for races and unwritten reads")
        ->excludes(allow);
    command->add_option("--max-cycles", options->max_cycles, "stop there (exit 2)")->check(not_positive);
    command
        ->add_option("--max-steps", options->max_steps,
                     "functional mode: most statements of invocations in one launch of a kernel (exit 2)")
        ->check(not_positive);
    command->add_option("--seed", options->seed, "seed of random choices");
    command->add_option("-o,--output", options->out, "folder for stats.json, ops.csv, outputs/ and more");
    command->add_flag("--force", options->force, "replace kpusim's own files in an existing folder");
    command->add_option("--events", options->events, "event file, for `kpusim export`");
    options->traces.add_to(*command);
    command
        ->add_option("--bin-ns", options->bin_ns,
                     "width of a time bin of power and bandwidth, in traces and of power.peak_w; default: "
                     "energy.trace_bin_ns of the platform")
        ->check(not_positive)
        ->excludes("--trace-every");
    options->budgets.add_to(*command);
    options->generate.add_to(*command);
    command->add_option("--hazards", options->hazards,
                        "file for the hazards found: SARIF 2.1.0 if it ends in .sarif, else JSON");
    command->add_option(
        "--junit", options->junit,
        "file for the verdicts on budgets as JUnit XML, for CI systems: a test case for each");
    command->add_flag("--json", options->json, "statistics as JSON on standard output");
    command->add_flag("--quiet", options->quiet, "no report");
    command->callback([options, command, &exit_code, &command_line] {
        options->mode_given = command->count("--mode") > 0;
        exit_code = run(*options, command_line);
    });
}

}  // namespace kpu::cli
