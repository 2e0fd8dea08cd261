// diff: what changed between two runs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/text_output.hpp"
#include "runtime/cli/command.hpp"
#include "runtime/compare/difference.hpp"
#include "runtime/compare/page.hpp"

namespace kpu::cli {
namespace {

struct DiffArguments {
    std::string a, b, threshold = "1%", tolerance, html;
    std::vector<std::string> more;
    size_t top = 20;
    bool json = false, force = false;
};

traces::DiffOptions options_of(const DiffArguments& arguments) {
    traces::DiffOptions options;
    options.threshold = parse_percent(arguments.threshold, "--threshold");
    if (!arguments.tolerance.empty()) options.tolerance = parse_percent(arguments.tolerance, "--tolerance");
    options.top = arguments.top;
    return options;
}

/// Checks the arguments before anything is read.
void check(const DiffArguments& arguments) {
    if (!arguments.more.empty() && (arguments.html.empty() || arguments.json))
        throw UserError(fmt::format(
            "only a page compares more than two runs; text and --json are of two. Fix: give --html FILE{}.",
            arguments.json ? " without --json, or two folders" : ", or two folders"));
    if (arguments.more.size() + 2 > compare::Page::most_runs)
        throw UserError(fmt::format("{} runs are more than a page shows. Fix: give {} or fewer.",
                                    arguments.more.size() + 2, compare::Page::most_runs));
    if (arguments.html.empty()) {
        if (arguments.force)
            throw UserError(
                "--force replaces the page of --html, which is not given. Fix: give --html FILE.");
        return;
    }
    std::error_code none;
    if (!arguments.force && std::filesystem::is_regular_file(arguments.html, none))
        throw UserError(
            fmt::format("{} exists. Fix: give --force to replace it, or another name.", arguments.html));
    Output::check(arguments.html);
}

/// Returns the exit code: of statistics that differ by more than the tolerance, which are named.
int judge(const compare::Difference& found, const std::string& run, const DiffArguments& arguments) {
    if (!found.runs.beyond_tolerance()) return exit_ok;
    const std::string place = arguments.more.empty() ? "" : run + ": ";
    for (const auto& row : found.runs.statistics) {
        if (row.beyond_tolerance)
            print_err(fmt::format("error: {}{} differs by {:.3g} %, more than the tolerance of {}.\n", place,
                                  row.key, 100 * row.relative(), arguments.tolerance));
    }
    return exit_mismatch;
}

void print(const compare::Difference& found, const traces::DiffSide& a, const traces::DiffSide& b,
           const DiffArguments& arguments, const traces::DiffOptions& options) {
    if (arguments.json) return print_data(to_json(found, a, b));
    if (!arguments.html.empty()) return;
    print_out(to_text(found, a, b, options));
    if (found.empty()) print_err("no differences\n");
}

int diff(const DiffArguments& arguments) {
    const traces::DiffOptions options = options_of(arguments);
    check(arguments);
    auto a = compare::read_side(arguments.a);
    std::vector<std::string> others{arguments.b};
    others.insert(others.end(), arguments.more.begin(), arguments.more.end());
    std::optional<compare::Page> page;
    if (!arguments.html.empty()) page.emplace(a);
    int code = exit_ok;
    for (const std::string& other : others) {  // one at a time: events may be large
        auto b = compare::read_side(other);
        const compare::Difference found = compare::difference_of(a, b, options);
        print(found, a, b, arguments, options);
        if (page) page->add(b, a, found);
        code = std::max(code, judge(found, other, arguments));
    }
    if (page) {
        write_file(arguments.html, page->html());
        print_err(fmt::format("{} is written: open it in a browser\n", arguments.html));
    }
    return code;
}

}  // namespace

void add_diff(CLI::App& app, int& exit_code) {
    auto arguments = std::make_shared<DiffArguments>();
    auto* command = app.add_subcommand("diff",
                                       "what changed between two runs: parameters, program, schedule, "
                                       "critical path, statistics, operations; --html: as a page, with "
                                       "timelines side by side");
    command->add_option("a", arguments->a, "folder of a run")->required();
    command->add_option("b", arguments->b, "folder of the run to compare with it")->required();
    command->add_option("more", arguments->more,
                        "with --html: folders of further runs, compared with the first");
    command->add_option("--threshold", arguments->threshold,
                        "list statistics that changed by at least this (default 1%); units: of cycles.total");
    command->add_option(
        "--tolerance", arguments->tolerance,
        "exit 3 if cycles.total, energy.total_uj, power.* or bytes.* differ by more, e.g. 2%");
    command->add_option("--top", arguments->top, "rows of each table of the text (default 20)");
    command->add_flag("--json", arguments->json, "everything as JSON");
    command->add_option("--html", arguments->html,
                        "page to write: timelines on one axis, operations, what moved, energy");
    command->add_flag("--force", arguments->force, "replace the page if it exists");
    command->callback([arguments, &exit_code] { exit_code = diff(*arguments); });
}

}  // namespace kpu::cli
