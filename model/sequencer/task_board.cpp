#include "model/sequencer/task_board.hpp"

#include <algorithm>

#include "base/diagnostics.hpp"
#include "isa/kernel/tile_code.hpp"

namespace kpu::model {

namespace {

TaskQueue queue_for(const BoundTask& task) {
    TaskQueue queue;
    queue.unit = execution::demand_of(task);
    queue.partner = execution::partner_demand_of(task);
    // of an engine's unit: the sequencer of the engine that the task is placed on
    if (!row_of(task.unit).per_engine)
        queue.sequencer = task.partner && task.engine >= 0 ? task.engine : std::max(task.token_engine, 0);
    return queue;
}

/// Returns the units that such a task may take are numbered below this.
int instances_of(const execution::UnitDemand& demand, const std::vector<traces::UnitInfo>& units) {
    int count = 0;
    for (const traces::UnitInfo& unit : units) {
        if (demand.accepts(unit.kind, unit.engine, unit.index)) count = std::max(count, unit.index + 1);
    }
    return count;
}

bool same(const TaskQueue& a, const TaskQueue& b) {
    return a.unit == b.unit && a.partner == b.partner && a.sequencer == b.sequencer;
}

}  // namespace

TaskBoard::TaskBoard(const BoundProgram& program, const std::vector<traces::UnitInfo>& units)
    : program_(program), by_unit_(units.size()), holders_(units.size(), nullptr) {
    queue_of_task_.reserve(program.tasks.size());
    for (const BoundTask& task : program.tasks) {
        queue_of_task_.push_back(find_or_add(queue_for(task)));
        if (task.instance_by_loops.is_constant()) continue;
        std::vector<uint32_t>& by_instance =
            queues_of_instances_[static_cast<size_t>(&task - program.tasks.data())];
        for (int k = 0; k < instances_of(execution::demand_of(task), units); ++k) {
            TaskQueue one = queue_for(task);
            one.unit.instance = k;
            by_instance.push_back(find_or_add(std::move(one)));
        }
    }
    for (uint32_t q = 0; q < queues_.size(); ++q) find_units(queues_[q], q, units);
    find_arrays(units);
}

/// Finds the arrays of the engines on which kernels with products may run.
void TaskBoard::find_arrays(const std::vector<traces::UnitInfo>& units) {
    multiplies_.assign(units.size(), false);
    for (size_t t = 0; t < program_.tasks.size(); ++t) {
        const BoundTask& task = program_.tasks[t];
        if (!task.launches() || !kernel::has_products(*task.launch->code)) continue;
        for (const uint16_t vector : queues_[queue_of_task_[t]].units)
            for (size_t u = 0; u < units.size(); ++u)
                if (units[u].kind == UnitKind::nmu && units[u].engine == units[vector].engine)
                    multiplies_[u] = true;
    }
}

uint32_t TaskBoard::find_or_add(TaskQueue wanted) {
    const auto found = std::find_if(queues_.begin(), queues_.end(),
                                    [&](const TaskQueue& queue) { return same(queue, wanted); });
    const auto index = static_cast<uint32_t>(found - queues_.begin());
    if (found == queues_.end()) queues_.push_back(std::move(wanted));
    return index;
}

void TaskBoard::find_units(TaskQueue& queue, uint32_t index, const std::vector<traces::UnitInfo>& units) {
    for (size_t u = 0; u < units.size(); ++u) {
        const traces::UnitInfo& unit = units[u];
        const bool fits = queue.unit.accepts(unit.kind, unit.engine, unit.index);
        // a transfer that names no engine passes the first one
        const bool partner = queue.partner && queue.partner->kind == unit.kind &&
                             unit.engine == std::max(queue.partner->engine, 0);
        if (fits) queue.units.push_back(static_cast<uint16_t>(u));
        if (partner) queue.partners.push_back(static_cast<uint16_t>(u));
        if (fits || partner) by_unit_[u].push_back(index);
    }
    if (!queue.units.empty() && (!queue.partner || !queue.partners.empty())) return;
    throw UserError("the program needs a unit of kind " + std::string(name_of(queue.unit.kind)) +
                    " that the platform does not have. Fix: run it on a platform that has one, or change the "
                    "task's @resource.");
}

void TaskBoard::issued(execution::TaskInstance& task) { queues_[index_of(task)].waiting.push_back(task); }

void TaskBoard::ready(execution::TaskInstance& task) {
    TaskQueue& own = queues_[index_of(task)];
    own.waiting.erase(own.waiting.iterator_to(task));
    own.ready.push(&task);
}

void TaskBoard::started(execution::TaskInstance& task) {
    auto& ready = queues_[index_of(task)].ready;
    if (ready.top() != &task) throw InternalError("a task started before an earlier one of its queue");
    ready.pop();
}

const execution::TaskInstance* TaskBoard::earliest() const {
    const execution::TaskInstance* best = nullptr;
    for (const TaskQueue& queue : queues_)
        best = earlier(best, earlier(queue.first_waiting(), queue.first_ready()));
    return best;
}

}  // namespace kpu::model
