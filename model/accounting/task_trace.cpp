#include "model/accounting/task_trace.hpp"

#include <algorithm>

namespace kpu::model {

TaskTrace::TaskTrace(traces::EventSink& sink, const Clock& core, const TaskBoard& board,
                     const std::vector<traces::UnitInfo>& units)
    : sink_(sink),
      core_(core),
      board_(board),
      moved_(units.size(), 0),
      tokens_(units.size(), 0),
      queued_(units.size(), 0) {
    for (size_t u = 0; u < units.size(); ++u) {
        const auto unit = static_cast<uint16_t>(u);
        if (!board.queues_of_unit(unit).empty()) able_.push_back(unit);
        if (row_of(units[u].kind).role == UnitRole::sequencer) sequencers_.push_back(unit);
    }
}

traces::Event TaskTrace::event_of(traces::EventKind kind, uint32_t task, uint32_t op) const {
    traces::Event event;
    event.time_ps = core_.edge(now_);
    event.kind = kind;
    event.task = task;
    event.op = op;
    return event;
}

void TaskTrace::record(traces::EventKind kind, uint16_t unit, uint32_t task, uint32_t op, int64_t value) {
    traces::Event event = event_of(kind, task, op);
    event.unit = unit;
    event.value = value;
    sink_.record(event);
}

void TaskTrace::counter(traces::CounterId counter, uint16_t unit, uint64_t time_ps, uint64_t value) {
    traces::Event event;
    event.time_ps = time_ps;
    event.kind = traces::EventKind::counter;
    event.cause = static_cast<uint8_t>(counter);
    event.unit = unit;
    event.op = traces::background_op;
    event.value = static_cast<int64_t>(value);
    sink_.record(event);
}

void TaskTrace::advanced(Cycles now) {
    if (now <= now_) return;
    queues();
    now_ = now;
}

/// Records the queue depth of a unit: ready tasks, not yet started, that it may take; as of the end of the
/// present instant.
void TaskTrace::queues() {
    for (const uint16_t unit : able_) {
        uint64_t depth = 0;
        for (const uint32_t queue : board_.queues_of_unit(unit)) depth += board_.queues()[queue].ready.size();
        if (depth == queued_[unit]) continue;
        queued_[unit] = depth;
        counter(traces::CounterId::queue_depth, unit, core_.edge(now_), depth);
    }
}

void TaskTrace::issued(const execution::TaskInstance& task) {
    const int depth = task.loops.depth;
    const int64_t innermost = depth > 0 ? task.loops[static_cast<size_t>(depth) - 1] : 0;
    static_assert(static_cast<int>(execution::IssueReason::limit) + 1 == traces::issue_cause_count);
    traces::Event issue = event_of(traces::EventKind::issue, task.serial, task.statement);
    issue.value = innermost;
    issue.cause = static_cast<uint8_t>(task.reason);
    issue.reserved = completing_ + 1;  // no_task + 1 is 0
    sink_.record(issue);
    for (int d = 0; d + 1 < depth; ++d) {
        record(traces::EventKind::loop, static_cast<uint16_t>(d), task.serial, task.task->op,
               task.loops[static_cast<size_t>(d)]);
    }
    const std::vector<uint32_t>& carried = task.carried_producers;
    for (const uint32_t producer : task.all_producers)
        flow(task, producer, std::binary_search(carried.begin(), carried.end(), producer));
}

void TaskTrace::flow(const execution::TaskInstance& task, uint32_t producer, bool carried) {
    traces::Event event = event_of(traces::EventKind::flow, task.serial, task.task->op);
    event.value = producer;
    event.cause = carried ? 1 : 0;
    sink_.record(event);
}

void TaskTrace::ready(const execution::TaskInstance& task) {
    traces::Event event = event_of(traces::EventKind::ready, task.serial, task.task->op);
    event.reserved = completing_ + 1;
    sink_.record(event);
    for (size_t p = task.late_producers; p < task.carried_producers.size(); ++p)
        flow(task, task.carried_producers[p], true);
}

/// Records the start of a task; of a launch on several units the first one stands for all.
void TaskTrace::started(const TaskCommand& command) {
    if (!command.first()) return;
    for (const uint16_t unit : {command.unit, command.partner}) {
        if (unit == traces::no_unit) continue;
        record(traces::EventKind::begin, unit, command.serial, command.task->task->op, command.sequencer);
    }
}

void TaskTrace::completed(const TaskCommand& command) {
    if (!command.last) return;
    for (const uint16_t unit : {command.first_unit, command.partner}) {
        if (unit == traces::no_unit) continue;
        if (command.plan->moves()) bytes(unit, command);
        record(traces::EventKind::end, unit, command.serial, command.task->task->op, 0);
    }
    completing_ = command.serial;
    work(command);
}

void TaskTrace::bytes(uint16_t unit, const TaskCommand& command) {
    counter(traces::CounterId::bytes, unit, core_.edge(command.report.start), moved_[unit]);
    moved_[unit] += command.plan->work;
    counter(traces::CounterId::bytes, unit, core_.edge(command.report.end), moved_[unit]);
}

/// Records the work of the task, as its unit planned it.
void TaskTrace::work(const TaskCommand& command) {
    record(traces::EventKind::work, traces::no_unit, command.serial, command.task->task->op,
           work_table_.index_of(command));
}

/// Entries of each sequencer's token table that are taken from now on.
void TaskTrace::arbitrated() {
    for (size_t k = 0; k < sequencers_.size(); ++k) {
        const uint32_t count = controller_->tokens_in_flight(static_cast<unsigned>(k));
        const uint16_t unit = sequencers_[k];
        if (tokens_[unit] == count) continue;
        tokens_[unit] = count;
        counter(traces::CounterId::tokens_in_flight, unit, core_.edge(now_), count);
    }
}

void TaskTrace::finished(Cycles end, const std::vector<TaskCommand*>& running) {
    advanced(end);
    for (const TaskCommand* command : running)
        if (command->first()) work(*command);
}

}  // namespace kpu::model
