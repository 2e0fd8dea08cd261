// validate: measured layers beside simulated ones.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/text_output.hpp"
#include "platforms/platform.hpp"
#include "runtime/cli/command.hpp"
#include "runtime/cli/ending.hpp"
#include "runtime/validation/fit.hpp"
#include "runtime/validation/validate.hpp"

namespace kpu::cli {
namespace {

struct Options {
    std::string file;
    DeviceOptions device;
    bool json = false, no_own_choice = false;
    std::string explain;  ///< the row to explain; empty: compare all
};

void run(const Options& options, int& exit_code) {
    if (options.device.platform.empty())
        throw UserError(
            "validate needs the machine that was measured. Fix: --platform gemmini16, or a file that "
            "describes it.");
    std::vector<validation::MeasuredRow> rows = validation::read_measured(options.file);
    const platforms::Platform platform = platforms::load(options.device.platform, options.device.overrides());
    if (!options.explain.empty()) {
        const auto explained =
            validation::explain_row(validation::find_row(rows, options.explain), platform, &interrupted);
        options.json ? print_data(validation::json_of(explained)) : print_out(validation::text_of(explained));
        if (interrupted) exit_code = exit_interrupted;
        return;
    }
    validation::ValidateOptions how;
    how.own = !options.no_own_choice;
    how.interrupt = &interrupted;
    const size_t all = rows.size();
    const auto compared = validation::validate(std::move(rows), platform, how);
    if (options.json)
        print_data(validation::json_of(compared, platform.name()));
    else
        print_out(validation::text_of(compared));
    if (compared.size() < all) {
        print_err(fmt::format("interrupted: {} of {} rows\n", compared.size(), all));
        exit_code = exit_interrupted;
    }
}

}  // namespace

void add_validate(CLI::App& app, int& exit_code) {
    auto options = std::make_shared<Options>();
    auto* command = app.add_subcommand(
        "validate", "simulate layers that were measured on a machine, and tell how far off they are");
    command
        ->add_option("file", options->file,
                     "measured layers, a line each (.csv, columns: docs/accuracy_machines.md); - is stdin")
        ->required();
    options->device.add_to(*command);
    command->add_flag("--no-own-choice", options->no_own_choice,
                      "do not compile the layers as well: the measured schedules alone");
    command->add_option(
        "--explain", options->explain,
        "of this row, by its name or line: which parameters would have to be otherwise to meet what was "
        "measured, and by how much");
    command->add_flag("--json", options->json, "as JSON");
    command->callback([options, &exit_code] { run(*options, exit_code); });
}

}  // namespace kpu::cli
