// explain: why a run took the cycles that it took, from its event file.
#include <filesystem>
#include <memory>

#include "explain/explanation.hpp"
#include "runtime/cli/command.hpp"
#include "traces/event_file.hpp"
#include "traces/run_folder.hpp"

namespace kpu::cli {
namespace {

struct ExplainOptions {
    std::string run, op;
};

void explain(const ExplainOptions& options) {
    const std::string events =
        std::filesystem::is_directory(options.run) ? traces::events_of_folder(options.run) : options.run;
    const traces::Recording recording = traces::read_event_file(events);
    const explain::RunGraph graph(recording, events);
    const explain::Explanation explanation(graph);
    const explain::TextOptions text;
    print_out(options.op.empty() ? text_of_run(explanation, text) : text_of_op(explanation, options.op, text));
}

}  // namespace

void add_explain(CLI::App& app, int&) {
    auto options = std::make_shared<ExplainOptions>();
    auto* command = app.add_subcommand(
        "explain", "why a run took its cycles: formulas with numbers, critical path, what would help");
    command
        ->add_option("run", options->run,
                     "folder of `run -o DIR --events DIR/events.kpuev`, or an event file")
        ->required();
    command->add_option("op", options->op, "one operation, by its name in ops.csv; default: the whole run");
    command->callback([options] { explain(*options); });
}

}  // namespace kpu::cli
