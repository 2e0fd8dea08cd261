// diff: what changed between two runs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "runtime/cli/command.hpp"
#include "runtime/compare/difference.hpp"

namespace kpu::cli {
namespace {

struct DiffArguments {
    std::string a, b, threshold = "1%", tolerance;
    size_t top = 20;
    bool json = false;
};

int diff(const DiffArguments& arguments) {
    traces::DiffOptions options;
    options.threshold = parse_percent(arguments.threshold, "--threshold");
    if (!arguments.tolerance.empty()) options.tolerance = parse_percent(arguments.tolerance, "--tolerance");
    options.top = arguments.top;
    auto a = compare::read_side(arguments.a), b = compare::read_side(arguments.b);
    const compare::Difference found = compare::difference_of(a, b, options);
    if (arguments.json)
        print_data(to_json(found, a, b));
    else
        print_out(to_text(found, a, b, options));
    if (found.empty() && !arguments.json) print_err("no differences\n");
    if (!found.runs.beyond_tolerance()) return exit_ok;
    for (const auto& row : found.runs.statistics) {
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
