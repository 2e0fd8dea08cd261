#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "model/stream/stream.hpp"
#include "traces/event.hpp"

namespace kpu::values::kernel {
struct LaunchResult;
}

namespace kpu::model {

/// A stream of a task: what was asked, and what is known of it.
struct StreamUse {
    const StreamRequest* request = nullptr;
    const StreamResult* result = nullptr;
    bool is_result = false;
    Cycles due = 0;  ///< operand: from the begin, when its last byte is late
};

/// Change in what a unit that executes step by step does, from `from` on, until the next entry or its end.
struct StepChange {
    Cycles from;
    traces::Cause cause;
};

/// Cost of a statement of a kernel.
struct StatementCost {
    uint64_t executions = 0, lanes = 0;
    Cycles busy = 0, stalled = 0;
};

/// Report of an execution of a task, in core cycles; with the plan's terms: end - start = operand_wait + fill
/// + steady + operand_stall + drain + result_stall where the course is the formula's. Where tasks overlap in
/// a unit, the earlier one's work hides the later one's wait and fill.
struct TaskReport {
    Cycles start = 0, end = 0;
    Cycles operand_wait = 0;  ///< before the first operand enters
    Cycles own_cycles = 0;    ///< part of fill, steady and drain that no other task of the unit shares
    Cycles operand_stall = 0, result_stall = 0;
    traces::Cause operand_cause = traces::Cause::stalled_operand_interconnect;
    traces::Cause result_cause = traces::Cause::stalled_backpressure;
    std::vector<StreamUse> streams;
    std::vector<StepChange> steps;  ///< ascending, the first at the start; where the course is `steps`

    std::vector<StatementCost> statements;                       ///< statements of a kernel, so far
    std::shared_ptr<const values::kernel::LaunchResult> launch;  ///< launch of a kernel that has ended

    /// Clears it, but keeps the lists' memory.
    void clear() {
        std::vector<StreamUse> kept_streams = std::move(streams);
        std::vector<StepChange> kept_steps = std::move(steps);
        kept_streams.clear();
        kept_steps.clear();
        *this = {};
        streams = std::move(kept_streams);
        steps = std::move(kept_steps);
    }
};

}  // namespace kpu::model
