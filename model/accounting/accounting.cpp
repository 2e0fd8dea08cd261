#include "model/accounting/accounting.hpp"

#include <algorithm>

#include "base/diagnostics.hpp"

namespace kpu::model {

using traces::Cause;

namespace {

/// Returns the useful share of the cycles in which units were busy with an operation's MACs: what less than a
/// cycle of useful work leaves to the unit's next task counts for the operation that did it.
double utilization_of(const traces::OpRow& row, double cycles_at_peak) {
    const auto cycles = [&](Cause cause) { return row.causes[static_cast<size_t>(cause)]; };
    const Cycles busy =
        cycles(Cause::busy_useful) + cycles(Cause::busy_fill_drain) + cycles(Cause::busy_padding);
    return busy > 0 ? std::min(1.0, cycles_at_peak / double(busy)) : 0;
}

}  // namespace

Accounting::Accounting(const Parts& parts) : parts_(parts), waiting_(*parts.board) {
    const auto& units = *parts.units;
    accounts_.resize(units.size());
    for (size_t u = 0; u < units.size(); ++u) {
        accounts_[u].compute = computes(units[u].kind);
        accounts_[u].tasks = executes_tasks(units[u].kind);
        if (!accounts_[u].tasks) continue;
        const auto unit = static_cast<uint16_t>(u);
        (parts.board->is_used(unit) ? able_ : unable_).push_back(unit);
    }
    ops_.resize(parts.program->ops.size() + 1);
    device_ = std::make_unique<DeviceTimeline>(parts.program->ops.size(), parts.sink,
                                               static_cast<uint16_t>(units.size() - 1), &parts_.core);
}

void Accounting::issued(const execution::TaskInstance& task) {
    OpAccount& op = op_account(task.task->op);
    op.first = std::min(op.first, now_);
}

void Accounting::dispatched(uint16_t unit, Cycles from, Cycles to) {
    Account& account = accounts_[unit];
    if (from > account.known_to) {
        append(unit, {account.known_to, from, Cause::idle_no_work});
    }
    append(unit, {std::max(from, account.known_to), to, Cause::busy_useful});
}

void Accounting::advanced(Cycles now) {
    if (now <= now_) return;
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
    if (parts_.sink != nullptr) record(unit, segment);
}

/// Records the unit's state from here on, unless it was that already.
void Accounting::record(uint16_t unit, const Segment& segment) {
    Account& account = accounts_[unit];
    if (account.recorded == segment.cause && account.recorded_task == segment.task &&
        account.recorded_blame == segment.blame) {
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
    }
}

void Accounting::completed(const TaskCommand& command) {
    settle_task(command);
    OpAccount& account = op_account(command.task->task->op);
    account.last = std::max(account.last, command.report.end);
}

/// Settles a task up to the end of its report: what its units did, and what others waited for it.
void Accounting::settle_task(const TaskCommand& command) {
    for (const uint16_t unit : {command.unit, command.partner}) {
        if (unit == traces::no_unit) continue;
        settle_execution(unit, command);
        --accounts_[unit].executing;
    }
    if (!command.plan->moves()) return;
    if (command.report.streams.empty()) throw InternalError("a transfer runs without a stream");
    settle_waits(command);
    device_->add(DeviceTimeline::Activity::memory, command.report.start, command.report.end, command.serial,
                 command.task->task->op);
}

/// Settles an open segment as `pieces`, as far as it reaches. Most are the first of their unit: counted at
/// once.
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

void Accounting::settle_execution(uint16_t unit, const TaskCommand& command) {
    const TaskPlan& plan = *command.plan;
    const TaskReport& report = command.report;
    Account& account = accounts_[unit];
    const auto found = std::find_if(account.open.begin(), account.open.end(), [&](const Segment& s) {
        return s.kind == Segment::Kind::executing && s.task == command.serial;
    });
    if (found == account.open.end())
        throw InternalError("a task completed on a unit that did not execute it");
    const Cycles from = found->from;
    // the drain of a formula may lie below the next task, its work does not
    const Cycles worked =
        plan.course == TaskPlan::Course::formula
            ? report.start + report.operand_wait + plan.fill + plan.steady + report.operand_stall
            : 0;
    const Cycles to = std::max(from, std::min(std::max(found->to, worked), report.end));
    const bool last = found + 1 == account.open.end();
    if (!last) (found + 1)->from = to;
    Pieces pieces = execution_pieces(plan, report, account.carry);
    // an unfinished task that is starved beyond its formula's time
    const Cycles known_to = pieces.empty() ? from : pieces.back().to;
    if (known_to < to) pieces.push_back({known_to, to, stall_of(report.operand_cause)});
    found->to = to;
    settle(unit, static_cast<size_t>(found - account.open.begin()), pieces);
    if (last) account.known_to = to;
}

/// Settles units that waited for this transfer: they are charged what limited it.
void Accounting::settle_waits(const TaskCommand& command) {
    const StreamResult& transfer = *command.report.streams.front().result;
    for (const uint16_t unit : able_) {
        std::vector<Segment>& open = accounts_[unit].open;
        for (size_t s = 0; s < open.size();) {
            if (open[s].kind != Segment::Kind::on_transfer || open[s].transfer != command.serial) {
                ++s;
                continue;
            }
            const Pieces pieces = wait_pieces(open[s], transfer);
            settle(unit, s, pieces);
            if (s > 0) s += pieces.size();
        }
    }
}

/// Settles the device up to the first segment that is still open: what lies before is certain.
void Accounting::settle_device() {
    Cycles until = now_;
    for (const uint16_t unit : able_) {
        const auto& open = accounts_[unit].open;
        if (!open.empty()) until = std::min(until, open.front().from);
    }
    device_->settle(until);
}

void Accounting::finished(Cycles end, const std::vector<TaskCommand*>& running) {
    advanced(end);
    for (const uint16_t unit : unable_) wait(unit, end);
    for (const TaskCommand* command : running) {
        settle_task(*command);
        op_account(command->task->task->op).last = end;
    }
    for (size_t u = 0; u < accounts_.size(); ++u) {
        Account& account = accounts_[u];
        if (row_of((*parts_.units)[u].kind).role != UnitRole::sequencer) continue;
        append(static_cast<uint16_t>(u), {account.known_to, end, Cause::idle_no_work});
        // a dispatch that reaches beyond the end
        if (account.known_to > end) {
            account.cycles[static_cast<size_t>(Cause::busy_useful)] -= account.known_to - end;
            account.known_to = end;
        }
    }
    device_->settle(end);
}

std::vector<traces::OpRow> Accounting::op_rows(const WorkCounts& work) const {
    std::vector<traces::OpRow> rows;
    rows.reserve(ops_.size());
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
            row.bound = source.bound;
            row.bound_cycles = source.bound_cycles;
        } else {
            row.id = std::string(traces::background_name);
        }
        row.span_cycles = op.last > op.first ? op.last - op.first : 0;
        row.charged_cycles = device_->charged()[i];
        row.causes = op.causes;
        const WorkCounts::OpWork& done = work.of_op(i);
        row.macs = done.macs;
        row.bytes_dram = done.bytes[static_cast<size_t>(Level::ddr)];
        row.bytes_l2 = done.bytes[static_cast<size_t>(Level::l2)];
        row.bytes_l1 = done.bytes[static_cast<size_t>(Level::l1)];
        row.utilization = utilization_of(row, done.cycles_at_peak);
        rows.push_back(std::move(row));
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
    const auto found = std::find_if(running.begin(), running.end(), [&](const TaskCommand* command) {
        const bool here = command->unit == unit || command->partner == unit;
        return command->serial == serial && (moving || here);
    });
    if (found == running.end()) throw InternalError("a task that executes is not known as running");
    const Cause cause = executing_cause(*(*found)->plan, (*found)->report, now);
    return moving ? Now{stall_of(cause), waiting.task} : Now{cause, serial};
}

}  // namespace kpu::model
