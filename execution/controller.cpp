#include "execution/controller.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/diagnostics.hpp"
#include "execution/controller_impl.hpp"
#include "execution/describe.hpp"
#include "isa/iterations.hpp"

namespace kpu::execution {
namespace {

/// Iterations in a row that issue nothing, after which a program is refused: it would otherwise spin for
/// ever.
constexpr uint64_t max_idle_steps = 1ull << 28;

}  // namespace

std::string_view name_of(TaskState state) {
    static constexpr std::string_view names[] = {"waiting", "ready", "running", "complete"};
    return names[static_cast<size_t>(state)];
}

Controller::Controller(const BoundProgram& program, const ControlOptions& options, ControlListener& listener)
    : impl_(std::make_unique<Impl>(program, options, listener)) {}
Controller::~Controller() = default;

void Controller::start() { impl_->start(); }
void Controller::started(TaskInstance& instance) { impl_->started(instance); }
void Controller::completed(TaskInstance& instance) { impl_->completed(instance); }
bool Controller::finished() const { return impl_->finished(); }
uint64_t Controller::issued_count() const { return impl_->issued(); }
uint64_t Controller::completed_count() const { return impl_->completed_count(); }
size_t Controller::live_count() const { return impl_->live_count(); }
const TaskInstance* Controller::find(uint32_t serial) const { return impl_->find(serial); }
std::vector<const TaskInstance*> Controller::live() const { return impl_->live(); }
uint32_t Controller::tokens_in_flight(unsigned engine) const { return impl_->tokens_in_flight(engine); }
const TaskInstance* Controller::root_producer(const TaskInstance& instance) const {
    return impl_->root_producer(instance);
}
FutureWork Controller::future_work(const UnitDemand& demand) const { return impl_->future_work(demand); }
std::string Controller::explain_block() const { return impl_->explain_block(); }

Controller::Impl::Impl(const BoundProgram& program, const ControlOptions& options, ControlListener& listener)
    : program_(program),
      options_(options),
      listener_(listener),
      plan_(program),
      buckets_(64, none),
      same_(program.statements.size()),
      tables_(options.num_engines),
      demand_count_(plan_.demands.size(), 0) {
    for (const BoundTask& task : program.tasks) {
        const int engine = task.engine >= 0 ? task.engine : task.token_engine;
        if (engine < 0 || static_cast<uint32_t>(engine) >= options.num_engines) {
            throw UserError(fmt::format(
                "task `{}`{} belongs to engine {}, but the device has {} engine(s). Fix: use "
                "an engine below {}.",
                task.name, place_text(program, task), engine, options.num_engines, options.num_engines));
        }
    }
}

void Controller::Impl::start() {
    if (started_) throw InternalError("the controller was started twice");
    started_ = true;
    top_ = new_thread(0);
    wake(top_);
    pump();
}

bool Controller::Impl::finished() const { return finished_; }

void Controller::Impl::pump() {
    do {
        while (!stack_.empty() || !woken_.empty()) {
            if (stack_.empty()) {
                stack_.push_back(woken_.front());
                woken_.pop_front();
                reason_ = threads_[stack_.back()].woken_from;
            }
            const uint32_t t = stack_.back();
            stack_.pop_back();
            run(t);
        }
    } while (resume_limited());
}

/// Lets one thread that max_live_tasks paused go on, when there is room again. Without any ready or running
/// task the limit yields: the next statement may be what all the others wait for.
bool Controller::Impl::resume_limited() {
    const auto resume = [this](std::deque<uint32_t>& queue) {
        wake(queue.front());
        queue.pop_front();
        return true;
    };
    if (!limited_tasks_.empty() && !at_limit()) return resume(limited_tasks_);
    if (!limited_loops_.empty() && !at_thread_limit()) return resume(limited_loops_);
    return false;
}

void Controller::Impl::wake(uint32_t t) {
    threads_[t].woken_from = reason_of(threads_[t].state);
    threads_[t].state = Block::running;
    woken_.push_back(t);
}

IssueReason Controller::Impl::reason_of(Block block) {
    switch (block) {
        case Block::token:
            return IssueReason::token;
        case Block::table:
            return IssueReason::table;
        case Block::window:
            return IssueReason::window;
        case Block::limit:
            return IssueReason::limit;
        case Block::running:
        case Block::ended:
            break;
    }
    return IssueReason::start;
}

void Controller::Impl::block(Thread& thread, Block state) { thread.state = state; }

/// Executes statements of a thread until it blocks, ends, or starts an iteration (which then runs first).
void Controller::Impl::run(uint32_t t) {
    Thread& thread = threads_[t];
    while (thread.pc != thread.end) {
        const StatementPlan& plan = plan_.statements[thread.pc];
        thread.at = thread.pc;
        if (plan.idle) {
            advance(thread);
            continue;
        }
        bool go_on = true;
        switch (program_.statements[thread.pc].kind) {
            case BoundStatement::Kind::task:
                go_on = step_task(t);
                break;
            case BoundStatement::Kind::wait:
                go_on = step_wait(t);
                break;
            case BoundStatement::Kind::loop:
                go_on = step_loop(t);
                break;
            case BoundStatement::Kind::let:
                break;
        }
        if (!go_on) return;
    }
    block(thread, Block::ended);
    if (thread.outstanding == 0) retire(t);
}

void Controller::Impl::advance(Thread& thread) {
    const StatementPlan& plan = plan_.statements[thread.pc];
    for (const uint16_t id : plan.lost) --demand_count_[id];
    thread.pc = plan.next;
}

bool Controller::Impl::step_wait(uint32_t t) {
    Thread& thread = threads_[t];
    for (const TokenRef& need : plan_.statements[thread.pc].needs) {
        Slot& slot = threads_[ancestor(t, need.up)].slots[need.slot];
        if (slot.remaining == 0) continue;
        wait_for(slot.waiters, {t, true, none, none});
        ++thread.missing;
    }
    advance(thread);
    if (thread.missing == 0) return true;
    block(thread, Block::token);
    return false;
}

/// Starts one iteration if the window has room. The thread goes on once the last iteration has started.
bool Controller::Impl::step_loop(uint32_t t) {
    Thread& thread = threads_[t];
    if (thread.run == none && !enter_loop(t)) {
        advance(thread);
        return true;
    }
    const LoopRun& loop_run = runs_[thread.run];
    if (loop_run.active.head != none) {
        if (!window_open(loop_run)) {
            block(thread, Block::window);
            return false;
        }
        // An idle loop may always start one iteration, so that each thread can make progress.
        if (at_thread_limit()) {
            block(thread, Block::limit);
            limited_loops_.push_back(t);
            return false;
        }
    }
    start_iteration(t);
    return false;
}

uint64_t Controller::Impl::trip_count(const Thread& thread, const BoundLoop& loop, int64_t& first) const {
    try {
        first = loop.first.eval(thread.loops);
        const int64_t last = loop.last.eval(thread.loops);
        if (last < first) return 0;
        const uint64_t span = static_cast<uint64_t>(last) - static_cast<uint64_t>(first);
        return span == UINT64_MAX ? span : span + 1;
    } catch (const UserError& error) {
        throw SimulationError(fmt::format("loop over `{}`{}: its bounds cannot be evaluated: {}",
                                          loop.variable, place_text(program_, thread.pc), error.what()));
    }
}

/// Enters a loop. False when the range is empty.
bool Controller::Impl::enter_loop(uint32_t t) {
    Thread& thread = threads_[t];
    const StatementPlan& plan = plan_.statements[thread.pc];
    int64_t first = 0;
    const uint64_t trip = trip_count(thread, program_.loops[program_.statements[thread.pc].index], first);
    for (const uint32_t slot : plan.counted) {
        if (trip == 0) {
            settle(t, slot, none);
        } else {
            thread.slots[slot].remaining = trip;
        }
    }
    Watch* const watch = watch_of(thread.pc, t);
    if (trip == 0) {
        if (watch != nullptr) {
            watch->state = Watch::State::over;
            revisit(*watch);
        }
        count_idle_step(thread);
        return false;
    }
    thread.run = runs_.take();
    runs_[thread.run] = {thread.pc, t, first, trip, 0, {}};
    ++thread.outstanding;
    if (watch != nullptr) {
        watch->state = Watch::State::open;
        watch->run = thread.run;
        revisit(*watch);
    }
    return true;
}

/// Iteration i starts when all iterations <= i - N are complete. Active iterations stand in order of start,
/// so the first of them is the lowest that is not complete.
bool Controller::Impl::window_open(const LoopRun& loop_run) const {
    const uint64_t window = program_.loops[program_.statements[loop_run.statement].index].max_in_flight;
    return loop_run.next - threads_[loop_run.active.head].ordinal < window;
}

void Controller::Impl::start_iteration(uint32_t t) {
    Thread& thread = threads_[t];
    const uint32_t index = thread.run;
    LoopRun& loop_run = runs_[index];
    count_idle_step(thread);
    const uint32_t child = new_thread(plan_.statements[thread.pc].body);
    Thread& iteration = threads_[child];
    iteration.parent = t;
    iteration.owner = index;
    iteration.ordinal = loop_run.next++;
    iteration.loops = thread.loops;
    iteration.loops.push(static_cast<int64_t>(static_cast<uint64_t>(loop_run.first) + iteration.ordinal));
    iteration.prev = loop_run.active.tail;
    (iteration.prev == none ? loop_run.active.head : threads_[iteration.prev].next) = child;
    loop_run.active.tail = child;
    if (Watch* const watch = watch_of(thread.pc, t)) revisit(*watch);
    if (loop_run.next == loop_run.trip) {
        thread.run = none;
        advance(thread);
    }
    stack_.push_back(t);
    stack_.push_back(child);
}

void Controller::Impl::count_idle_step(const Thread& thread) {
    if (++idle_steps_ < max_idle_steps) return;
    throw SimulationError(
        fmt::format("loop over `{}`{} ran {} iterations in a row without issuing a task. Fix: "
                    "reduce its range.",
                    program_.loops[program_.statements[thread.pc].index].variable,
                    place_text(program_, thread.pc), max_idle_steps));
}

uint32_t Controller::Impl::new_thread(uint32_t block_index) {
    const uint32_t t = threads_.take();
    Thread& thread = threads_[t];
    const BlockPlan& plan = plan_.blocks[block_index];
    thread.id = thread_ids_++;
    thread.block = block_index;
    thread.pc = plan.first;
    thread.end = plan.end;
    thread.parent = thread.owner = thread.run = thread.prev = thread.next = none;
    thread.outstanding = 0;
    thread.missing = 0;
    thread.state = Block::running;
    thread.has_entry = false;
    thread.slots.assign(plan.slots.size(), Slot{});
    thread.watches.assign(plan.watches, Watch{});
    for (const uint16_t id : plan.demands) ++demand_count_[id];
    ++live_threads_;
    return t;
}

/// A thread ended and all its tasks, nested ones included, are complete: its iteration is.
void Controller::Impl::retire(uint32_t t) {
    while (threads_[t].owner != none) {
        Thread& thread = threads_[t];
        LoopRun& loop_run = runs_[thread.owner];
        if (plan_.blocks[thread.block].carries) remember(thread);
        (thread.prev == none ? loop_run.active.head : threads_[thread.prev].next) = thread.next;
        (thread.next == none ? loop_run.active.tail : threads_[thread.next].prev) = thread.prev;
        const uint32_t parent_index = thread.parent;
        Thread& parent = threads_[parent_index];
        const bool run_complete = loop_run.next == loop_run.trip && loop_run.active.head == none;
        const bool unblocks =
            parent.run == thread.owner && (parent.state == Block::window || leaves_limit(loop_run));
        if (run_complete) {
            if (Watch* const watch = watch_of(loop_run.statement, parent_index))
                watch->state = Watch::State::over;
            runs_.give_back(thread.owner);
        }
        threads_.give_back(t);
        --live_threads_;
        if (unblocks) wake(parent_index);
        if (!run_complete || --parent.outstanding > 0 || parent.state != Block::ended) return;
        t = parent_index;
    }
    finished_ = true;
}

/// True if it does not count: an idle loop does not wait for the limit on iterations.
bool Controller::Impl::leaves_limit(const LoopRun& loop_run) {
    if (threads_[loop_run.thread].state != Block::limit || loop_run.active.head != none) return false;
    const auto it = std::find(limited_loops_.begin(), limited_loops_.end(), loop_run.thread);
    if (it == limited_loops_.end()) throw InternalError("a paused loop is not in the queue");
    limited_loops_.erase(it);
    return true;
}

FutureWork Controller::Impl::future_work(const UnitDemand& demand) const {
    const auto found = std::find(plan_.demands.begin(), plan_.demands.end(), demand);
    if (found == plan_.demands.end()) return FutureWork::none;
    return demand_count_[static_cast<size_t>(found - plan_.demands.begin())] > 0 ? FutureWork::not_issued
                                                                                 : FutureWork::none;
}

}  // namespace kpu::execution
