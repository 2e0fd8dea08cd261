#pragma once

#include "execution/controller.hpp"
#include "model/accounting/segment.hpp"
#include "model/sequencer/task_board.hpp"

namespace kpu::model {

/// Explains why a unit that executes nothing waits: rules 2 to 5 of accounting.md. Looks, never acts.
class Waiting {
  public:
    explicit Waiting(const TaskBoard& board) : board_(board) {}
    void attach(const execution::Controller& controller) { controller_ = &controller; }

    /// Returns cause, task and blame of this instant; from and to are left to the caller. `worked`: the unit
    /// has executed a task before.
    Segment of(uint16_t unit, bool worked) const;

  private:
    bool is_to_come(const TaskQueue& queue, uint16_t unit) const;
    Segment of_task(const execution::TaskInstance& task) const;
    const execution::TaskInstance* holder_of_units(const execution::TaskInstance& ready) const;
    traces::Cause refusal(const execution::TaskInstance& ready, uint16_t asking) const;

    const TaskBoard& board_;
    const execution::Controller* controller_ = nullptr;
};

}  // namespace kpu::model
