#pragma once

#include <vector>

#include "model/task/task_command.hpp"

namespace kpu::model {

/// Listens to what becomes of tasks. The arbiter tells every observer, in the order in which they were given to
/// it; none may act on the model.
class TaskObserver {
  public:
    virtual ~TaskObserver() = default;
    /// Called when time reaches core cycle `now`; nothing that happens at `now` has happened yet. May come
    /// again for the same cycle.
    virtual void advanced(Cycles) {}
    virtual void issued(const execution::TaskInstance&) {}
    virtual void ready(const execution::TaskInstance&) {}
    /// Called when a sequencer is busy with a dispatch over [from, to).
    virtual void dispatched(uint16_t /*sequencer_unit*/, Cycles /*from*/, Cycles /*to*/) {}
    /// Called when the unit has planned it.
    virtual void started(const TaskCommand&) {}
    /// Called when it is complete. The instance is still valid; tokens have not moved yet.
    virtual void completed(const TaskCommand&) {}
    /// Called when the arbiter has done what could be done so far in this instant.
    virtual void arbitrated() {}
    /// Called when the run ends at `end`; `running`: tasks that will not complete, each with end as the end
    /// of its report.
    virtual void finished(Cycles /*end*/, const std::vector<TaskCommand*>& /*running*/) {}
};

using TaskObservers = std::vector<TaskObserver*>;

}  // namespace kpu::model
