#include "model/sequencer/task_arbiter.hpp"

#include <algorithm>
#include <tuple>

#include "base/diagnostics.hpp"
#include "values/kernel/task.hpp"

namespace kpu::model {

TaskArbiter::TaskArbiter(const sc_core::sc_module_name& name, Parts parts)
    : sc_module(name), requests("requests"), parts_(std::move(parts)) {
    requests.bind(*this);
    load_.assign(parts_.sequencer_units.size(), 0);
    dispatch_free_.assign(parts_.sequencer_units.size(), parts_.launch_cycles);
    SC_METHOD(wake);  // runs once at time 0
    sensitive << arbitrate_;
}

void TaskArbiter::attach(execution::Controller& controller, std::vector<Sequencer*> sequencers) {
    controller_ = &controller;
    sequencers_ = std::move(sequencers);
}

void TaskArbiter::task_completed(TaskCommand& command) {
    completed_.push_back(&command);
    arbitrate_.notify(sc_core::SC_ZERO_TIME);
}

void TaskArbiter::issue_free(TaskCommand& command) {
    freed_.push_back(&command);
    arbitrate_.notify(sc_core::SC_ZERO_TIME);
}

void TaskArbiter::product_wanted(const ProductRequest& request) {
    products_.push_back(&request);
    arbitrate_.notify(sc_core::SC_ZERO_TIME);
}

void TaskArbiter::on_issue(execution::TaskInstance& task) {
    parts_.board->issued(task);
    tell([&](TaskObserver& observer) { observer.issued(task); });
}

void TaskArbiter::on_ready(execution::TaskInstance& task) {
    parts_.board->ready(task);
    tell([&](TaskObserver& observer) { observer.ready(task); });
}

void TaskArbiter::wake() {
    parts_.errors->guard([&] { arbitrate(); });
}

/// Units answer in the first delta of an instant, or in the second, when the interconnect delivers. Whoever
/// wakes the arbiter, and in whatever order processes run, it looks at nothing before both are over, or
/// nothing else is due in this instant.
bool TaskArbiter::requests_may_come() {
    return sc_core::sc_delta_count_at_current_time() < 2 && sc_core::sc_pending_activity_at_current_time();
}

void TaskArbiter::arbitrate() {
    const Cycles now = parts_.core.edges_before(sc_core::sc_time_stamp().value());
    tell([&](TaskObserver& observer) { observer.advanced(now); });
    if (requests_may_come()) {
        arbitrate_.notify(sc_core::SC_ZERO_TIME);
        return;
    }
    if (!started_) {
        started_ = true;
        controller_->start();
    } else if (!completed_.empty() || !freed_.empty()) {
        collect();
    } else {
        dispatch(now);
    }
    const Cycles next = completed_.empty() ? next_dispatch() : now;
    if (next <= now)
        arbitrate_.notify(sc_core::SC_ZERO_TIME);
    else if (next != never)
        arbitrate_.notify(sc_core::sc_time::from_value(parts_.core.edge(next)) - sc_core::sc_time_stamp());
    tell([](TaskObserver& observer) { observer.arbitrated(); });
    if (controller_->finished()) {
        parts_.stop->finished = true;
        sc_core::sc_pause();
    }
    if (parts_.stop->interrupt != nullptr && parts_.stop->interrupt->load(std::memory_order_relaxed)) {
        parts_.stop->interrupted = true;
        sc_core::sc_pause();
    }
}

/// Completions and freed units of one instant, in order of unit, and of start where two tasks of a unit end
/// together: the order in which processes ran is of no account.
void TaskArbiter::collect() {
    const auto before = [](const TaskCommand* a, const TaskCommand* b) {
        return std::tie(a->unit, a->report.start) < std::tie(b->unit, b->report.start);
    };
    for (const TaskCommand* command : freed_) parts_.board->release(command->unit);
    freed_.clear();
    std::sort(completed_.begin(), completed_.end(), before);
    if (parts_.stop->at_task && !completed_.empty()) {
        TaskCommand* first = completed_.front();
        completed_.erase(completed_.begin());
        if (!complete(*first)) return;
        parts_.stop->task_completed = true;
        sc_core::sc_pause();
        return;
    }
    done_.clear();
    done_.swap(completed_);
    for (TaskCommand* command : done_) complete(*command);
}

/// True if the task is complete: a launch is when its last unit is through.
bool TaskArbiter::complete(TaskCommand& command) {
    execution::TaskInstance& task = *command.task;
    command.last = command.product == nullptr && leave(command);
    const bool last = command.last;
    if (last) note_completion(command);
    tell([&](TaskObserver& observer) { observer.completed(command); });
    if (!command.freed) parts_.board->release(command.unit);
    if (command.partner != traces::no_unit) parts_.board->release(command.partner);
    const int engine = (*parts_.units)[command.unit].engine;
    if (engine >= 0) --load_[static_cast<size_t>(engine)];
    running_.erase(std::find(running_.begin(), running_.end(), &command));
    command.launch.reset();
    sequencers_[command.sequencer]->release(command);
    if (last) controller_->completed(task);
    return last;
}

void TaskArbiter::note_completion(const TaskCommand& command) {
    const execution::TaskInstance& task = *command.task;
    last_ = {task.serial, task.statement, task.loops, command.unit, command.report.start, command.report.end};
    if (completions_.size() <= task.statement) completions_.resize(task.statement + 1);
    Completions& completions = completions_[task.statement];
    ++completions.count;
    completions.last = command.report.end;
}

uint32_t TaskArbiter::sequencer_of(const TaskQueue& wanted, uint16_t unit) const {
    return static_cast<uint32_t>(wanted.sequencer >= 0 ? wanted.sequencer : (*parts_.units)[unit].engine);
}

/// Places the earliest-issued task of a class on the least loaded engine that can take it now, lowest unit
/// first.
bool TaskArbiter::place(const TaskQueue& wanted, Cycles now, Placement& best) const {
    execution::TaskInstance* const task = wanted.first_ready();
    if (task == nullptr || (best.task != nullptr && best.task->serial < task->serial)) return false;
    uint16_t partner = traces::no_unit;
    if (wanted.partner) {
        const auto found = std::find_if(wanted.partners.begin(), wanted.partners.end(),
                                        [&](uint16_t u) { return parts_.board->is_free(u); });
        if (found == wanted.partners.end()) return false;
        partner = *found;
    }
    Placement own;
    uint32_t least = UINT32_MAX;
    for (const uint16_t unit : wanted.units) {
        const uint32_t sequencer = sequencer_of(wanted, unit);
        if (!parts_.board->is_free(unit) || dispatch_free_[sequencer] > now) continue;
        const int engine = (*parts_.units)[unit].engine;
        const uint32_t load = engine >= 0 ? load_[static_cast<size_t>(engine)] : 0;
        if (load < least) {
            least = load;
            own = {task, unit, partner, sequencer};
        }
    }
    if (own.task == nullptr) return false;
    best = own;
    return true;
}

uint16_t TaskArbiter::free_array(const ProductRequest& request) const {
    for (size_t u = 0; u < parts_.units->size(); ++u) {
        const traces::UnitInfo& unit = (*parts_.units)[u];
        const auto number = static_cast<uint16_t>(u);
        if (unit.kind == UnitKind::nmu && unit.engine == request.engine && parts_.board->is_free(number))
            return number;
    }
    return traces::no_unit;
}

/// Places a product. Products compete with tasks for the arrays of their engine, by the issue of the kernel's
/// task. A kernel with tiles has one unit, and that one product at a time.
void TaskArbiter::place_product(Cycles now, Placement& best) const {
    for (const ProductRequest* request : products_) {
        if (best.task != nullptr && best.task->serial < request->task->serial) continue;
        const uint16_t unit = free_array(*request);
        if (unit == traces::no_unit || dispatch_free_[request->engine] > now) continue;
        best = {request->task, unit, traces::no_unit, request->engine, request};
    }
}

void TaskArbiter::dispatch(Cycles now) {
    for (;;) {
        Placement best;
        for (const TaskQueue& wanted : parts_.board->queues()) place(wanted, now, best);
        place_product(now, best);
        if (best.task == nullptr) break;
        start(best, now);
    }
    while (join(now)) {
    }
}

/// Returns when a sequencer comes to a ready task that its units could take already; `never` when all that is
/// ready waits for units.
Cycles TaskArbiter::next_dispatch() const {
    const auto is_free = [&](uint16_t unit) { return parts_.board->is_free(unit); };
    Cycles next = never;
    for (const TaskQueue& wanted : parts_.board->queues()) {
        if (wanted.ready.empty()) continue;
        if (wanted.partner && std::none_of(wanted.partners.begin(), wanted.partners.end(), is_free)) continue;
        for (const uint16_t unit : wanted.units)
            if (is_free(unit)) next = std::min(next, dispatch_free_[sequencer_of(wanted, unit)]);
    }
    for (const ProductRequest* request : products_)
        if (free_array(*request) != traces::no_unit) next = std::min(next, dispatch_free_[request->engine]);
    for (const Launch& launch : launches_)
        for (const uint16_t unit : launch.queue->units)
            if (may_join(launch, unit))
                next = std::min(next, dispatch_free_[sequencer_of(*launch.queue, unit)]);
    return next;
}

void TaskArbiter::start(const Placement& placement, Cycles now) {
    if (placement.product != nullptr) {
        products_.erase(std::find(products_.begin(), products_.end(), placement.product));
        return give(placement, nullptr, now);
    }
    execution::TaskInstance& task = *placement.task;
    const int engine = (*parts_.units)[placement.unit].engine;
    if (task.engine < 0 && engine >= 0) task.engine = engine;
    const TaskQueue& queue = parts_.board->queue_of(task);
    parts_.board->started(task);
    controller_->started(task);
    if (!task.task->launches()) return give(placement, nullptr, now);
    Launch launch;
    launch.task = &task;
    launch.queue = &queue;
    launch.first_unit = placement.unit;
    launch.most_units = values::kernel::workgroups_of(*parts_.program, *task.task, task.loops);
    launch.shared = std::make_shared<values::kernel::SharedLaunch>();
    launches_.push_back(std::move(launch));
    give(placement, &launches_.back(), now);
    launches_.back().units.push_back(placement.unit);
}

void TaskArbiter::give(const Placement& placement, const Launch* launch, Cycles now) {
    execution::TaskInstance& task = *placement.task;
    const int engine = (*parts_.units)[placement.unit].engine;
    Sequencer::Order order;
    order.task = &task;
    order.unit = placement.unit;
    order.partner = placement.partner;
    order.product = placement.product;
    order.first_unit = launch != nullptr              ? launch->first_unit
                       : placement.product != nullptr ? placement.product->first_unit
                                                      : placement.unit;
    if (launch != nullptr) order.launch = launch->shared;
    parts_.board->occupy(placement.unit, task);
    if (placement.partner != traces::no_unit) {
        parts_.board->occupy(placement.partner, task);
        order.partner_bytes_per_cycle =
            parts_.partner_bytes_per_cycle[static_cast<size_t>((*parts_.units)[placement.partner].engine)];
    }
    if (engine >= 0) ++load_[static_cast<size_t>(engine)];
    dispatch_free_[placement.sequencer] = now + parts_.dispatch_cycles;
    TaskCommand& command = sequencers_[placement.sequencer]->dispatch(order);
    running_.push_back(&command);
    tell([&](TaskObserver& observer) {
        observer.dispatched(parts_.sequencer_units[placement.sequencer], now, now + parts_.dispatch_cycles);
        observer.started(command);
    });
}

/// True if the launch has a workgroup for one more unit, this one, and room for the workgroup's memory.
bool TaskArbiter::may_join(const Launch& launch, uint16_t unit) const {
    if (!parts_.board->is_free(unit) || launch.units.size() >= launch.most_units) return false;
    if (launch.shared->work && !launch.shared->work->left()) return false;
    const int engine = (*parts_.units)[unit].engine;
    const auto there = std::count_if(launch.units.begin(), launch.units.end(),
                                     [&](uint16_t other) { return (*parts_.units)[other].engine == engine; });
    return static_cast<uint64_t>(there) < launch.task->task->launch->units_per_engine;
}

/// Adds another unit for the launch that started first.
bool TaskArbiter::join(Cycles now) {
    for (Launch& launch : launches_) {
        for (const uint16_t unit : launch.queue->units) {
            const uint32_t sequencer = sequencer_of(*launch.queue, unit);
            if (dispatch_free_[sequencer] > now || !may_join(launch, unit)) continue;
            give({launch.task, unit, traces::no_unit, sequencer}, &launch, now);
            launch.units.push_back(unit);
            return true;
        }
    }
    return false;
}

/// True if no unit has the task any more.
bool TaskArbiter::leave(const TaskCommand& command) {
    const auto launch = std::find_if(launches_.begin(), launches_.end(),
                                     [&](const Launch& known) { return known.task == command.task; });
    if (launch == launches_.end()) return true;
    std::vector<uint16_t>& units = launch->units;
    units.erase(std::find(units.begin(), units.end(), command.unit));
    if (!units.empty()) return false;
    launches_.erase(launch);
    return true;
}

}  // namespace kpu::model
