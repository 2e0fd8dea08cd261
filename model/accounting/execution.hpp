#pragma once

#include "model/accounting/segment.hpp"
#include "model/task/task_command.hpp"

namespace kpu::model {

/// Work and bytes that a unit did and that were not yet counted as a useful cycle, in 1/65536.
struct WorkCarry {
    uint64_t work = 0, bytes = 0;
};

/// Returns how an executing unit spent the time of a task that ended (rule 1 of accounting.md): pieces in
/// time order from report.start on. The last pieces of a task cut off by the end of the run may lie beyond
/// it, or end before it.
Pieces execution_pieces(const TaskPlan& plan, const TaskReport& report, WorkCarry& carry);

/// Returns a wait for a transfer, cut where the transfer's limiter changed.
Pieces wait_pieces(const Segment& wait, const StreamResult& transfer);

/// Returns what limits a stream at cycle `now`, as far as is known.
traces::Cause limiter_at(const StreamResult& stream, Cycles now);

/// Returns what an executing task does at cycle `now`, before its completion.
traces::Cause executing_cause(const TaskPlan& plan, const TaskReport& report, Cycles now);

}  // namespace kpu::model
