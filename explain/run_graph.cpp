#include "explain/run_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/diagnostics.hpp"

namespace kpu::explain {

using traces::Event;
using traces::EventKind;
using traces::no_task;
using traces::no_unit;

namespace {

constexpr int max_sequencers = 65536;

[[noreturn]] void refuse(const std::string& origin, const std::string& what) {
    throw UserError(fmt::format(
        "{}: the records contradict each other: {}. Fix: write the file again with `kpusim run --events`.",
        origin, what));
}

/// Links are given by 1 + serial.
uint32_t linked(const Event& event) { return event.reserved - 1; }

}  // namespace

RunGraph::RunGraph(const traces::Recording& recording, const std::string& origin)
    : recording_(recording), names_(recording.info, recording.events) {
    by_unit_.resize(info().units.size());
    for (size_t u = 0; u < info().units.size(); ++u) {
        if (info().units[u].kind == UnitKind::device) device_ = static_cast<uint16_t>(u);
    }
    if (device_ == no_unit)
        throw UserError(
            fmt::format("{}: a run without a device has no time to explain. Fix: run with --mode timing or "
                        "values+timing.",
                        origin));
    read_tasks(origin);
    read_states();
    check(origin);
}

void RunGraph::read_tasks(const std::string& origin) {
    const Clock clock = info().clock();
    size_t count = 0;
    for (const Event& event : recording_.events) count += event.kind == EventKind::issue ? 1 : 0;
    tasks_.resize(count);
    std::vector<std::pair<uint32_t, uint32_t>> flows;  // consumer, producer
    for (const Event& event : recording_.events) {
        if (event.kind == EventKind::energy || event.kind == EventKind::active ||
            event.kind == EventKind::cause || event.kind == EventKind::counter) {
            continue;
        }
        if (event.task >= count) refuse(origin, fmt::format("task {} was never issued", event.task));
        TaskRun& task = tasks_[event.task];
        const Cycles at = clock.edges_before(event.time_ps);
        switch (event.kind) {
            case EventKind::issue:
                task.statement = event.op;
                task.issue = at;
                task.issue_cause = static_cast<traces::IssueCause>(event.cause);
                task.issued_by = linked(event);
                break;
            case EventKind::ready:
                task.op = event.op;
                task.ready = at;
                task.readied_by = linked(event);
                break;
            case EventKind::begin:
                task.op = event.op;
                (task.begun() ? task.partner : task.unit) = event.unit;
                if (!task.begun()) {
                    if (event.value < 0 || event.value >= max_sequencers) refuse(origin, "unknown sequencer");
                    task.sequencer = static_cast<int>(event.value);
                    const auto sequencer = static_cast<size_t>(task.sequencer);
                    if (sequencer >= by_sequencer_.size()) by_sequencer_.resize(sequencer + 1);
                    by_sequencer_[sequencer].push_back(event.task);
                }
                task.begin = at;
                by_unit_[event.unit].push_back(event.task);
                break;
            case EventKind::end:
                task.end = at;
                break;
            case EventKind::flow:
                task.op = event.op;
                if (event.value < 0 || event.value >= static_cast<int64_t>(count) ||
                    event.value == event.task)
                    refuse(origin, "a token comes from no other task");
                flows.emplace_back(event.task, static_cast<uint32_t>(event.value));
                // an earlier iteration may be issued later
                if (event.cause != 0)
                    carried_.push_back(flows.back());
                else if (event.value >= event.task)
                    refuse(origin, "a token flows backwards");
                break;
            case EventKind::work:
                task.work = static_cast<uint32_t>(event.value);
                break;
            default:
                break;
        }
    }
    std::sort(flows.begin(), flows.end());
    std::sort(carried_.begin(), carried_.end());
    for (const auto& [consumer, producer] : flows) {
        TaskRun& task = tasks_[consumer];
        if (task.producer_count++ == 0) task.first_producer = static_cast<uint32_t>(producers_.size());
        producers_.push_back(producer);
    }
}

bool RunGraph::carries_token(uint32_t producer, uint32_t consumer) const {
    return std::binary_search(carried_.begin(), carried_.end(), std::make_pair(consumer, producer));
}

void RunGraph::read_states() {
    const Clock clock = info().clock();
    states_.resize(info().units.size());
    traces::for_each_interval(info(), recording_.events, [&](const traces::StateInterval& interval) {
        const Cycles from = clock.edges_before(interval.start), to = clock.edges_before(interval.end);
        if (from < to)
            states_[interval.unit].push_back(
                {from, to, interval.cause, interval.task, interval.op, interval.blame});
    });
}

void RunGraph::check(const std::string& origin) const {
    for (size_t serial = 0; serial < tasks_.size(); ++serial) {
        const TaskRun& task = tasks_[serial];
        const auto bad = [&](const char* what) { refuse(origin, fmt::format("task {} {}", serial, what)); };
        if (task.issue == never) bad("was never issued");
        if (task.begun() && (task.ready == never || task.ready > task.begin))
            bad("began before it was ready");
        if (task.ready != never && task.ready < task.issue) bad("was ready before it was issued");
        if (task.ended() && (!task.begun() || task.end < task.begin || task.end > total()))
            bad("ended before it began, or after the run");
        for (const uint32_t cause : {task.issued_by, task.readied_by}) {
            if (cause == no_task) continue;
            if (cause >= tasks_.size() || !tasks_[cause].ended())
                bad("was released by a task that did not end");
            // a loop's token may come from a later task; else chains of releases could close
            if (cause >= serial && tasks_[cause].begin == tasks_[cause].end)
                bad("was released by a later task");
        }
        if (task.issued_by != no_task && tasks_[task.issued_by].end != task.issue)
            bad("was issued by a task that ended at another time");
        const bool released = task.readied_by != no_task;
        if (released ? tasks_[task.readied_by].end != task.ready
                     : task.ready != never && task.ready > task.issue)
            bad("was made ready by a task that ended at another time");
    }
}

const std::vector<uint32_t>& RunGraph::dispatched_by(int sequencer) const {
    return by_sequencer_.at(static_cast<size_t>(sequencer));
}

uint32_t RunGraph::before(const std::vector<uint32_t>& list, const std::vector<TaskRun>& tasks,
                          uint32_t task) {
    // begins ascend; within one instant the list has the order of dispatch
    auto at = std::lower_bound(list.begin(), list.end(), tasks[task].begin,
                               [&](uint32_t t, Cycles begin) { return tasks[t].begin < begin; });
    while (at != list.end() && *at != task) ++at;
    return at == list.begin() || at == list.end() ? no_task : *(at - 1);
}

std::string RunGraph::place(uint32_t statement) const {
    return info().carries_places ? info().place_of(statement) : std::string();
}

std::string RunGraph::place_of(uint32_t task) const {
    return task == no_task ? std::string() : place(tasks_[task].statement);
}

std::string RunGraph::label(uint32_t task) const { return task == no_task ? "-" : names_.label(task); }

const std::string& RunGraph::unit_name(uint16_t unit) const {
    static const std::string none = "-";
    return unit < info().units.size() ? info().units[unit].name : none;
}

CauseCycles causes_between(const std::vector<UnitState>& states, Cycles from, Cycles to) {
    std::array<Cycles, traces::cause_count> cycles{};
    auto at = std::lower_bound(states.begin(), states.end(), from,
                               [](const UnitState& state, Cycles time) { return state.to <= time; });
    for (; at != states.end() && at->from < to; ++at)
        cycles[static_cast<size_t>(at->cause)] += std::min(at->to, to) - std::max(at->from, from);
    CauseCycles result;
    for (size_t c = 0; c < cycles.size(); ++c) {
        if (cycles[c] > 0) result.emplace_back(static_cast<traces::Cause>(c), cycles[c]);
    }
    return result;
}

}  // namespace kpu::explain
