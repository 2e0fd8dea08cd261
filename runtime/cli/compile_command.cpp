// compile: a network, or any other program, for a device.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "isa/container.hpp"
#include "isa/verify.hpp"
#include "runtime/cli/command.hpp"

namespace kpu::cli {
namespace {

struct CompileRequest {
    std::string input, output;
    DeviceOptions device;
    GivenOptions front_end;
    bool force = false;
};

std::string tiles_of(const proto::Op& op) {
    std::string text;
    for (const proto::NamedInt& size : op.tiling().tile_size())
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", size.name(), size.value());
    return text;
}

/// Lists what was made, and the operations that are predicted to cost most.
std::string summary(const KPUProgram& program, const std::string& output) {
    std::vector<const proto::Op*> ops;
    for (const proto::Op& op : program.op()) ops.push_back(&op);
    std::stable_sort(ops.begin(), ops.end(), [](const proto::Op* a, const proto::Op* b) {
        return a->estimated_cycles() > b->estimated_cycles();
    });
    std::string text = fmt::format(
        "{}: {} operations for {} in {}, {:L} bytes of weights, about {:L} cycles\n", output, ops.size(),
        program.target_name(), program.precision(), program.weight_bytes(), program.estimated_total_cycles());
    if (ops.size() > 10) ops.resize(10);
    text += fmt::format("{:<30} {:<18} {:>14}  {}\n", "costliest, predicted", "type", "cycles", "tiles");
    for (const proto::Op* op : ops)
        text += fmt::format("{:<30} {:<18} {:>14}  {}\n", op->id(), op->op_type(), op->estimated_cycles(),
                            tiles_of(*op));
    return text;
}

void compile(const CompileRequest& options) {
    if (!options.force && std::filesystem::is_regular_file(options.output))
        throw UserError(
            fmt::format("{} exists. Fix: give --force to replace it, or another name.", options.output));
    Diagnostics diagnostics;
    const auto source = compiler::Source::of_file(options.input);
    const auto [front_end, module, platform, no_values] =
        compiler::load_for_device(source, options.front_end, options.device.choice(), diagnostics);
    if (module == nullptr) compiler::refuse_no_program(source);
    if (!no_values.empty()) throw UserError(no_values);
    if (platform) verify(module, platforms::limits_of(*platform), {}, diagnostics);
    print_findings(diagnostics);
    if (diagnostics.has_errors()) throw UserError(fmt::format("{}: nothing is written.", source.origin()));
    write_container(*module, options.output);
    if (module->program.op_size() > 0) print_out(summary(module->program, options.output));
}

}  // namespace

void add_compile(CLI::App& app) {
    auto options = std::make_shared<CompileRequest>();
    auto* command = app.add_subcommand("compile", "a network to the program of a device (.kpu)");
    command->add_option("model", options->input, program_help())->required();
    command->add_option("-o,--output", options->output, "container to write")->required();
    command->add_flag("--force", options->force, "replace the container if it exists");
    options->device.add_to(*command);
    add_row_options(*command, compiler::front_end_options(), options->front_end);
    command->callback([options] { compile(*options); });
}

}  // namespace kpu::cli
