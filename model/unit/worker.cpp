#include "model/unit/worker.hpp"

#include <algorithm>
#include <array>

#include "base/diagnostics.hpp"

namespace kpu::model {

namespace {

bool is_stall(traces::Cause cause) { return traces::group_of(cause) == "stalled"; }

}  // namespace

traces::Cause dominant_limiter(const StreamResult& result, traces::Cause fallback) {
    std::array<Cycles, traces::cause_count> time{};
    for (size_t i = 0; i < result.limiters.size(); ++i) {
        const Cycles to = i + 1 < result.limiters.size() ? result.limiters[i + 1].from : result.end;
        const auto cause = static_cast<size_t>(result.limiters[i].cause);
        if (to > result.limiters[i].from) time[cause] += to - result.limiters[i].from;
    }
    traces::Cause best = fallback;
    Cycles most = 0;
    for (size_t i = 0; i < time.size(); ++i) {
        if (time[i] > most && is_stall(static_cast<traces::Cause>(i))) {
            most = time[i];
            best = static_cast<traces::Cause>(i);
        }
    }
    return best;
}

namespace {

/// The stream that ended last, which is the one that a task waited for.
struct Latest {
    const StreamResult* stream = nullptr;
    void see(const StreamTransaction& transaction) {
        const StreamResult& result = transaction.extension.result;
        if (stream == nullptr || result.end >= stream->end) stream = &result;
    }
    traces::Cause limiter(traces::Cause fallback) const {
        return stream == nullptr ? fallback : dominant_limiter(*stream, fallback);
    }
};

}  // namespace

Worker::Worker(const sc_core::sc_module_name& name, const UnitPlace& place)
    : sc_module(name), command("command", place.command_ports), stream("stream", *this), place_(place) {
    for (CommandTargetSocket& socket : command) socket.bind(*this);
    SC_METHOD(wake);
    sensitive << wake_;
    dont_initialize();
}

tlm::tlm_sync_enum Worker::nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                           sc_core::sc_time&) {
    TaskCommand* received = payload.get_extension<TaskCommand>();
    if (phase != tlm::BEGIN_REQ || received == nullptr)
        throw InternalError("a unit got something that is no command");
    jobs_.push_back(take_job());
    Job& job = *jobs_.back();
    job.payload = &payload;
    job.command = received;
    report(job).clear();
    report(job).start = now_cycle();
    plan(job);
    report(job).lead = job.lead;
    report(job).occupancy = job.occupancy;
    report(job).first_result = job.first_result;
    report(job).uneven = job.uneven;
    report(job).overlap = job.overlap;
    for (const Job::Operand& operand : job.operands) {
        post(*operand.stream, job);
        report(job).streams.back().due = operand.due;
    }
    job.operands_open = job.operands.size();
    begin_in_order();
    // answers never come from within the command; a mover has none before its stream
    if (!report(job).mover) wake_from(report(job).start);
    return tlm::TLM_ACCEPTED;
}

void Worker::b_transport(tlm::tlm_generic_payload&, sc_core::sc_time&) {
    throw InternalError("commands are non-blocking");
}

void Worker::post(StreamTransaction& transaction, Job& job) {
    transaction.context = &job;
    stream.post(transaction);
    const StreamExtension& extension = transaction.extension;
    report(job).streams.push_back({&extension.request,
                                   extension.progress != nullptr ? extension.progress : &extension.result,
                                   false, 0});
}

void Worker::stream_completed(StreamTransaction& transaction) {
    Job& job = *static_cast<Job*>(transaction.context);
    const Cycles end = std::max(transaction.extension.result.end, report(job).start);
    const bool is_result = std::any_of(job.results.begin(), job.results.end(),
                                       [&](const auto& result) { return result.get() == &transaction; });
    if (is_result) {
        --job.results_open;
    } else {
        const auto operand = std::find_if(job.operands.begin(), job.operands.end(),
                                          [&](const auto& o) { return o.stream.get() == &transaction; });
        operand->end = std::max(end, report(job).start + operand->earliest);
        --job.operands_open;
        begin_in_order();
    }
    for (StreamUse& use : report(job).streams) {
        if (use.request == &transaction.extension.request) use.result = &transaction.extension.result;
    }
    update();
}

