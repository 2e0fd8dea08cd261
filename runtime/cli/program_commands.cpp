// check, asm, disasm: what works on programs without running them.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "analysis/mend.hpp"
#include "analysis/parameters.hpp"
#include "analysis/schedule_check.hpp"
#include "base/text_output.hpp"
#include "compiler/nem_text/write_text.hpp"
#include "compiler/tile_schedule/forms.hpp"
#include "compiler/tile_schedule/load.hpp"
#include "isa/bound_module.hpp"
#include "isa/container.hpp"
#include "isa/nem/nem.hpp"
#include "isa/verify.hpp"
#include "runtime/cli/command.hpp"
#include "runtime/cli/coverage.hpp"
#include "runtime/cli/gate.hpp"
#include "runtime/cli/junit.hpp"

namespace kpu::cli {
namespace {

struct CheckOptions {
    std::string program;
    DeviceOptions device;
    GivenOptions front_end;
    ParamOptions params;
    bool strict = false, ci = false, retarget = false;
    std::string junit;
    bool json = false, sarif = false, fix = false, memory = false;
};

/// Results of a check.
struct Checked {
    Diagnostics diagnostics;
    analysis::FindingOrigins origins;
    std::string memory;    ///< lines on the use of each level
    std::string coverage;  ///< coverage of a network, a line for each node

