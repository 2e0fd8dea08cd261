#include "model/accounting/accounting.hpp"

#include <algorithm>

#include "base/diagnostics.hpp"

namespace kpu::model {

using traces::Cause;

namespace {

/// Useful share of the cycles in which units were busy with an operation's MACs.
double utilization_of(const traces::OpRow& row) {
    const auto cycles = [&](Cause cause) { return row.causes[static_cast<size_t>(cause)]; };
    const Cycles useful = cycles(Cause::busy_useful);
    const Cycles busy = useful + cycles(Cause::busy_fill_drain) + cycles(Cause::busy_padding);
    return row.macs > 0 && busy > 0 ? double(useful) / double(busy) : 0;
}

bool is_compute(traces::UnitClass c) {
    return c == traces::UnitClass::nmu || c == traces::UnitClass::cstl || c == traces::UnitClass::vpu;
}

}  // namespace

Accounting::Accounting(const Parts& parts)
    : parts_(parts), waiting_(*parts.board, *parts.units), work_(*parts.platform) {
    const auto& units = *parts.units;
    accounts_.resize(units.size());
    for (size_t u = 0; u < units.size(); ++u) {
        accounts_[u].compute = is_compute(units[u].unit_class);
        accounts_[u].tasks = executes_tasks(units[u].unit_class);
        if (!accounts_[u].tasks) continue;
        const auto unit = static_cast<uint16_t>(u);
        (parts.board->classes_of_unit(unit).empty() ? unable_ : able_).push_back(unit);
    }
    moved_.resize(units.size(), 0);
    tokens_.resize(units.size(), 0);
    queued_.resize(units.size(), 0);
    ops_.resize(parts.program->ops.size() + 1);
    device_ = std::make_unique<DeviceTimeline>(parts.program->ops.size(), parts.sink,
                                               static_cast<uint16_t>(units.size() - 1), &parts_.core);
    if (parts.ledger != nullptr) energy_ = std::make_unique<EnergyBooking>(*parts.ledger);
}

traces::Event Accounting::event_of(traces::EventKind kind, uint32_t task, uint32_t op) const {
    traces::Event event;
    event.time_ps = parts_.core.edge(now_);
    event.kind = kind;
    event.task = task;
    event.op = op;
    return event;
}

void Accounting::record(traces::EventKind kind, uint16_t unit, uint32_t task, uint32_t op, int64_t value) {
    traces::Event event = event_of(kind, task, op);
    event.unit = unit;
    event.value = value;
    parts_.sink->record(event);
}

/// What the task does, as its unit planned it.
void Accounting::trace_work(const TaskCommand& command) {
    record(traces::EventKind::work, traces::no_unit, command.serial, command.task->task->op,
           work_table_.index_of(command));
}

void Accounting::issued(const execution::TaskInstance& task) {
    OpAccount& op = op_account(task.task->op);
    op.first = std::min(op.first, now_);
    if (parts_.sink == nullptr) return;
    const int depth = task.loops.depth;
    const int64_t innermost = depth > 0 ? task.loops[static_cast<size_t>(depth) - 1] : 0;
    static_assert(static_cast<int>(execution::IssueReason::limit) + 1 == traces::issue_cause_count);
    traces::Event issue = event_of(traces::EventKind::issue, task.serial, task.statement);
    issue.value = innermost;
    issue.cause = static_cast<uint8_t>(task.reason);
    issue.reserved = completing_ + 1;  // no_task + 1 is 0
    parts_.sink->record(issue);
    for (int d = 0; d + 1 < depth; ++d) {
        record(traces::EventKind::loop, static_cast<uint16_t>(d), task.serial, task.task->op,
               task.loops[static_cast<size_t>(d)]);
    }
    for (const uint32_t producer : task.all_producers) {
        record(traces::EventKind::flow, traces::no_unit, task.serial, task.task->op, producer);
    }
}

void Accounting::ready(const execution::TaskInstance& task) {
    if (parts_.sink == nullptr) return;
    traces::Event ready = event_of(traces::EventKind::ready, task.serial, task.task->op);
    ready.reserved = completing_ + 1;
    parts_.sink->record(ready);
}

void Accounting::trace_counter(traces::CounterId counter, uint16_t unit, uint64_t time_ps, uint64_t value) {
    traces::Event event;
    event.time_ps = time_ps;
    event.kind = traces::EventKind::counter;
    event.cause = static_cast<uint8_t>(counter);
    event.unit = unit;
    event.op = traces::background_op;
    event.value = static_cast<int64_t>(value);
    parts_.sink->record(event);
}

void Accounting::tokens(uint16_t unit, uint32_t count) {
    if (parts_.sink == nullptr || tokens_[unit] == count) return;
    tokens_[unit] = count;
    trace_counter(traces::CounterId::tokens_in_flight, unit, parts_.core.edge(now_), count);
}

/// Queue depth of a unit: ready tasks, not yet started, that it may take; as of the end of the present
/// instant.
void Accounting::trace_queues() {
    for (const uint16_t unit : able_) {
        uint64_t depth = 0;
        for (const uint32_t c : parts_.board->classes_of_unit(unit))
            depth += parts_.board->classes()[c].ready.size();
        if (depth == queued_[unit]) continue;
        queued_[unit] = depth;
        trace_counter(traces::CounterId::queue_depth, unit, parts_.core.edge(now_), depth);
    }
}

void Accounting::dispatched(uint16_t unit, Cycles from, Cycles to) {
    Account& account = accounts_[unit];
    if (from > account.known_to) {
        append(unit, {account.known_to, from, Cause::idle_no_work});
    }
    append(unit, {std::max(from, account.known_to), to, Cause::busy_useful});
}

void Accounting::advance(Cycles now) {
    if (now <= now_) return;
    if (parts_.sink != nullptr) trace_queues();
    for (const uint16_t unit : able_)
        if (accounts_[unit].executing == 0) wait(unit, now);
    if (now_ == 0)  // the rest of their time is charged at the end
        for (const uint16_t unit : unable_) wait(unit, now);
    if (const execution::TaskInstance* earliest = parts_.board->earliest()) {
        device_->add(DeviceTimeline::Activity::waiting, now_, now, earliest->serial, earliest->task->op);
    }
    now_ = now;
    if (device_->due()) settle_device();
}

/// Charges a unit that executes nothing up to `until`.
void Accounting::wait(uint16_t unit, Cycles until) {
    Segment segment = waiting_.of(unit, accounts_[unit].ever);
    segment.from = accounts_[unit].known_to;
    segment.to = until;
    append(unit, segment);
}

void Accounting::append(uint16_t unit, Segment segment) {
    Account& account = accounts_[unit];
    if (segment.from >= segment.to) return;
    account.known_to = segment.to;
    if (!account.open.empty()) {
        Segment& last = account.open.back();
        if (last.kind == segment.kind && last.kind != Segment::Kind::executing &&
            last.cause == segment.cause && last.task == segment.task && last.transfer == segment.transfer &&
            last.blame == segment.blame) {
            last.to = segment.to;
            return;
        }
    }
    if (account.open.empty() && segment.kind == Segment::Kind::done) {
        count(unit, segment);
    } else {
        account.open.push_back(segment);
    }
}

void Accounting::flush(uint16_t unit) {
    std::vector<Segment>& open = accounts_[unit].open;
    auto at = open.begin();
    for (; at != open.end() && at->kind == Segment::Kind::done; ++at) count(unit, *at);
    open.erase(open.begin(), at);
}

void Accounting::count(uint16_t unit, const Segment& segment) {
    if (segment.from >= segment.to) return;
    Account& account = accounts_[unit];
    const Cycles length = segment.to - segment.from;
    account.cycles[static_cast<size_t>(segment.cause)] += length;
    if (account.tasks) op_account(segment.op).causes[static_cast<size_t>(segment.cause)] += length;
    if (segment.work && account.compute) {
        device_->add(
            is_busy(segment.cause) ? DeviceTimeline::Activity::compute : DeviceTimeline::Activity::memory,
            segment.from, segment.to, segment.task, segment.op);
    }
    if (parts_.sink == nullptr ||
        (account.recorded == segment.cause && account.recorded_task == segment.task &&
         account.recorded_blame == segment.blame)) {
        return;
    }
    account.recorded = segment.cause;
    account.recorded_task = segment.task;
    account.recorded_blame = segment.blame;
    traces::Event event;
    event.time_ps = parts_.core.edge(segment.from);
    event.unit = unit;
    event.kind = traces::EventKind::cause;
    event.cause = static_cast<uint8_t>(segment.cause);
    event.task = segment.task;
    event.op = segment.op;
    event.value = segment.blame;
    parts_.sink->record(event);
}

void Accounting::started(const TaskCommand& command) {
    const uint32_t op = command.task->task->op;
    for (const uint16_t unit : {command.unit, command.partner}) {
        if (unit == traces::no_unit) continue;
        Account& account = accounts_[unit];
        // the drain of an earlier task ends, for the account, where this one begins; its work does not
        if (account.executing > 0) account.open.back().to = now_;
        Segment segment;
        segment.from = now_;
        segment.to = ~Cycles{0};
        segment.kind = Segment::Kind::executing;
        segment.task = command.serial;
        segment.op = op;
        account.open.push_back(segment);
        account.known_to = now_;
        ++account.executing;
        account.ever = true;
        if (parts_.sink != nullptr)
            record(traces::EventKind::begin, unit, command.serial, op, command.sequencer);
    }
}

void Accounting::completed(const TaskCommand& command) {
    const TaskReport& report = command.report;
    const uint32_t op = command.task->task->op;
    for (const uint16_t unit : {command.unit, command.partner}) {
        if (unit == traces::no_unit) continue;
        settle_execution(unit, report, command.serial);
        --accounts_[unit].executing;
        if (parts_.sink != nullptr && report.mover) trace_bytes(unit, report);
        if (parts_.sink != nullptr) record(traces::EventKind::end, unit, command.serial, op, 0);
    }
    if (report.mover) {
        settle_waits(report, command.serial);
        device_->add(DeviceTimeline::Activity::memory, report.start, report.end, command.serial, op);
    }
    completing_ = command.serial;
    if (parts_.sink != nullptr) trace_work(command);
    OpAccount& account = op_account(op);
    account.last = std::max(account.last, report.end);
    count_work(command);
    if (energy_) energy_->completed(command);
}

/// An open segment was `pieces`, as far as it reaches. Most are the first of their unit: counted at once.
void Accounting::settle(uint16_t unit, size_t index, const Pieces& pieces) {
    std::vector<Segment>& open = accounts_[unit].open;
    Segment known = open[index];
    known.work = known.kind == Segment::Kind::executing;
    known.kind = Segment::Kind::done;
    known.transfer = traces::no_task;
    const Cycles from = known.from, to = known.to;
    auto at = open.erase(open.begin() + static_cast<std::ptrdiff_t>(index));
    for (const Piece& piece : pieces) {
        known.from = std::clamp(piece.from, from, to);
        known.to = std::clamp(piece.to, from, to);
        known.cause = piece.cause;
        if (index == 0) {
            count(unit, known);
        } else {
            at = open.insert(at, known) + 1;
        }
    }
    if (index == 0 && !open.empty()) flush(unit);
}

void Accounting::settle_execution(uint16_t unit, const TaskReport& report, uint32_t serial) {
    Account& account = accounts_[unit];
    const auto found = std::find_if(account.open.begin(), account.open.end(), [&](const Segment& s) {
        return s.kind == Segment::Kind::executing && s.task == serial;
    });
    if (found == account.open.end())
        throw InternalError("a task completed on a unit that did not execute it");
    const Cycles from = found->from;
    const Cycles worked =
        report.start + report.operand_wait + report.fill + report.steady + report.operand_stall;
    const Cycles to = std::max(from, std::min(std::max(found->to, report.mover ? 0 : worked), report.end));
    const bool last = found + 1 == account.open.end();
    if (!last) (found + 1)->from = to;
    Pieces pieces = execution_pieces(report, account.carry);
    // an unfinished task that is starved beyond its formula's time
    const Cycles known_to = pieces.empty() ? from : pieces.back().to;
    if (known_to < to) pieces.push_back({known_to, to, stall_of(report.operand_cause)});
    found->to = to;
    settle(unit, static_cast<size_t>(found - account.open.begin()), pieces);
    if (last) account.known_to = to;
}

/// Units that waited for this transfer are charged what limited it.
void Accounting::settle_waits(const TaskReport& report, uint32_t serial) {
    const StreamResult& transfer = *report.streams.front().result;
    for (const uint16_t unit : able_) {
        std::vector<Segment>& open = accounts_[unit].open;
        for (size_t s = 0; s < open.size();) {
            if (open[s].kind != Segment::Kind::on_transfer || open[s].transfer != serial) {
                ++s;
                continue;
            }
            const Pieces pieces = wait_pieces(open[s], transfer);
            settle(unit, s, pieces);
            if (s > 0) s += pieces.size();
        }
    }
}

void Accounting::trace_bytes(uint16_t unit, const TaskReport& report) {
    trace_counter(traces::CounterId::bytes, unit, parts_.core.edge(report.start), moved_[unit]);
    moved_[unit] += report.work;
    trace_counter(traces::CounterId::bytes, unit, parts_.core.edge(report.end), moved_[unit]);
}

void Accounting::count_work(const TaskCommand& command) {
    const bool on_array = (*parts_.units)[command.unit].unit_class == traces::UnitClass::nmu;
    const WorkCounts::Task task = work_.add(command, on_array);
    OpAccount& op = op_account(command.task->task->op);
    op.macs += task.macs;
    for (size_t level = 0; level < 3; ++level) op.bytes[level] += task.bytes[level];
}

/// What lies before every segment that is still open is certain.
void Accounting::settle_device() {
    Cycles until = now_;
    for (const uint16_t unit : able_) {
        const auto& open = accounts_[unit].open;
        if (!open.empty()) until = std::min(until, open.front().from);
    }
    device_->settle(until);
}

void Accounting::finish(Cycles end, const std::vector<TaskCommand*>& running) {
    advance(end);
    for (const uint16_t unit : unable_) wait(unit, end);
    for (TaskCommand* command : running) {
        TaskReport& report = command->report;
        report.end = end;
        const uint32_t op = command->task->task->op;
        if (parts_.sink != nullptr) trace_work(*command);
        if (report.mover && report.streams.empty()) throw InternalError("a transfer runs without a stream");
        for (const uint16_t unit : {command->unit, command->partner}) {
            if (unit == traces::no_unit) continue;
            settle_execution(unit, report, command->serial);
            --accounts_[unit].executing;
        }
        if (report.mover) {
            settle_waits(report, command->serial);
            device_->add(DeviceTimeline::Activity::memory, report.start, end, command->serial, op);
        }
        op_account(op).last = end;
    }
    for (size_t u = 0; u < accounts_.size(); ++u) {
        Account& account = accounts_[u];
        if ((*parts_.units)[u].unit_class != traces::UnitClass::sequencer) continue;
        append(static_cast<uint16_t>(u), {account.known_to, end, Cause::idle_no_work});
        // a dispatch that reaches beyond the end
        if (account.known_to > end) {
            account.cycles[static_cast<size_t>(Cause::busy_useful)] -= account.known_to - end;
            account.known_to = end;
        }
    }
    device_->settle(end);
}

std::vector<traces::OpRow> Accounting::op_rows() const {
    std::vector<traces::OpRow> rows;
    for (size_t i = 0; i < ops_.size(); ++i) {
        const OpAccount& op = ops_[i];
        traces::OpRow row;
        if (i + 1 < ops_.size()) {
            const BoundOp& source = parts_.program->ops[i];
            row.id = source.id;
            row.type = source.type;
            row.estimated_cycles = source.estimated_cycles;
            row.estimated_energy_pj = source.estimated_energy_pj;
            row.profile = source.profile;
        } else {
            row.id = std::string(traces::background_name);
        }
        row.span_cycles = op.last > op.first ? op.last - op.first : 0;
        row.charged_cycles = device_->charged()[i];
        row.causes = op.causes;
        row.macs = op.macs;
        row.bytes_dram = op.bytes[static_cast<size_t>(Level::ddr)];
        row.bytes_l2 = op.bytes[static_cast<size_t>(Level::l2)];
        row.bytes_l1 = op.bytes[static_cast<size_t>(Level::l1)];
        row.utilization = utilization_of(row);
        rows.push_back(row);
    }
    return rows;
}

Cycles Accounting::unattributed() const {
    Cycles sum = 0;
    for (const Account& account : accounts_) sum += account.cycles[static_cast<size_t>(Cause::unattributed)];
    return sum;
}

Accounting::Now Accounting::state_of(uint16_t unit, Cycles now,
                                     const std::vector<TaskCommand*>& running) const {
    const Account& account = accounts_[unit];
    if (!account.tasks) return {Cause::idle_no_work, traces::no_task};
    const Segment waiting = account.executing > 0 ? Segment{} : waiting_.of(unit, account.ever);
    const bool moving = waiting.kind == Segment::Kind::on_transfer;
    if (account.executing == 0 && !moving) return {waiting.cause, waiting.task};
    const uint32_t serial = moving ? waiting.transfer : account.open.back().task;
    const auto found = std::find_if(running.begin(), running.end(),
                                    [&](const TaskCommand* command) { return command->serial == serial; });
    if (found == running.end()) throw InternalError("a task that executes is not known as running");
    const Cause cause = executing_cause((*found)->report, now);
    return moving ? Now{stall_of(cause), waiting.task} : Now{cause, serial};
}

}  // namespace kpu::model
