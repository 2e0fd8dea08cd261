// One task instance of a run, for people: when it was issued, became ready, began and ended, and what came before each.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "base/text_lines.hpp"
#include "explain/explanation.hpp"
#include "traces/report.hpp"

namespace kpu::explain {

using traces::grouped;
using traces::no_task;

namespace {

std::string time_of(Cycles cycle) { return cycle == never ? "never" : grouped(cycle); }

class TaskText : private TextLines {
  public:
    TaskText(const RunGraph& graph, uint32_t serial)
        : graph_(graph), serial_(serial), task_(graph.tasks()[serial]) {}

    std::string text() {
        line("{} ({}) in {} on {}", graph_.label(serial_), graph_.info().op_name(task_.op),
             graph_.info().program, graph_.info().platform);
        if (const std::string place = graph_.place_of(serial_); !place.empty()) line("  made of  {}", place);
        line("  issued   {:>12}  {}", time_of(task_.issue), issue_reason());
        line("  ready    {:>12}  {}", time_of(task_.ready), ready_reason());
        line("  begins   {:>12}  {}", time_of(task_.begin), begin_reason());
        line("  ends     {:>12}{}", time_of(task_.end),
             task_.ended() && task_.begun()
                 ? fmt::format("  after {} cycles", grouped(task_.end - task_.begin))
                 : "");
        producers();
        meanwhile();
        return lines();
    }

  private:
    std::string issue_reason() const {
        const std::string other = graph_.label(task_.issued_by);
        switch (task_.issue_cause) {
            case traces::IssueCause::token:
                return "the program waited for " + other;
            case traces::IssueCause::table:
                return "the token table was full until " + other + " ended";
            case traces::IssueCause::window:
                return "max_in_flight: the iteration of " + other + " had to end";
            case traces::IssueCause::limit:
                return "too many live tasks until " + other + " ended";
            case traces::IssueCause::start:
                break;
        }
        return "nothing was in its way since the program began";
    }
    std::string ready_reason() const {
        if (task_.ready == never) return "";
        return task_.readied_by == no_task ? "it needs nothing that was still to come"
                                           : "needed the result of " + graph_.label(task_.readied_by);
    }
    std::string begin_reason() const {
        if (!task_.begun() || task_.unit == traces::no_unit) return "";
        const std::string& unit = graph_.unit_name(task_.unit);
        const uint32_t before = RunGraph::before(graph_.tasks_of(task_.unit), graph_.tasks(), serial_);
        const bool waited = before != no_task && graph_.tasks()[before].ended() && task_.ready != never &&
                            graph_.tasks()[before].end > task_.ready;
        return waited ? fmt::format("on {}, which had {}", unit, graph_.label(before)) : "on " + unit;
    }
    void producers() {
        const uint32_t *first = graph_.producers_begin(task_), *last = graph_.producers_end(task_);
        if (first == last) return;
        line("\n  needs the results of");
        for (const uint32_t* p = first; p != last; ++p) {
            const bool carried = graph_.carries_token(*p, serial_);
            line("  {:>12}  {}{}", time_of(graph_.tasks()[*p].end), graph_.label(*p),
                 carried ? ", an earlier iteration" : "");
        }
    }
    void meanwhile() {
        if (!task_.begun() || task_.unit == traces::no_unit) return;
        const Cycles end = std::min(task_.end, graph_.total());
        line("\n  what {} did meanwhile", graph_.unit_name(task_.unit));
        for (const auto& [cause, cycles] : causes_between(graph_.states(task_.unit), task_.begin, end))
            line("  {:>12}  {}", grouped(cycles), traces::full_name_of(cause));
    }

    const RunGraph& graph_;
    const uint32_t serial_;
    const TaskRun& task_;
};

/// Finds where the loops of a task's name begin; a layer may have brackets in its own.
size_t loops_of(std::string_view name) {
    return ends_with(name, "]") ? name.rfind('[') : std::string_view::npos;
}

/// Returns "g[t=0, k = 1]" as labels have it.
std::string as_label(std::string_view name) {
    const size_t loops = std::min(loops_of(name), name.size());
    std::string label(name.substr(0, loops));
    for (const char c : name.substr(loops)) {
        const bool separates = c == ' ' || c == ',';
        if (!separates) label += c;
        if (separates && !label.empty() && label.back() != ' ' && label.back() != '=') label += ' ';
    }
    return label;
}

}  // namespace

std::string text_of_task(const RunGraph& graph, const std::string& name) {
    const std::string wanted = as_label(name), statement = name.substr(0, loops_of(name));
    std::string example;
    for (uint32_t serial = 0; serial < graph.tasks().size(); ++serial) {
        if (graph.tasks()[serial].statement == no_task) continue;
        const std::string label = graph.label(serial);
        if (label == wanted) return TaskText(graph, serial).text();
        if (example.empty() && label.substr(0, loops_of(label)) == statement) example = label;
    }
    throw UserError(fmt::format("the run has no task `{}`. Fix: {}.", name,
                                example.empty()
                                    ? "give a name of the critical path, as `kpusim explain RUN` prints it"
                                    : fmt::format("give all loops, as in `{}`", example)));
}

std::string text_of(const RunGraph& graph, const std::string& name, const TextOptions& options) {
    const auto& ops = graph.info().ops;
    const bool is_op = std::any_of(ops.begin(), ops.end(), [&](const auto& op) { return op.id == name; });
    const bool is_task =
        std::any_of(graph.info().statements.begin(), graph.info().statements.end(),
                    [&](const auto& statement) { return !statement.name.empty() && statement.name == name; });
    if (!name.empty() && (name.back() == ']' || is_task) && !is_op) return text_of_task(graph, name);
    const Explanation explanation(graph);
    return name.empty() ? text_of_run(explanation, options) : text_of_op(explanation, name, options);
}

}  // namespace kpu::explain
