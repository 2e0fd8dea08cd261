#include "explain/critical_path.hpp"

#include <algorithm>
#include <numeric>

#include "base/diagnostics.hpp"

namespace kpu::explain {

using traces::no_task;
using traces::no_unit;

std::string_view name_of(Because because) {
    static constexpr std::string_view names[] = {
        "start", "dependency", "carried dependency", "unit busy",  "dispatch",
        "wait",  "window",     "token table",        "task limit", "unknown"};
    return names[static_cast<size_t>(because)];
}

namespace {

Because because_of(traces::IssueCause cause) {
    switch (cause) {
        case traces::IssueCause::token:
            return Because::wait;
        case traces::IssueCause::table:
            return Because::table;
        case traces::IssueCause::window:
            return Because::window;
        case traces::IssueCause::limit:
            return Because::limit;
        case traces::IssueCause::start:
            break;
    }
    return Because::unknown;
}

}  // namespace

CriticalPath::CriticalPath(const RunGraph& graph)
    : graph_(graph), slack_(graph.tasks().size(), 0), on_path_(graph.tasks().size(), false) {
    walk();
    std::reverse(segments_.begin(), segments_.end());
    find_slack();
}

void CriticalPath::add(const PathSegment& segment) {
    if (segment.from == segment.to) return;
    segments_.push_back(segment);
    PathSegment& added = segments_.back();
    if (added.unit != no_unit) added.causes = causes_between(graph_.states(added.unit), added.from, added.to);
}

PathSegment CriticalPath::execution(uint32_t task, Cycles to) const {
    const TaskRun& run = graph_.tasks()[task];
    PathSegment segment;
    segment.from = run.begin;
    segment.to = to;
    segment.task = task;
    segment.unit = run.unit;
    return segment;
}

/// Returns what ended last; of a run that was cut off, a task that still ran. Nothing: no task began.
PathSegment CriticalPath::last_segment() const {
    const std::vector<TaskRun>& tasks = graph_.tasks();
    PathSegment last;
    for (uint32_t t = 0; t < tasks.size(); ++t) {
        if (!tasks[t].begun()) continue;
        const Cycles end = tasks[t].ended() ? tasks[t].end : graph_.total();
        if (last.task == no_task || end > last.to) last = execution(t, end);
    }
    return last;
}

/// Walks from the end of the run to its begin, each time to what could not have been earlier. Ends, since a
/// segment's predecessor ends where it begins, and is an older task or begins earlier.
void CriticalPath::walk() {
    PathSegment segment = last_segment();
    if (segment.to < graph_.total()) {
        PathSegment tail;
        tail.kind = PathSegment::Kind::stands;
        tail.from = segment.to;
        tail.to = graph_.total();
        tail.because = Because::unknown;
        tail.because_task = segment.task;
        add(tail);
    }
    if (segment.task == no_task) return;
    for (bool more = true; more;) {
        PathSegment next;
        more = why(segment, next);
        add(segment);
        if (segment.kind == PathSegment::Kind::executes) on_path_[segment.task] = true;
        segment = next;
    }
}

bool CriticalPath::why(PathSegment& segment, PathSegment& next) const {
    const TaskRun& task = graph_.tasks()[segment.task];
    const uint32_t serial = segment.task;
    if (segment.kind == PathSegment::Kind::stands || task.begin == task.ready)
        return released(serial, segment, next);
    if (held_by_unit(serial, task.unit, segment, next) || held_by_unit(serial, task.partner, segment, next) ||
        held_by_sequencer(serial, segment, next) || held_by_launch(serial, segment, next)) {
        return true;
    }
    segment.because = Because::unknown;
    next.kind = PathSegment::Kind::stands;
    next.from = task.ready;
    next.to = task.begin;
    next.task = serial;
    return true;
}

/// True if the task that the unit took before this one kept it from taking this one.
bool CriticalPath::held_by_unit(uint32_t task, uint16_t unit, PathSegment& segment, PathSegment& next) const {
    if (unit == no_unit) return false;
    const std::vector<TaskRun>& tasks = graph_.tasks();
    const uint32_t before = RunGraph::before(graph_.tasks_of(unit), tasks, task);
    const Cycles begin = tasks[task].begin;
    if (before == no_task || tasks[before].begin >= begin || tasks[before].end < begin) return false;
    segment.because = Because::unit_busy;
    segment.because_task = before;
    next = execution(before, begin);
    return true;
}

/// True if several units work on a launch of a kernel, and it began on one of them: what had this one shows
/// in its states.
bool CriticalPath::held_by_launch(uint32_t serial, PathSegment& segment, PathSegment& next) const {
    const std::vector<TaskRun>& tasks = graph_.tasks();
    const TaskRun& task = tasks[serial];
    if (task.unit == no_unit) return false;
    const std::vector<UnitState>& states = graph_.states(task.unit);
    auto at = std::lower_bound(states.begin(), states.end(), task.begin,
                               [](const UnitState& state, Cycles time) { return state.from < time; });
    while (at != states.begin() && (--at)->to > task.ready) {
        if (at->task == no_task || at->task == serial) continue;
        const TaskRun& before = tasks[at->task];
        if (!before.begun() || before.begin >= task.begin || before.begin >= at->to) continue;
        segment.because = Because::unit_busy;
        segment.because_task = at->task;
        next = execution(at->task, task.begin);
        return true;
    }
    return false;
}

bool CriticalPath::held_by_sequencer(uint32_t serial, PathSegment& segment, PathSegment& next) const {
    const std::vector<TaskRun>& tasks = graph_.tasks();
    const TaskRun& task = tasks[serial];
    const uint32_t before = RunGraph::before(graph_.dispatched_by(task.sequencer), tasks, serial);
    if (before == no_task || tasks[before].begin >= task.begin ||
        tasks[before].begin + graph_.info().dispatch_cycles < task.begin) {
        return false;
    }
    segment.because = Because::dispatch;
    segment.because_task = before;
    next.kind = PathSegment::Kind::dispatch;
    next.from = tasks[before].begin;
    next.to = task.begin;
    next.task = before;
    for (size_t u = 0; u < graph_.info().units.size(); ++u) {
        const traces::UnitInfo& unit = graph_.info().units[u];
        if (unit.kind == UnitKind::seq && unit.engine == task.sequencer) next.unit = static_cast<uint16_t>(u);
    }
    return true;
}

bool CriticalPath::released(uint32_t serial, PathSegment& segment, PathSegment& next) const {
    const TaskRun& task = graph_.tasks()[serial];
    if (task.readied_by == no_task) {
        segment.because = Because::start;
        return false;
    }
    const bool by_token = task.ready > task.issue || task.readied_by != task.issued_by;
    segment.because = !by_token                                       ? because_of(task.issue_cause)
                      : graph_.carries_token(task.readied_by, serial) ? Because::carried
                                                                      : Because::dependency;
    segment.because_task = task.readied_by;
    next = execution(task.readied_by, task.ready);
    return true;
}

/// Finds the slack of each task: the smallest slack of those that follow it, each with what lies between its
/// end and their begin. Nothing says which tasks a loop's window or a wait would have waited for beside the
/// one that ended last; so a task that nothing is known to wait for may last until the next of these lets
/// something issue.
void CriticalPath::find_slack() {
    const std::vector<TaskRun>& tasks = graph_.tasks();
    const Cycles total = graph_.total();
    std::vector<uint32_t> order;
    std::vector<Cycles> releases;  // at which a wait or a window ended
    for (uint32_t t = 0; t < tasks.size(); ++t) {
        if (tasks[t].begun()) order.push_back(t);
        if (tasks[t].issued_by != no_task) releases.push_back(tasks[t].issue);
    }
    std::sort(releases.begin(), releases.end());
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
        return std::make_pair(tasks[a].begin, a) > std::make_pair(tasks[b].begin, b);
    });
    std::vector<bool> followed(tasks.size(), false);
    std::vector<Cycles> follow(tasks.size(), never);
    const auto edge = [&](uint32_t from, uint32_t to, Cycles begin) {
        if (from == no_task) return;
        const Cycles end = std::min(tasks[from].end, begin);  // overlapped: it let the unit go before its end
        followed[from] = true;
        follow[from] = std::min(follow[from], slack_[to] + (begin - end));
    };
    for (const uint32_t t : order) {
        const TaskRun& task = tasks[t];
        const Cycles end = task.ended() ? task.end : total;
        Cycles slack = std::min(follow[t], total - end);
        if (!followed[t]) {
            const auto next = std::lower_bound(releases.begin(), releases.end(), end);
            if (next != releases.end()) slack = std::min(slack, *next - end);
        }
        slack_[t] = on_path_[t] ? 0 : slack;
        for (const uint32_t* p = graph_.producers_begin(task); p != graph_.producers_end(task); ++p)
            edge(*p, t, task.begin);
        edge(task.issued_by, t, task.begin);
        for (const uint16_t unit : {task.unit, task.partner}) {
            if (unit != no_unit) edge(RunGraph::before(graph_.tasks_of(unit), tasks, t), t, task.begin);
        }
    }
}

