#include "model/vector/kernel_unit.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/diagnostics.hpp"
#include "model/vector/kernel_run.hpp"
#include "values/kernel/probe.hpp"

namespace kpu::model {

using traces::Cause;
using values::kernel::LaunchOperands;

namespace {

size_t take_room(std::vector<bool>& rooms) {
    const auto free = std::find(rooms.begin(), rooms.end(), false);
    const auto room = static_cast<size_t>(free - rooms.begin());
    if (free == rooms.end()) rooms.push_back(false);
    rooms[room] = true;
    return room;
}

}  // namespace

KernelUnit::KernelUnit(const sc_core::sc_module_name& name, const UnitPlace& place)
    : FormulaUnit(name, place), product("product") {
    product.bind(*this);
    request_payload_.set_command(tlm::TLM_IGNORE_COMMAND);
    request_payload_.set_extension(&request_);
    request_.payload = &request_payload_;
}
KernelUnit::~KernelUnit() { request_payload_.clear_extension(&request_); }

void KernelUnit::start(TaskCommand& task_command) {
    if (!task_command.task->task->launches()) return FormulaUnit::start(task_command);
    if (run_ != nullptr)
        for (const auto& old : run_->streams)
            if (old->transaction != nullptr) recycle(std::move(old->transaction));
    run_ = std::make_unique<Run>();
    run_->command = &task_command;
    run_->shared = task_command.launch;
    ++run_->shared->workers;
    run_->plan.course = TaskPlan::Course::steps;
    run_->plan.peak_q16 = uint64_t{place().engine_platform->vector().lanes()} << 16;
    task_command.plan = &run_->plan;
    task_command.report.steps.push_back({now_cycle(), Cause::stalled_operand_interconnect});
    if (idle()) wake_at(now_cycle());
}

/// Called when tasks with a formula that came before are through.
void KernelUnit::drained() {
    if (run_ != nullptr && !run_->began) wake_at(now_cycle());
}

void KernelUnit::wake() {
    if (run_ == nullptr || run_->ended || !idle()) return FormulaUnit::wake();
    try {
        if (!run_->began) begin();
        go_on();
    } catch (const UserError& error) {
        throw UserError(in_task(error));
    } catch (const SimulationError& error) {
        throw SimulationError(in_task(error));
    }
}

std::string KernelUnit::in_task(const std::exception& error) const {
    return fmt::format("{}: {}", place().program->where(*run_->command->task->task), error.what());
}

void KernelUnit::begin() {
    Run& run = *run_;
    const execution::TaskInstance& instance = *run.command->task;
    const BoundTask& task = *instance.task;
    const kernel::Code& code = *task.launch->code;
    run.began = true;
    values::kernel::SharedLaunch& shared = *run.shared;
    if (!shared.work) {
        shared.operands.emplace(*run.command->memory, task, instance.inputs, instance.outputs, instance.loops,
                                LaunchOperands::Access::in_place);
        shared.work.emplace(code, shared.operands->grid(), shared.operands->scalars(),
                            shared.operands->storage(), place().hazards);
        if (!shared.operands->has_values()) shared.work->without_values(instance.serial);
    }
    run.room = take_room(shared.rooms[place().engine]);
    run.launch = std::make_unique<values::kernel::LaunchWorker>(*shared.work);
    run.cost = std::make_unique<KernelCost>(code, *place().engine_platform, places_of(*run.command));
    run.launch->observe(*run.cost);
    run.pending.assign(code.tags.size() * code.invocations(), false);
    run.at = run.window_begin = now_cycle();
    run.command->report.statements.assign(code.statements.size(), {});
}

/// Executes statements whose time has come, and later ones as long as nothing else of the device happens before.
void KernelUnit::go_on() {
    const values::FloatEnvironment environment;
    Run& run = *run_;
    const Cycles now = now_cycle();
    Cycles until = horizon();
    while (!run.launch->done()) {
        if (multiplies(now) || waits_for_time(now, until) || is_held(now)) return;
        if (!run.working) work_from(run.at);
        execute();
        if (!run.cost->started_copies().empty()) {
            queue_copies();
            until = now;
        }
    }
    if (multiplies(now)) return;
    if (run.at > now) return wake_at(run.at);
    if (!run.draining) return drain(now);
    if (now < run.drained_at) return;
    if (run.words_open == 0) return complete(now);
    if (!run.stalled) stall(now, Cause::stalled_backpressure);
}

/// Returns the time until which the unit may go ahead alone. Whoever looks at the kernel sees the rest of the
/// device at the same time.
Cycles KernelUnit::horizon() const {
    const Cycles now = now_cycle();
    if (sc_core::sc_pending_activity_at_current_time() || values::kernel::LaunchProbe::current() != nullptr)
        return now;
    if (!sc_core::sc_pending_activity_at_future_time()) return *place().step_end + 1;
    const Picoseconds next = (sc_core::sc_time_stamp() + sc_core::sc_time_to_pending_activity()).value();
    return std::min(place().core.edges_before(next), *place().step_end + 1);
}

/// Copies and streams are posted, and waited for, in their own cycle.
bool KernelUnit::waits_for_time(Cycles now, Cycles& until) {
    Run& run = *run_;
    if (run.at <= now) return false;
    const kernel::Kind kind = run.next().kind;
    const bool meets_others = kind == kernel::Kind::async_load || kind == kernel::Kind::async_store ||
                              kind == kernel::Kind::async_wait || kind == kernel::Kind::async_copy ||
                              kind == kernel::Kind::wait || run.cost->multiplies(run.launch->statement()) ||
                              run.at - run.window_begin >= run.window_cycles;
    if (!meets_others && run.at < until) return false;
    wake_at(run.at);
    return true;
}

/// True if it waits for a copy, or for what an earlier window asked of L1.
bool KernelUnit::is_held(Cycles now) {
    Run& run = *run_;
    const kernel::Kind kind = run.next().kind;
    bool held = (kind == kernel::Kind::async_wait || kind == kernel::Kind::wait) && !copies_arrived();
    if (now >= run.window_begin + run.window_cycles) {
        if (run.words_open > 0)
            held = true;
        else
            post_traffic(false);
    }
    if (held && !run.stalled) stall(now, Cause::stalled_operand_interconnect);
    if (!held && run.stalled) {
        run.command->report.steps.back().cause = run.limiter;
        run.command->report.statements[run.launch->statement()].stalled +=
            now - run.command->report.steps.back().from;
        run.stalled = false;
        run.at = std::max(run.at, now);
    }
    return held;
}

bool KernelUnit::copies_arrived() const {
    if (run_->launch->has_tiles()) {
        const std::vector<uint64_t> awaited = run_->launch->tiles().awaited();
        return std::none_of(awaited.begin(), awaited.end(),
                            [&](uint64_t number) { return run_->tiles_pending.count(number) > 0; });
    }
    const uint32_t tag = run_->next().tag;
    const std::vector<uint32_t>& lanes = run_->launch->batch().lanes();
    return std::none_of(lanes.begin(), lanes.end(),
                        [&](uint32_t lane) { return run_->pending[run_->pending_index(tag, lane)]; });
}

void KernelUnit::execute() {
    Run& run = *run_;
    StatementCost& cost = run.command->report.statements[run.launch->statement()];
    run.multiplied = run.launch->statement();
    ++cost.executions;
    cost.lanes += run.launch->active();
    run.launch->step();
    cost.busy += run.cost->cycles();
    run.at += run.cost->cycles();
}

/// True if products of the last statement are still to be done. The lanes do their part of a statement first,
/// and wait for the array then.
bool KernelUnit::multiplies(Cycles now) {
    Run& run = *run_;
    std::vector<Product>& products = run.cost->products();
    if (products.empty()) return false;
    if (run.multiplying == Run::Multiplying::no) {
        if (run.at > now) {
            wake_at(run.at);
            return true;
        }
        ask_for(products.front(), now);
        return true;
    }
    if (run.multiplying != Run::Multiplying::done) return true;
    run.command->report.statements[run.multiplied].stalled += now - run.asked_at;
    run.multiplying = Run::Multiplying::no;
    run.at = now;
    products.erase(products.begin());
    return multiplies(now);
}

void KernelUnit::ask_for(Product& wanted, Cycles now) {
    Run& run = *run_;
    stop_work();
    const uint64_t used = workgroup_begin(*run.command) + run.code().workgroup_bytes();
    wanted.address = (used + kernel::tile_alignment - 1) / kernel::tile_alignment * kernel::tile_alignment;
    wanted.op = run.command->task->task->op;
    request_.product = wanted;
    request_.task = run.command->task;
    request_.first_unit = run.command->first_unit;
    request_.engine = place().engine;
    run.multiplying = Run::Multiplying::asked;
    run.asked_at = now;
    run.command->report.steps.push_back({now, Cause::stalled_structural});
    tlm::tlm_phase phase = tlm::BEGIN_REQ;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    product->nb_transport_fw(request_payload_, phase, delay);
}

tlm::tlm_sync_enum KernelUnit::nb_transport_bw(tlm::tlm_generic_payload&, tlm::tlm_phase& phase,
                                               sc_core::sc_time&) {
    Run& run = *run_;
    if (phase == tlm::END_REQ) {
        run.multiplying = Run::Multiplying::begun;
        run.command->report.steps.push_back({now_cycle(), Cause::stalled_dependency});
        return tlm::TLM_ACCEPTED;
    }
    if (phase != tlm::BEGIN_RESP) throw InternalError("unexpected phase on a product socket");
    run.multiplying = Run::Multiplying::done;
    wake_at(now_cycle());
    return tlm::TLM_COMPLETED;
}

void KernelUnit::work_from(Cycles now) {
    run_->working = true;
    run_->work_begin = now;
    run_->command->report.steps.push_back({now, Cause::busy_useful});
}

/// Ends the work: of the cycles since it began, those that all lanes had something to do in were useful.
void KernelUnit::stop_work() {
    Run& run = *run_;
    if (!run.working) return;
    run.working = false;
    const uint64_t lanes = std::max<uint64_t>(place().engine_platform->vector().lanes(), 1);
    const Cycles useful = std::min(run.cost->useful() / lanes - run.useful_booked, run.at - run.work_begin);
    run.useful_booked += useful;
    std::vector<StepChange>& steps = run.command->report.steps;
    if (useful == 0) {
        steps.back().cause = Cause::busy_padding;
    } else if (run.work_begin + useful < run.at) {
        steps.push_back({run.work_begin + useful, Cause::busy_padding});
    }
    book();
}

void KernelUnit::stall(Cycles now, Cause cause) {
    stop_work();
    run_->command->report.steps.push_back({now, cause});
    run_->limiter = cause;
    run_->stalled = true;
}

void KernelUnit::drain(Cycles now) {
    Run& run = *run_;
    stop_work();
    post_traffic(true);
    run.draining = true;
    run.command->report.steps.push_back({now, Cause::busy_fill_drain});
    run.drained_at = now + std::max<Cycles>(place().engine_platform->vector().pipeline_latency_cycles(), 1);
    wake_at(run.drained_at);
}

void KernelUnit::complete(Cycles now) {
    Run& run = *run_;
    TaskReport& report = run.command->report;
    if (run.stalled) report.steps.back().cause = run.limiter;
    values::kernel::SharedLaunch& shared = *run.shared;
    shared.rooms[place().engine][run.room] = false;
    if (--shared.workers == 0 && !shared.work->left()) {
        std::vector<values::PendingWrite> results = shared.operands->take_results();
        values::Executor::commit(*run.command->memory, results);
    }
    report.launch = std::make_shared<values::kernel::LaunchResult>(shared.work->result());
    report.end = now;
    report.own_cycles = now - report.start;
    run.ended = true;
    answer_complete(*run.command);
}

/// Books work and energy so far.
void KernelUnit::book() {
    constexpr std::pair<kernel::CostClass, const char*> actions[] = {
        {kernel::CostClass::integer, "op.i32"},
        {kernel::CostClass::floating, "op.f32"},
        {kernel::CostClass::special, "op.transcendental"},
        {kernel::CostClass::permute, "op.i32"},
        {kernel::CostClass::reduce, "op.f32"},
        {kernel::CostClass::atomic, "op.i32"}};
    Run& run = *run_;
    run.plan.work = run.cost->useful();
    run.plan.energy.clear();
    for (const auto& [cost_class, action] : actions)
        run.plan.energy.push_back({traces::Component::vector, action, run.cost->operations(cost_class)});
}

void KernelUnit::stream_completed(StreamTransaction& transaction) {
    if (run_ == nullptr || !run_->began || run_->ended) return FormulaUnit::stream_completed(transaction);
    Run& run = *run_;
    const auto& ended = *static_cast<LaunchStream*>(transaction.context);
    note_completed(*run.command, transaction);
    run.limiter =
        dominant_limiter(transaction.extension.result,
                         run.draining ? Cause::stalled_backpressure : Cause::stalled_operand_interconnect);
    if (ended.is_copy) {
        if (ended.copy.of_tiles)
            run.tiles_pending.erase(ended.copy.number);
        else
            run.pending[run.pending_index(ended.copy.tag, ended.copy.lane)] = false;
        --run.copies_open;
        post_copies();
    } else {
        --run.words_open;
    }
    if (run.stalled) wake_at(now_cycle());
}

}  // namespace kpu::model
