#pragma once

#include "model/accounting/segment.hpp"
#include "model/control/controller.hpp"
#include "model/sequencer/task_board.hpp"

namespace kpu::model {

/// Why a unit that executes nothing waits: rules 2 to 5 of accounting.md. Looks, never acts.
class Waiting {
  public:
    Waiting(const TaskBoard& board, const std::vector<traces::UnitInfo>& units)
        : board_(board), units_(units) {}
    void attach(const control::Controller& controller) { controller_ = &controller; }

    /// Cause, task and blame of this instant; from and to are left to the caller. `worked`: the unit has
    /// executed a task before.
    Segment of(uint16_t unit, bool worked) const;

  private:
    Segment of_task(const control::TaskInstance& task) const;
    traces::Cause refusal(const control::TaskInstance& ready, uint16_t asking) const;

    const TaskBoard& board_;
    const std::vector<traces::UnitInfo>& units_;
    const control::Controller* controller_ = nullptr;
};

}  // namespace kpu::model