UnitKind resource_of(traces::Cause limiter, const traces::StreamWork& stream) {
    using traces::Cause;

    const auto memory = [](const traces::StreamWork::End& end) {
        return end.is_memory ? kind_of(end.level) : UnitKind::device;
    };
    switch (limiter) {
        case Cause::stalled_operand_dram_bandwidth:
        case Cause::stalled_operand_dram_latency:
        case Cause::stalled_operand_dram_bank_conflict:
        case Cause::stalled_operand_dram_turnaround:
        case Cause::stalled_operand_dram_imbalance:
        case Cause::stalled_refresh:
            return UnitKind::ddr;
        case Cause::stalled_operand_interconnect:
            return UnitKind::link;
        case Cause::stalled_operand_bank_conflict:
        case Cause::stalled_operand_sram_access:
            return memory(stream.source);
        case Cause::stalled_backpressure:
            return memory(stream.destination);
        default:
            return UnitKind::device;
    }
}

namespace {

/// Returns the resources of a kind that a task's streams pass.
std::vector<uint16_t> resources_of(const RunGraph& graph, const TaskRun& task, UnitKind kind) {
    std::vector<uint16_t> found;
    const traces::TaskWork* work = graph.work_of(task);
    if (work == nullptr) return found;
    for (const traces::StreamWork& stream : work->streams) {
        for (const traces::StreamHop& hop : stream.hops) {
            if (graph.info().units[hop.unit].kind == kind) found.push_back(hop.unit);
        }
    }
    std::sort(found.begin(), found.end());
    return found;
}

bool share(const std::vector<uint16_t>& a, const std::vector<uint16_t>& b) {
    return std::any_of(a.begin(), a.end(),
                       [&](uint16_t unit) { return std::binary_search(b.begin(), b.end(), unit); });
}

}  // namespace

