// debug: a program that stops where one wants, and shows what it holds.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "runtime/cli/command.hpp"
#include "runtime/cli/ending.hpp"
#include "runtime/debug/debugger.hpp"

namespace kpu::cli {
namespace {

struct DebugOptions {
    std::string program, mode = "values+timing";
    DeviceOptions device;
    GivenOptions front_end;
    ParamOptions params;
    InputOptions inputs;
};

/// Verbs from standard input, a line each; answers to standard output. Ctrl-C stops a program that runs; while a person
/// is asked for the next verb, and for a script, it ends the session.
std::optional<std::string> next_verb(const std::string& answer) {
    const bool person = isatty(STDIN_FILENO) != 0;
    if (!answer.empty()) print_out(answer + "\n");
    const EndsAtOnce at_once;
    if (interrupted && (!person || time_is_up())) return std::nullopt;
    interrupted = false;
    if (person) print_out("(kpusim) ");
    std::string line;
    if (!std::getline(std::cin, line)) return std::nullopt;
    return line;
}

int debug(const DebugOptions& options) {
    if (options.program == "-")
        throw UserError("debug reads verbs from standard input. Fix: give the program as a file.");
    Diagnostics diagnostics;
    const auto source = compiler::Source::of_file(options.program);
    const auto loaded =
        compiler::load_for_device(source, options.front_end, options.device.choice(), diagnostics);
    if (loaded.module == nullptr) compiler::refuse_no_program(source);
    if (!loaded.no_values.empty() && options.mode != "timing") throw UserError(loaded.no_values);
    runtime::SimulationOptions settings;
    if (options.mode == "functional") settings.mode = runtime::Mode::functional;
    settings.params = options.params.bindings();
    runtime::Simulation simulation(loaded.module, loaded.platform ? &*loaded.platform : nullptr, settings);
    print_findings(diagnostics);
    print_findings(simulation.diagnostics());
    options.inputs.bind(options.program, true, simulation);
    const KeepsPartialResults keeps;
    runtime::Debugger(simulation, next_verb, &interrupted).run();
    if (!interrupted) return exit_ok;
    if (!time_is_up()) return exit_interrupted;
    print_err(fmt::format("error: stopped after {:g} seconds. {}.\n", time_limit(), timeout_fix));
    return exit_failed;
}

}  // namespace

void add_debug(CLI::App& app, int& exit_code) {
    auto options = std::make_shared<DebugOptions>();
    auto* command =
        app.add_subcommand("debug",
                           "run a program by verbs of standard input: stop, step, look; the verb help has "
                           "them all");
    command->add_option("program", options->program, program_help())->required();
    options->device.add_to(*command);
    add_row_options(*command, compiler::front_end_options(), options->front_end);
    options->params.add_to(*command);
    options->inputs.add_to(*command);
    command->add_option("--mode", options->mode, "values+timing (default), functional")
        ->check(CLI::IsMember({"values+timing", "functional"}));
    command->callback([options, &exit_code] { exit_code = debug(*options); });
}

}  // namespace kpu::cli