    void add(Severity severity, analysis::FindingKind kind, SourcePos pos, std::string message) {
        origins[diagnostics.all().size()].kind = name_of(kind);
        diagnostics.add({severity, std::move(message), std::move(pos), {}});
    }
};

/// Returns "L2: buffers take 128 bytes, at most 64 of them hold what is still needed, at p.nem:6:1" and
/// "engine 0: up to 49 tasks in flight, the token table holds 16: issue waits".
std::string memory_text(const analysis::ScheduleReport& report, const BoundProgram& program,
                        const DeviceLimits& limits) {
    std::string text;
    for (const analysis::MemoryUse& use : report.memory) {
        const std::string level =
            use.level == Level::l1 ? fmt::format("L1[{}]", use.engine) : std::string(name_of(use.level));
        text += fmt::format("{}: buffers take {} bytes, at most {} hold what is still needed", level,
                            use.declared, use.peak_live);
        if (const SourcePos pos = program.pos_of(use.statement); !pos.file.empty()) {
            text += fmt::format(", at {}:{}:{}", pos.file, pos.line, pos.column);
        }
        text += '\n';
    }
    if (text.empty()) text = "memory: the program is too long to follow\n";
    for (size_t engine = 0; engine < report.peak_tokens.size(); ++engine) {
        const uint32_t peak = report.peak_tokens[engine];
        text += fmt::format("engine {}: up to {} tasks in flight", engine, peak);
        if (limits.max_active_tokens != 0)
            text += fmt::format(", the token table holds {}{}", limits.max_active_tokens,
                                peak > limits.max_active_tokens ? ": issue waits" : "");
        text += '\n';
    }
    return text;
}

/// Notes what is not checked for want of a device.
void note_no_device(const CheckOptions& options, const Module& module, Checked& checked) {
    const auto& directive = module.program.device();
    if (!directive.path().empty() || !directive.name().empty() || !directive.body().empty()) {
        // loading looks for the device last, and has said that it is not found
        checked.origins[checked.diagnostics.all().size() - 1].kind =
            name_of(analysis::FindingKind::no_device);
        return;
    }
    const std::string& target = module.program.target_name();
    if (target.empty() && !options.ci) return;  // of no device, and not meant to be
    checked.add(
        Severity::warning, analysis::FindingKind::no_device, {module.origin, 0, 0},
        fmt::format("the program {} and names no device: it is taken as device-agnostic, so that capacities, "
                    "units, opcodes, types and the token table are not checked. Fix: pass --platform{}.",
                    target.empty() ? "has no target" : fmt::format("was made for `{}`", target),
                    target.empty() ? ", or name a device in the program" : ""));
}

/// Notes what the schedule checker left out of a program that is too long for it: no gate passes that.
void note_not_followed(const analysis::ScheduleReport& report, const BoundProgram& program,
                       const DeviceLimits& limits, Checked& checked) {
    if (program.tasks.empty()) return;
    constexpr analysis::FollowBounds bounds = analysis::gate_bounds;
    const auto add = [&](const std::string& message) {
        checked.add(Severity::warning, analysis::FindingKind::not_checked, {program.module->origin, 0, 0},
                    message);
    };
    if (report.memory.empty())
        add(fmt::format(
            "not checked: the program has more than {} tasks, so reads of bytes that nobody wrote are not "
            "looked for beyond them, nor dead writes. Fix: check a shorter program, or leave --ci out and "
            "let `kpusim run` find such reads.",
            bounds.tasks));
    if (report.peak_tokens.empty() && limits.max_active_tokens > 0)
        add(fmt::format(
            "not checked: the program has more than {} tasks, so deadlocks of the token table are not looked "
            "for beyond them. Fix: check a shorter program, or leave --ci out and let `kpusim run` find "
            "them.",
            bounds.table_trials));
}

/// Returns the program, and of a network the nodes, also if it cannot be loaded.
compiler::Input load_into(const CheckOptions& options, Checked& checked,
                          std::vector<compiler::NodeSupport>& nodes) {
    try {
        return compiler::load_for_device(compiler::Source::of_file(options.program), options.front_end,
                                         options.device.choice(), checked.diagnostics, &nodes);
    } catch (const UserError&) {
        if (!nodes.empty()) checked.coverage = coverage_text(nodes, nullptr);
        throw;
    }
}

void check_into(const CheckOptions& options, Checked& checked) {
    Diagnostics& diagnostics = checked.diagnostics;
    std::vector<compiler::NodeSupport> nodes;
    compiler::Input input = load_into(options, checked, nodes);
    auto& [front_end, module, platform, no_values] = input;
    if (module == nullptr) return;  // devices: checked
    if (!platform) note_no_device(options, *module, checked);
    for (const DataSection& data : module->data) data.bytes();
    const auto limits = platform ? platforms::limits_of(*platform) : platforms::agnostic_limits();
    VerifyOptions verify_options;
    verify_options.retarget = options.retarget;
    verify_options.params = options.params.bindings();
    std::optional<BoundProgram> bound = verify(module, limits, verify_options, diagnostics);
    if (!bound || diagnostics.has_errors()) {
        if (!nodes.empty()) checked.coverage = coverage_text(nodes, nullptr);
        return;
    }
    if (!options.fix) shed_text(*bound, module);
    const BoundProgram& program = *bound;
    if (!nodes.empty()) checked.coverage = coverage_text(nodes, &program);
    if (!input.has_values()) {  // nothing writes its operands
        if (options.ci)
            checked.add(
                Severity::warning, analysis::FindingKind::not_checked, {module->origin, 0, 0},
                fmt::format("the schedule is not checked: of a {} only its times are known. Fix: check "
                            "a program with data, or leave out --ci.",
                            front_end->name));
        return;
    }
    if (options.fix) {
        analysis::Mended mended = analysis::mend(std::move(*bound), verify_options.params, limits);
        print_data(nem::print(*mended.module));
        print_err(fmt::format("{} change{} made\n", mended.changes, mended.changes == 1 ? "" : "s"));
        const analysis::ScheduleReport left = analysis::check_other_values(
            mended.module, verify_options.params, limits, std::move(mended.left));
        return analysis::add_to(left, mended.program, diagnostics, &checked.origins);
    }
    const analysis::ScheduleReport report = analysis::check_other_values(
        module, verify_options.params, limits,
        analysis::check_schedule(program, limits,
                                 options.ci ? analysis::gate_bounds : analysis::FollowBounds{}));
    analysis::add_to(report, program, diagnostics, &checked.origins);
    if (options.ci) note_not_followed(report, program, limits, checked);
    if (options.memory) checked.memory = memory_text(report, program, limits);
}

/// Gathers everything that can be wrong with a program, instead of throwing it.
Checked check_program(const CheckOptions& options) {
    Checked checked;
    Diagnostics& diagnostics = checked.diagnostics;
    try {
        check_into(options, checked);
    } catch (const UserError& error) {
        if (error.diagnostics().all().empty()) {
            diagnostics.error({options.program == "-" ? "<stdin>" : options.program, 0, 0}, error.what());
        } else if (!diagnostics.has_errors()) {
            for (const auto& item : error.diagnostics().all()) diagnostics.add(item);
        }
    }
    if (options.ci) diagnostics = gated(diagnostics, checked.origins);
    if (options.strict) diagnostics.promote_warnings();
    return checked;
}

void add_check(CLI::App& app, int& exit_code) {
    auto options = std::make_shared<CheckOptions>();
    auto* command =
        app.add_subcommand("check", "verify a program: form, names, types, bounds, capacity, device fit");
    command->add_option("program", options->program, program_help())->required();
    options->device.add_to(*command);
    add_row_options(*command, compiler::front_end_options(), options->front_end);
    options->params.add_to(*command);
    command->add_flag("--strict", options->strict, "warnings are errors");
    command->add_flag(
        "--ci", options->ci,
        "a gate: these warnings are errors, each with its exit code, the first that applies after 1 "
        "for other errors: " +
            gate_help());
    command->add_option(
        "--junit", options->junit,
        "also write the findings as JUnit XML to this file, for CI systems: a test case for each kind");
    command->add_flag("--retarget", options->retarget, retarget_help);
    auto* json = command->add_flag("--json", options->json, "findings as JSON on standard output");
    auto* sarif = command->add_flag("--sarif", options->sarif, "findings as SARIF 2.1.0 on standard output");
    sarif->excludes(json);
    command
        ->add_flag("--memory", options->memory,
                   "also print, for each level, what the buffers take and hold at most at one time")
        ->excludes(json)
        ->excludes(sarif);
    command
        ->add_flag("--fix-suggest", options->fix,
                   "print the program with the fixes of its hazards made, and on standard error what is left")
        ->excludes(json)
        ->excludes(sarif);
    command->callback([options, &exit_code] {
        if (!options->junit.empty()) Output::check(options->junit);
        const Checked checked = check_program(*options);
        const Diagnostics& diagnostics = checked.diagnostics;
        exit_code = diagnostics.has_errors() ? exit_bad_input : exit_ok;
        if (options->ci) exit_code = gate_exit_code(diagnostics, checked.origins);
        if (!options->junit.empty())
            write_file(options->junit,
                       junit_text("check", options->program, check_cases(diagnostics, checked.origins)));
        if (options->fix) return print_findings(diagnostics);
        if (options->json) return print_data(json_text(diagnostics, checked.origins));
        if (options->sarif) return print_data(sarif_text(diagnostics, checked.origins));
        print_out(findings_text(diagnostics, isatty(STDOUT_FILENO) != 0) + checked.coverage + checked.memory);
    });
}

struct ConvertOptions {
    std::string input, output, form;
    GivenOptions front_end;
    std::vector<std::string> search_paths;
    bool force = false;
};

/// An output is made again as often as one likes, but not out of itself by a slip of the hand.
void keep_input(const ConvertOptions& options) {
    std::error_code none;  // what cannot be read or written, reader and writer say
    if (options.force || !std::filesystem::is_regular_file(options.output, none) ||
        !std::filesystem::equivalent(options.input, options.output, none))
        return;
    throw UserError(
        fmt::format("{} is the program that is read. Fix: give another name, or --force to replace it by its "
                    "container.",
                    options.output));
}

void add_asm(CLI::App& app) {
    auto options = std::make_shared<ConvertOptions>();
    auto* command = app.add_subcommand("asm", "any program to a program container (.kpu)");
    command->add_option("input", options->input, program_help())->required();
    command->add_option("-o,--output", options->output, "container to write")->required();
    command->add_option("-I", options->search_paths, "folder to search for included files")
        ->allow_extra_args(false);
    command->add_flag("--force", options->force, "replace the output also where it is the input");
    add_row_options(*command, compiler::front_end_options(), options->front_end);
    command->callback([options] {
        keep_input(*options);
        Diagnostics diagnostics;
        const auto module = compiler::load_program(compiler::Source::of_file(options->input),
                                                   options->front_end, options->search_paths, diagnostics);
        print_findings(diagnostics);
        write_container(*module, options->output);
    });
}

/// Writes a schedule in another of its forms; it may be wrong, only its form is read.
void write_form(const ConvertOptions& options) {
    const auto source = compiler::Source::of_file(options.input);
    if (!tile_schedule::form_of(source.head()))
        throw UserError(
            fmt::format("{} is not a tile schedule, --as is for those. Fix: leave it out.", source.origin()));
    const OptionValues values(compiler::recognise(source).options, options.front_end);
    const auto schedule = tile_schedule::load_schedule(source, values.text("header"));
    const auto form = tile_schedule::parse_form(options.form);
    const std::string bytes = tile_schedule::write_schedule(schedule, form.value());
    if (options.output.empty()) return print_data(bytes);
    write_file(options.output, bytes);
}

void add_disasm(CLI::App& app) {
    auto options = std::make_shared<ConvertOptions>();
    auto* command =
        app.add_subcommand("disasm", "any program to NEM text, or a tile schedule to another of its forms");
    command->add_option("input", options->input, program_help())->required();
    command->add_option("-o,--output", options->output,
                        "file to write; data sections go to a file beside it");
    command->add_option("--as", options->form, "form of a tile schedule to write, instead of NEM text")
        ->check(CLI::IsMember({"text", "packed", "protobuf", "json"}));
    add_row_options(*command, compiler::front_end_options(), options->front_end);
    command->callback([options] {
        if (!options->form.empty()) return write_form(*options);
        Diagnostics diagnostics;
        const auto module = compiler::load_program(compiler::Source::of_file(options->input),
                                                   options->front_end, {}, diagnostics);
        print_findings(diagnostics);
        if (!options->output.empty()) return compiler::write_text(*module, options->output);
        print_data(nem::print(*module));
        if (module->program.data_size() > 0) {
            print_err("note: data sections are not written to standard output. Fix: give -o FILE.\n");
        }
    });
}

}  // namespace

void add_program_tools(CLI::App& app, int& exit_code) {
    add_check(app, exit_code);
    add_asm(app);
    add_disasm(app);
}

}  // namespace kpu::cli