/// A task's first operand enters after its lead, when the one before has let the entrance go. Certain once
/// the operands of all tasks before are in.
void Worker::begin_in_order() {
    Cycles free = entrance_free_;
    for (const auto& job : jobs_) {
        TaskReport& r = report(*job);
        job->begin = std::max(r.start + job->lead, free > 0 ? free + job->entry_gap : 0);
        r.operand_wait = job->begin - r.start;
        free = job->begin + job->occupancy + stall(*job);
    }
}

Cycles Worker::stall(const Job& job) const {
    Cycles late = 0;
    for (const Job::Operand& operand : job.operands) {
        const Cycles due = job.begin + operand.due;
        if (operand.end > due) late = std::max(late, operand.end - due);
    }
    return job.operands_open == 0 ? late + job.uneven : late;
}

bool Worker::streams_ended(const Job& job) {
    const bool results_out = job.results.empty() || (job.results_posted && job.results_open == 0);
    return job.operands_open == 0 && results_out;
}

void Worker::advance(Job& job, Cycles now) {
    const bool operands_in = job.operands_open == 0;
    const bool may_leave = now >= job.begin + job.first_result && (operands_in || !job.result_after_operands);
    if (!job.results.empty() && !job.results_posted && may_leave) {
        const Cycles end = std::max(formula_end(job), now);
        job.results_posted = true;
        job.results_open = job.results.size();
        for (const auto& result : job.results) {
            if (!report(job).mover) result->extension.request.pace_cycles = end - now;
            post(*result, job);
            report(job).streams.back().is_result = true;
        }
    }
    if (job.overlap && !job.command->freed && (operands_in || job.prefetch) && now >= free_at(job)) {
        job.command->freed = true;
        answer(job, tlm::END_REQ);
    }
}

void Worker::wake() {
    due_ = never;
    place_.errors->guard([&] { update(); });
}

void Worker::update() {
    const Cycles now = now_cycle();
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
}

/// Wakes when a formula lets something happen, at the first such cycle from `earliest` on. All else waits for
/// streams.
void Worker::wake_from(Cycles earliest) {
    Cycles next = never;
    const auto due = [&](Cycles cycle) {
        if (cycle >= earliest) next = std::min(next, cycle);
    };
    for (const auto& job : jobs_) {
        if (!job->results.empty() && !job->results_posted) due(job->begin + job->first_result);
        if (job->overlap && !job->command->freed) due(free_at(*job));
        if (streams_ended(*job)) due(formula_end(*job));
    }
    if (next == due_) return;
    due_ = next;
    wake_.cancel();
    if (next == never) return;
    wake_.notify(sc_core::sc_time::from_value(place_.core.edge(next) - sc_core::sc_time_stamp().value()));
}

void Worker::finish(Job& job, Cycles now) {
    TaskReport& r = report(job);
    r.end = now;
    if (!r.mover) {
        r.operand_stall = stall(job);
        r.result_stall = now - formula_end(job);
        Latest latest_operand, latest_result;
        for (const Job::Operand& operand : job.operands) latest_operand.see(*operand.stream);
        for (const auto& result : job.results) latest_result.see(*result);
        r.operand_cause = latest_operand.limiter(traces::Cause::stalled_operand_interconnect);
        r.result_cause = latest_result.limiter(traces::Cause::stalled_backpressure);
    }
    hand_over(job);
    answer(job, tlm::BEGIN_RESP);
    for (Job::Operand& operand : job.operands) spare_.push_back(std::move(operand.stream));
    for (auto& result : job.results) spare_.push_back(std::move(result));
}

