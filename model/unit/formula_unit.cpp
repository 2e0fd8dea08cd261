#include "model/unit/formula_unit.hpp"

#include <algorithm>

#include "base/diagnostics.hpp"

namespace kpu::model {

namespace {

/// The stream that ended last, which is the one that a task waited for.
struct Latest {
    const StreamResult* stream = nullptr;
    void see(const StreamTransaction& transaction) {
        const StreamResult& result = transaction.extension.result;
        if (stream == nullptr || result.end >= stream->end) stream = &result;
    }
    /// Returns the limiter; `plain`: when nothing slowed it and it crossed no link.
    traces::Cause limiter(traces::Cause plain) const {
        const bool links = stream != nullptr && stream->links > 0;
        const traces::Cause fallback = links ? traces::Cause::stalled_operand_interconnect : plain;
        return stream == nullptr ? fallback : dominant_limiter(*stream, fallback);
    }
};

}  // namespace

const TaskPlan& FormulaUnit::plan_of(TaskCommand& task_command) {
    if (task_command.product != nullptr) {
        const Product& product = task_command.product->product;
        const auto known = product_plans_.find(product);
        if (known != product_plans_.end()) return known->second;
        return product_plans_.emplace(product, plan_product(product)).first->second;
    }
    const BoundTask& task = *task_command.task->task;
    const BoundProgram& program = *place().program;
    const uint32_t partner = task_command.partner_bytes_per_cycle;
    if (program.statements[task_command.task->statement].parent < 0) {
        task_command.own_plan = std::make_shared<const TaskPlan>(plan(task, partner));
        return *task_command.own_plan;
    }
    if (plans_.empty()) plans_.resize(program.tasks.size());
    std::vector<std::unique_ptr<Planned>>& known = plans_[static_cast<size_t>(&task - program.tasks.data())];
    for (const auto& planned : known)
        if (planned->partner_bytes_per_cycle == partner) return planned->plan;
    known.push_back(std::make_unique<Planned>(Planned{partner, plan(task, partner)}));
    return known.back()->plan;
}

TaskPlan FormulaUnit::plan_product(const Product&) {
    throw InternalError("a product was given to a unit that is not an array");
}

void FormulaUnit::start(TaskCommand& task_command) {
    jobs_.push_back(take_job());
    Job& job = *jobs_.back();
    job.command = &task_command;
    job.plan = task_command.plan = &plan_of(task_command);
    for (const PlannedStream& operand : job.plan->operands)
        job.operands.push_back({post(operand, task_command, &job)});
    job.operands_open = job.operands.size();
    begin_in_order();
    // answers never come from within the command; a mover has none before its stream
    if (!job.plan->moves()) wake_from(report(job).start);
}

void FormulaUnit::stream_completed(StreamTransaction& transaction) {
    Job& job = *static_cast<Job*>(transaction.context);
    const Cycles end = std::max(transaction.extension.result.end, report(job).start);
    const auto operand = std::find_if(job.operands.begin(), job.operands.end(),
                                      [&](const auto& o) { return o.stream.get() == &transaction; });
    if (operand == job.operands.end()) {
        --job.results_open;
    } else {
        const PlannedStream& planned =
            job.plan->operands[static_cast<size_t>(operand - job.operands.begin())];
        operand->end = std::max(end, report(job).start + planned.earliest);
        --job.operands_open;
        begin_in_order();
    }
    note_completed(*job.command, transaction);
    update();
}

/// A task's first operand enters after its lead, when the one before has let the entrance go. Certain once
/// the operands of all tasks before are in.
void FormulaUnit::begin_in_order() {
    Cycles free = entrance_free_;
    for (const auto& job : jobs_) {
        TaskReport& r = report(*job);
        job->begin = std::max(r.start + job->plan->lead, free > 0 ? free + job->plan->entry_gap : 0);
        r.operand_wait = job->begin - r.start;
        free = job->begin + job->plan->occupancy + stall(*job);
    }
}

Cycles FormulaUnit::stall(const Job& job) {
    Cycles late = 0;
    for (size_t i = 0; i < job.operands.size(); ++i) {
        const Cycles due = job.begin + job.plan->operands[i].due;
        if (job.operands[i].end > due) late = std::max(late, job.operands[i].end - due);
    }
    return job.operands_open == 0 ? late + job.plan->uneven : late;
}

bool FormulaUnit::streams_ended(const Job& job) {
    const bool results_out = job.plan->results.empty() || (job.results_posted && job.results_open == 0);
    return job.operands_open == 0 && results_out;
}

void FormulaUnit::advance(Job& job, Cycles now) {
    const TaskPlan& plan = *job.plan;
    const bool operands_in = job.operands_open == 0;
    const bool may_leave =
        now >= job.begin + plan.first_result && (operands_in || !plan.result_after_operands);
    if (!plan.results.empty() && !job.results_posted && may_leave) {
        const Cycles end = std::max(formula_end(job), now);
        job.results_posted = true;
        job.results_open = plan.results.size();
        for (const PlannedStream& result : plan.results) {
            job.results.push_back(post(result, *job.command, &job, end - now));
            report(job).streams.back().is_result = true;
        }
    }
    if (plan.overlap && !job.command->freed && (operands_in || plan.prefetch) && now >= free_at(job))
        answer_free(*job.command);
}

void FormulaUnit::update() {
    const Cycles now = now_cycle();
    const bool was_idle = jobs_.empty();
    for (const auto& job : jobs_) {
        advance(*job, now);
        if (job->operands_open > 0) break;  // when the next one begins is not certain
    }
    while (!jobs_.empty() && streams_ended(*jobs_.front()) && now >= formula_end(*jobs_.front())) {
        std::unique_ptr<Job> job = std::move(jobs_.front());
        jobs_.erase(jobs_.begin());
        finish(*job, now);
        spare_jobs_.push_back(std::move(job));
    }
    wake_from(now + 1);
    if (!was_idle && jobs_.empty()) drained();
}

/// Wakes when a formula lets something happen, at the first such cycle from `earliest` on. All else waits for
/// streams.
void FormulaUnit::wake_from(Cycles earliest) {
    Cycles next = never;
    const auto due = [&](Cycles cycle) {
        if (cycle >= earliest) next = std::min(next, cycle);
    };
    for (const auto& job : jobs_) {
        if (!job->plan->results.empty() && !job->results_posted) due(job->begin + job->plan->first_result);
        if (job->plan->overlap && !job->command->freed) due(free_at(*job));
        if (streams_ended(*job)) due(formula_end(*job));
    }
    wake_at(next);
}

void FormulaUnit::finish(Job& job, Cycles now) {
    TaskReport& r = report(job);
    r.end = now;
    if (!job.plan->moves()) {
        r.operand_stall = stall(job);
        r.result_stall = now - formula_end(job);
        Latest latest_operand, latest_result;
        for (const Job::Operand& operand : job.operands) latest_operand.see(*operand.stream);
        for (const auto& result : job.results) latest_result.see(*result);
        r.operand_cause = latest_operand.limiter(traces::Cause::stalled_operand_sram_access);
        r.result_cause = latest_result.limiter(traces::Cause::stalled_backpressure);
    }
    hand_over(job);
    answer_complete(*job.command);
}

/// Finds what of the task's formula the unit spent on it alone: the next task's fill is hidden by this one's
/// work, this one's drain by the next.
void FormulaUnit::hand_over(const Job& job) {
    TaskReport& r = report(job);
    const Cycles end = work_end(job), worked = end - r.operand_stall;
    const Cycles from = std::max(job.begin, work_ended_);
    Cycles drained = job.plan->drain;
    if (!jobs_.empty()) {
        const Cycles next = report(*jobs_.front()).start;
        drained = next > end ? std::min(job.plan->drain, next - end) : 0;
    }
    r.own_cycles = (worked > from ? worked - from : 0) + drained;
    work_ended_ = end;
    entrance_free_ = std::max(entrance_free_, job.begin + job.plan->occupancy + stall(job));
}

std::unique_ptr<FormulaUnit::Job> FormulaUnit::take_job() {
    if (spare_jobs_.empty()) return std::make_unique<Job>();
    std::unique_ptr<Job> job = std::move(spare_jobs_.back());
    spare_jobs_.pop_back();
    // not before: the report of a completed task refers to its streams until the arbiter has taken it
    for (Job::Operand& operand : job->operands) recycle(std::move(operand.stream));
    for (auto& result : job->results) recycle(std::move(result));
    job->operands.clear();
    job->results.clear();
    job->begin = 0;
    job->operands_open = job->results_open = 0;
    job->results_posted = false;
    return job;
}

}  // namespace kpu::model