std::vector<Competitor> competitors(const RunGraph& graph, uint32_t serial, traces::Cause limiter,
                                    Cycles from, Cycles to) {
    const std::vector<TaskRun>& tasks = graph.tasks();
    const traces::TaskWork* work = graph.work_of(tasks[serial]);
    if (work == nullptr) return {};
    std::vector<Competitor> found;
    for (const traces::StreamWork& stream : work->streams) {
        const UnitKind kind = resource_of(limiter, stream);
        const std::vector<uint16_t> own = resources_of(graph, tasks[serial], kind);
        if (own.empty()) continue;
        for (size_t u = 0; u < graph.info().units.size(); ++u) {
            const std::vector<uint32_t>& list = graph.tasks_of(static_cast<uint16_t>(u));
            auto at = std::lower_bound(list.begin(), list.end(), to,
                                       [&](uint32_t t, Cycles time) { return tasks[t].begin < time; });
            // a unit has few tasks under way at once
            for (int back = 0; back < 4 && at != list.begin(); ++back) {
                const TaskRun& other = tasks[*--at];
                if (*at == serial || other.unit != u) continue;
                const Cycles end = other.ended() ? other.end : graph.total();
                const Cycles begin = std::max(other.begin, from), until = std::min(end, to);
                if (begin < until && share(own, resources_of(graph, other, kind)))
                    found.push_back({*at, other.unit, until - begin});
            }
        }
        break;
    }
    std::sort(found.begin(), found.end(), [](const Competitor& a, const Competitor& b) {
        return a.cycles != b.cycles ? a.cycles > b.cycles : a.task < b.task;
    });
    return found;
}

}  // namespace kpu::explain
