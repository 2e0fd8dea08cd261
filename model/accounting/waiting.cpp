#include "model/accounting/waiting.hpp"

#include <algorithm>

namespace kpu::model {

using traces::Cause;

Segment Waiting::of(uint16_t unit, bool worked) const {
    const execution::TaskInstance* ready = nullptr;
    const execution::TaskInstance* oldest = nullptr;
    bool alone = false;                   // tasks are to come that it alone may take
    bool more = board_.multiplies(unit);  // ... that others may take too, or products of kernels
    for (const uint32_t c : board_.queues_of_unit(unit)) {
        const TaskQueue& wanted = board_.queues()[c];
        const bool later = is_to_come(wanted, unit);
        ready = earlier(ready, wanted.first_ready());
        if (wanted.needs(unit)) {
            oldest = earlier(oldest, wanted.first_waiting());
            alone = alone || later;
        }
        more = more || later || wanted.first_waiting() != nullptr;
    }
    Segment segment;
    const execution::TaskInstance* task = ready != nullptr ? ready : oldest;
    if (ready != nullptr) {
        segment.cause = refusal(*ready, unit);
    } else if (oldest != nullptr) {
        segment = of_task(*oldest);
    } else if (alone) {
        segment.cause = Cause::stalled_issue_window;
    } else {
        segment.cause = worked && !more ? Cause::idle_finished : Cause::idle_no_work;
    }
    if (task != nullptr) {
        segment.task = task->serial;
        segment.op = task->task->op;
    }
    return segment;
}

/// True if tasks for the unit like those of the queue are still to be issued.
bool Waiting::is_to_come(const TaskQueue& queue, uint16_t unit) const {
    const bool second = std::find(queue.units.begin(), queue.units.end(), unit) == queue.units.end();
    return controller_->future_work(second ? *queue.partner : queue.unit) != execution::FutureWork::none;
}

/// Applies rule 3. A producer that units refuse waits for what they execute now: that is followed too.
Segment Waiting::of_task(const execution::TaskInstance& task) const {
    Segment segment;
    const execution::TaskInstance* running = controller_->root_producer(task);
    if (running == nullptr) {
        segment.cause = Cause::stalled_issue_window;
        return segment;
    }
    segment.blame = traces::blame_task(running->serial);
    if (running->state == execution::TaskState::ready) {
        const execution::TaskInstance* holder = holder_of_units(*running);
        if (holder == nullptr) {
            segment.cause = Cause::stalled_configuration;  // its sequencer has not come to it
            return segment;
        }
        running = holder;
    }
    if (!running->task->moves()) {
        segment.cause = Cause::stalled_dependency;
    } else {
        segment.kind = Segment::Kind::on_transfer;
        segment.transfer = running->serial;
    }
    return segment;
}

/// Returns the earliest-issued task on the units that a ready task needs, where all of them are taken; null
/// where there is a free one.
const execution::TaskInstance* Waiting::holder_of_units(const execution::TaskInstance& ready) const {
    const TaskQueue& wanted = board_.queue_of(ready);
    for (const std::vector<uint16_t>* units : {&wanted.units, &wanted.partners}) {
        if (units->empty()) continue;
        const execution::TaskInstance* holder = nullptr;
        bool all_taken = true;
        for (const uint16_t unit : *units) {
            all_taken = all_taken && !board_.is_free(unit);
            holder = earlier(holder, board_.holder(unit));
        }
        if (all_taken) return holder;
    }
    return nullptr;
}

/// Applies rule 2. A task is refused by the unit that would execute it, for that unit is taken; or by the
/// second DMA that it needs; else its sequencer has not come to it. A DMA that could be the second one waits
/// for the first.
Cause Waiting::refusal(const execution::TaskInstance& ready, uint16_t asking) const {
    const TaskQueue& wanted = board_.queue_of(ready);
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
