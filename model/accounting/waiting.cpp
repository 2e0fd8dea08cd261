#include "model/accounting/waiting.hpp"

#include <algorithm>

namespace kpu::model {

using traces::Cause;

Segment Waiting::of(uint16_t unit, bool worked) const {
    const traces::UnitInfo& info = units_[unit];
    const execution::TaskInstance* ready = nullptr;
    const execution::TaskInstance* oldest = nullptr;
    for (const uint32_t c : board_.queues_of_unit(unit)) {
        const TaskQueue& wanted = board_.queues()[c];
        ready = earlier(ready, wanted.first_ready());
        oldest = earlier(oldest, wanted.first_waiting());
    }
    Segment segment;
    const execution::TaskInstance* task = ready != nullptr ? ready : oldest;
    if (ready != nullptr) {
        segment.cause = refusal(*ready, unit);
    } else if (oldest != nullptr) {
        segment = of_task(*oldest);
    } else if (controller_->future_work(info.kind, info.engine, info.index) !=
               execution::FutureWork::none) {
        segment.cause = Cause::stalled_issue_window;
    } else {
        segment.cause = worked ? Cause::idle_finished : Cause::idle_no_work;
    }
    if (task != nullptr) {
        segment.task = task->serial;
        segment.op = task->task->op;
    }
    return segment;
}

/// Rule 3: the earliest-issued unsatisfied producers, down to one that is running, refused or not yet issued.
Segment Waiting::of_task(const execution::TaskInstance& task) const {
    Segment segment;
    const execution::TaskInstance* at = &task;
    for (;;) {
        const execution::TaskInstance* producer = controller_->blocking_producer(*at);
        if (producer == nullptr) {
            segment.cause = Cause::stalled_issue_window;
            return segment;
        }
        segment.blame = traces::blame_task(producer->serial);
        at = producer;
        if (producer->state == execution::TaskState::ready) {
            segment.cause = refusal(*producer, traces::no_unit);
            return segment;
        }
        if (producer->state != execution::TaskState::running) continue;
        if (!producer->task->moves()) {
            segment.cause = Cause::stalled_dependency;
        } else {
            segment.kind = Segment::Kind::on_transfer;
            segment.transfer = producer->serial;
        }
        return segment;
    }
}

/// Rule 2. A task is refused by the unit that would execute it, for that unit is taken; or by the second DMA
/// that it needs; else its sequencer has not come to it. A DMA that could be the second one waits for the
/// first.
Cause Waiting::refusal(const execution::TaskInstance& ready, uint16_t asking) const {
    const TaskQueue& wanted = board_.queue_of(*ready.task);
    const auto free = [&](uint16_t unit) { return board_.is_free(unit); };
    const auto asks = [&](uint16_t unit) { return unit == asking; };
    if (std::none_of(wanted.units.begin(), wanted.units.end(), free)) {
        const bool second = std::any_of(wanted.partners.begin(), wanted.partners.end(), asks);
        return second ? Cause::stalled_structural : Cause::stalled_backpressure;
    }
    if (wanted.partner && std::none_of(wanted.partners.begin(), wanted.partners.end(), free))
        return Cause::stalled_structural;
    return Cause::stalled_configuration;
}

}  // namespace kpu::model
