#pragma once

#include <vector>

#include "base/clock.hpp"
#include "model/accounting/work_table.hpp"
#include "model/sequencer/task_board.hpp"
#include "model/task/task_observer.hpp"
#include "traces/event.hpp"

namespace kpu::model {

/// Records what becomes of tasks, and the queues and token tables that they stand in, for traces.
class TaskTrace : public TaskObserver {
  public:
    /// `units`: of the device, in order of unit id.
    TaskTrace(traces::EventSink& sink, const Clock& core, const TaskBoard& board,
              const std::vector<traces::UnitInfo>& units);
    void attach(const execution::Controller& controller) { controller_ = &controller; }

    void advanced(Cycles now) override;
    void issued(const execution::TaskInstance& task) override;
    void ready(const execution::TaskInstance& task) override;
    void started(const TaskCommand& command) override;
    void completed(const TaskCommand& command) override;
    void arbitrated() override;
    void finished(Cycles end, const std::vector<TaskCommand*>& running) override;

    /// Returns the work of the traced tasks: index = value of their work records; hops are left to the
    /// device.
    const WorkTable& work_table() const { return work_table_; }

  private:
    void record(traces::EventKind kind, uint16_t unit, uint32_t task, uint32_t op, int64_t value);
    traces::Event event_of(traces::EventKind kind, uint32_t task, uint32_t op) const;
    void flow(const execution::TaskInstance& task, uint32_t producer, bool carried);
    void counter(traces::CounterId counter, uint16_t unit, uint64_t time_ps, uint64_t value);
    void bytes(uint16_t unit, const TaskCommand& command);
    void work(const TaskCommand& command);
    void queues();

    traces::EventSink& sink_;
    const Clock core_;
    const TaskBoard& board_;
    const execution::Controller* controller_ = nullptr;
    WorkTable work_table_;
    Cycles now_ = 0;
    uint32_t completing_ = traces::no_task;  ///< the task that completed last
    /// Returns the cycles of products that follow each other on one array, the next as soon as the array
    /// takes it.
    std::vector<uint16_t> able_;
    std::vector<uint16_t> sequencers_;  ///< unit ids, by engine
    std::vector<uint64_t> moved_;       ///< bytes moved by each unit
    std::vector<uint32_t> tokens_;      ///< token count of each unit, as recorded last
    std::vector<uint64_t> queued_;      ///< queued count of each unit, as recorded last
};

}  // namespace kpu::model