/// What of the task's formula the unit spent on it alone: the next task's fill runs below this one's work,
/// this one's drain below the next.
void Worker::hand_over(const Job& job) {
    TaskReport& r = report(job);
    const Cycles end = work_end(job), worked = end - r.operand_stall;
    const Cycles from = std::max(job.begin, work_ended_);
    Cycles drained = r.drain;
    if (!jobs_.empty()) {
        const Cycles next = report(*jobs_.front()).start;
        drained = next > end ? std::min(r.drain, next - end) : 0;
    }
    r.own_cycles = (worked > from ? worked - from : 0) + drained;
    work_ended_ = end;
    entrance_free_ = std::max(entrance_free_, job.begin + job.occupancy + stall(job));
}

void Worker::answer(Job& job, tlm::tlm_phase phase) {
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    command[job.command->port]->nb_transport_bw(*job.payload, phase, delay);
}

std::unique_ptr<Job> Worker::take_job() {
    if (spare_jobs_.empty()) return std::make_unique<Job>();
    std::unique_ptr<Job> job = std::move(spare_jobs_.back());
    spare_jobs_.pop_back();
    job->clear();
    return job;
}

std::unique_ptr<StreamTransaction> Worker::take_transaction() {
    if (spare_.empty()) return std::make_unique<StreamTransaction>();
    std::unique_ptr<StreamTransaction> transaction = std::move(spare_.back());
    spare_.pop_back();
    transaction->extension.request = {};
    transaction->extension.result.clear();
    transaction->extension.progress = nullptr;
    return transaction;
}

namespace {

/// A unit's operand and result buffers are filled and emptied in blocks of 16 cycles of the narrower port,
/// and hold two blocks, or as many as hide the latency of an SRAM at the unit's own rate.
void use_blocks(StreamRequest& request, const proto::Sram& l1) {
    constexpr uint32_t block_cycles = 16, blocks_ahead = 2;
    const uint32_t unit = request.port_bytes_per_cycle, sram = l1.bytes_per_cycle();
    request.burst_bytes = block_cycles * std::min(unit, sram);
    request.max_outstanding = blocks_ahead * ((unit + sram - 1) / sram);
}

}  // namespace

std::unique_ptr<StreamTransaction> Worker::memory_stream(const Job& job, const values::RegionView& view,
                                                         bool read, uint32_t port_bytes_per_cycle) {
    auto transaction = take_transaction();
    StreamRequest& request = transaction->extension.request;
    request.unit = place_.unit;
    request.task = job.command->serial;
    request.op = job.command->task->task->op;
    request.port_bytes_per_cycle = port_bytes_per_cycle;
    if (place_.engine_platform != nullptr) use_blocks(request, place_.engine_platform->l1());
    StreamSide& memory = read ? request.source : request.destination;
    StreamSide& unit = read ? request.destination : request.source;
    memory.is_memory = true;
    memory.level = view.region->level;
    memory.engine = view.region->engine;
    memory.pattern = values::footprint_of(view);
    unit.engine = place_.engine;
    return transaction;
}

void Worker::plan_move(Job& job, const values::RegionView& source, const values::RegionView& destination,
                       const proto::Dma& dma, uint32_t port_bytes_per_cycle) {
    auto stream_of_task = memory_stream(job, source, true, port_bytes_per_cycle);
    StreamRequest& request = stream_of_task->extension.request;
    request.destination.is_memory = true;
    request.destination.level = destination.region->level;
    request.destination.engine = destination.region->engine;
    request.destination.pattern = values::footprint_of(destination);
    request.burst_bytes = dma.burst_bytes();
    request.max_outstanding = dma.max_outstanding_bursts();
    request.descriptor_cycles = dma.descriptor_cycles();
    request.row_cycles = dma.row_cycles();
    request.priority = static_cast<uint8_t>(dma.priority());
    report(job).mover = true;
    report(job).work = request.source.pattern.total_bytes();
    report(job).peak_q16 = uint64_t{port_bytes_per_cycle} << 16;
    job.operands.push_back({std::move(stream_of_task)});
}

}  // namespace kpu::model
