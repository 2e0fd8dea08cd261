#include "model/accounting/accounting.hpp"

#include <algorithm>

#include "isa/diagnostics.hpp"
#include "model/timing/systolic.hpp"
#include "platforms/platform.hpp"

namespace kpu::model {

using traces::Cause;

namespace {

bool is_compute(traces::UnitClass c) {
    return c == traces::UnitClass::nmu || c == traces::UnitClass::cstl || c == traces::UnitClass::vpu;
}

bool is_busy(Cause cause) { return cause <= Cause::busy_overhead; }

}  // namespace

Cause stall_of(Cause limiter) { return is_busy(limiter) ? Cause::stalled_operand_interconnect : limiter; }

Accounting::Accounting(const Parts& parts) : parts_(parts) {
    const auto& units = *parts.units;
    accounts_.resize(units.size());
    for (size_t u = 0; u < units.size(); ++u) {
        accounts_[u].tasks = executes_tasks(units[u].unit_class);
        accounts_[u].compute = is_compute(units[u].unit_class);
    }
    moved_.resize(units.size(), 0);
    tokens_.resize(units.size(), 0);
    ops_.resize(parts.program->ops.size() + 1);
    device_ = std::make_unique<DeviceTimeline>(parts.program->ops.size(), parts.sink,
                                               static_cast<uint16_t>(units.size() - 1), &parts_.core);
    if (parts.ledger != nullptr) energy_ = std::make_unique<EnergyBooking>(*parts.ledger);
}

void Accounting::record(traces::EventKind kind, uint16_t unit, uint32_t task, uint32_t op, int64_t value) {
    traces::Event event;
    event.time_ps = parts_.core.edge(now_);
    event.kind = kind;
    event.unit = unit;
    event.task = task;
    event.op = op;
    event.value = value;
    parts_.sink->record(event);
}

void Accounting::issued(const control::TaskInstance& task) {
    OpAccount& op = op_account(task.task->op);
    op.first = std::min(op.first, now_);
    if (parts_.sink == nullptr) return;
    const int depth = task.loops.depth;
    const int64_t innermost = depth > 0 ? task.loops[static_cast<size_t>(depth) - 1] : 0;
    record(traces::EventKind::issue, traces::no_unit, task.serial, task.statement, innermost);
    for (int d = 0; d + 1 < depth; ++d) {
        record(traces::EventKind::loop, static_cast<uint16_t>(d), task.serial, task.task->op,
               task.loops[static_cast<size_t>(d)]);
    }
    for (const uint32_t producer : task.all_producers) {
        record(traces::EventKind::flow, traces::no_unit, task.serial, task.task->op, producer);
    }
}

void Accounting::ready(const control::TaskInstance& task) {
    if (parts_.sink != nullptr)
        record(traces::EventKind::ready, traces::no_unit, task.serial, task.task->op, 0);
}

void Accounting::tokens(uint16_t unit, uint32_t count) {
    if (parts_.sink == nullptr || tokens_[unit] == count) return;
    tokens_[unit] = count;
    traces::Event event;
    event.time_ps = parts_.core.edge(now_);
    event.kind = traces::EventKind::counter;
    event.cause = static_cast<uint8_t>(traces::CounterId::tokens_in_flight);
    event.unit = unit;
    event.op = traces::background_op;
    event.value = count;
    parts_.sink->record(event);
}

void Accounting::dispatched(uint16_t unit, Cycles from, Cycles to) {
    Account& account = accounts_[unit];
    if (from > account.known_to) {
        append(unit, {account.known_to, from, Cause::idle_no_work});
    }
    append(unit, {std::max(from, account.known_to), to, Cause::busy_useful});
}

/// Rules 2 to 5 for a unit that executes nothing.
Accounting::Segment Accounting::waiting_cause(uint16_t unit) const {
    const traces::UnitInfo& info = (*parts_.units)[unit];
    const control::TaskInstance* ready = nullptr;
    const control::TaskInstance* oldest = nullptr;
    for (const uint32_t c : parts_.board->classes_of_unit(unit)) {
        const TaskClass& wanted = parts_.board->classes()[c];
        if (!wanted.ready.empty() && (ready == nullptr || wanted.ready.begin()->first < ready->serial))
            ready = wanted.ready.begin()->second;
        if (!wanted.waiting.empty() && (oldest == nullptr || wanted.waiting.begin()->first < oldest->serial))
            oldest = wanted.waiting.begin()->second;
    }
    Segment segment;
    const control::TaskInstance* task = ready != nullptr ? ready : oldest;
    if (ready != nullptr) {
        segment.cause = Cause::stalled_structural;
    } else if (oldest != nullptr) {
        segment = cause_of_wait(*oldest);
    } else if (controller_->future_work(unit_kind_of(info.unit_class), info.engine, info.index) !=
               control::FutureWork::none) {
        segment.cause = Cause::stalled_issue_window;
    } else {
        segment.cause = accounts_[unit].ever ? Cause::idle_finished : Cause::idle_no_work;
    }
    if (task != nullptr) {
        segment.task = task->serial;
        segment.op = task->task->op;
    }
    return segment;
}

/// Rule 3: the earliest-issued unsatisfied producers, down to one that is running, refused or not yet issued.
Accounting::Segment Accounting::cause_of_wait(const control::TaskInstance& task) const {
    Segment segment;
    const control::TaskInstance* at = &task;
    for (;;) {
        const control::TaskInstance* producer = controller_->blocking_producer(*at);
        if (producer == nullptr) {
            segment.cause = Cause::stalled_issue_window;
            return segment;
        }
        segment.blame = traces::blame_task(producer->serial);
        at = producer;
        if (producer->state == control::TaskState::ready) {
            segment.cause = Cause::stalled_structural;
            return segment;
        }
        if (producer->state != control::TaskState::running) continue;
        if (producer->task->kind == proto::Task::COMPUTE) {
            segment.cause = Cause::stalled_dependency;
        } else {
            segment.kind = Segment::Kind::on_transfer;
            segment.transfer = producer->serial;
        }
        return segment;
    }
}

void Accounting::advance(Cycles now) {
    if (now <= now_) return;
    for (size_t u = 0; u < accounts_.size(); ++u) {
        Account& account = accounts_[u];
        if (!account.tasks || account.executing > 0) continue;
        Segment segment = waiting_cause(static_cast<uint16_t>(u));
        segment.from = account.known_to;
        segment.to = now;
        append(static_cast<uint16_t>(u), segment);
    }
    if (const control::TaskInstance* earliest = parts_.board->earliest()) {
        device_->add(DeviceTimeline::Activity::waiting, now_, now, earliest->serial, earliest->task->op);
    }
    now_ = now;
    if (device_->due()) settle_device();
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
    account.open.push_back(segment);
    flush(unit);
}

void Accounting::flush(uint16_t unit) {
    Account& account = accounts_[unit];
    while (!account.open.empty() && account.open.front().kind == Segment::Kind::done) {
        count(unit, account.open.front());
        account.open.pop_front();
    }
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
        // the drain of an earlier task ends, for the account, where this one begins
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
        if (parts_.sink != nullptr) record(traces::EventKind::begin, unit, command.serial, op, 0);
    }
}

void Accounting::completed(const TaskCommand& command) {
    const TaskReport& report = command.report;
    const uint32_t op = command.task->task->op;
    for (const uint16_t unit : {command.unit, command.partner}) {
        if (unit == traces::no_unit) continue;
        settle_execution(unit, report, command.serial, op);
        --accounts_[unit].executing;
        if (parts_.sink != nullptr && report.mover) trace_bytes(unit, report);
        if (parts_.sink != nullptr) record(traces::EventKind::end, unit, command.serial, op, 0);
    }
    if (report.mover) {
        settle_waits(report, command.serial);
        device_->add(DeviceTimeline::Activity::memory, report.start, report.end, command.serial, op);
    }
    OpAccount& account = op_account(op);
    account.last = std::max(account.last, report.end);
    count_streams(command);
    count_work(command);
    if (energy_) energy_->completed(command);
}

void Accounting::replace(std::deque<Segment>& open, size_t index, const Pieces& pieces) {
    const auto at = open.erase(open.begin() + static_cast<std::ptrdiff_t>(index));
    open.insert(at, pieces.begin(), pieces.end());
}

void Accounting::settle_execution(uint16_t unit, const TaskReport& report, uint32_t serial, uint32_t op) {
    Account& account = accounts_[unit];
    const auto found = std::find_if(account.open.begin(), account.open.end(), [&](const Segment& s) {
        return s.kind == Segment::Kind::executing && s.task == serial;
    });
    if (found == account.open.end())
        throw InternalError("a task completed on a unit that did not execute it");
    const Cycles from = found->from;
    const Cycles to = std::min(found->to, report.end);
    const bool last = found + 1 == account.open.end();
    Pieces pieces = report.mover ? mover_pieces(account, report) : compute_pieces(account, report);
    // an unfinished task that is starved beyond its formula's time
    Segment rest;
    rest.from = pieces.empty() ? from : pieces.back().to;
    rest.to = to;
    rest.cause = stall_of(report.operand_cause);
    if (rest.from < to) pieces.push_back(rest);
    for (Segment& piece : pieces) {
        piece.task = serial;
        piece.op = op;
        piece.work = true;
        piece.from = std::clamp(piece.from, from, to);
        piece.to = std::clamp(piece.to, from, to);
    }
    replace(account.open, static_cast<size_t>(found - account.open.begin()), pieces);
    if (last) account.known_to = to;
    flush(unit);
}

/// In order: fill, useful, padding, late operands, drain, late results.
Accounting::Pieces Accounting::compute_pieces(Account& account, const TaskReport& report) const {
    const uint64_t peak = std::max<uint64_t>(report.peak_q16, 1);
    __extension__ typedef unsigned __int128 Wide;
    const Wide work = (static_cast<Wide>(report.work) << 16) + account.carry_q16;
    const auto useful = static_cast<Cycles>(std::min<Wide>(work / peak, report.steady));
    account.carry_q16 = static_cast<uint64_t>(std::min<Wide>(work - Wide{useful} * peak, peak - 1));
    Pieces pieces;
    Cycles at = report.start;
    const auto add = [&](Cycles length, Cause cause) {
        Segment piece;
        piece.from = at;
        piece.to = at += length;
        piece.cause = cause;
        if (length > 0) pieces.push_back(piece);
    };
    add(report.fill, Cause::busy_fill_drain);
    add(useful, Cause::busy_useful);
    add(report.steady - useful, Cause::busy_padding);
    add(report.operand_stall, stall_of(report.operand_cause));
    add(report.drain, Cause::busy_fill_drain);
    add(report.result_stall, stall_of(report.result_cause));
    return pieces;
}

/// Between two changes of limiter: the cycles that the port needed for the bytes delivered, then the limiter.
Accounting::Pieces Accounting::mover_pieces(Account& account, const TaskReport& report) const {
    Pieces pieces;
    const auto add = [&](Cycles from, Cycles to, Cause cause) {
        Segment piece;
        piece.from = from;
        piece.to = to;
        piece.cause = cause;
        if (from < to) pieces.push_back(piece);
    };
    const StreamResult& result = *report.streams.front().result;
    const uint64_t peak = std::max<uint64_t>(report.peak_q16, 1);
    Cycles at = report.start;
    for (size_t i = 0; i < result.limiters.size(); ++i) {
        const LimiterChange& change = result.limiters[i];
        const bool last = i + 1 == result.limiters.size();
        const uint64_t bytes =
            (last ? result.bytes : result.limiters[i + 1].bytes_before) - change.bytes_before;
        const Cycles from = std::clamp(change.from, at, report.end);
        const Cycles to = last ? report.end : std::clamp(result.limiters[i + 1].from, from, report.end);
        add(at, from, Cause::stalled_dma_issue);
        account.move_carry_q16 += bytes << 16;
        const Cycles useful = std::min(to - from, account.move_carry_q16 / peak);
        account.move_carry_q16 -= useful * peak;
        add(from, from + useful, Cause::busy_useful);
        add(from + useful, to, stall_of(change.cause));
        at = to;
    }
    add(at, report.end, Cause::stalled_dma_issue);
    account.move_carry_q16 = std::min(account.move_carry_q16, peak - 1);
    return pieces;
}

/// Units that waited for this transfer are charged what limited it.
void Accounting::settle_waits(const TaskReport& report, uint32_t serial) {
    const std::vector<LimiterChange>& limiters = report.streams.front().result->limiters;
    for (size_t u = 0; u < accounts_.size(); ++u) {
        std::deque<Segment>& open = accounts_[u].open;
        for (size_t s = 0; s < open.size(); ++s) {
            if (open[s].kind != Segment::Kind::on_transfer || open[s].transfer != serial) continue;
            const Segment whole = open[s];
            Pieces pieces;
            Cycles at = whole.from;
            const auto add = [&](Cycles to, Cause cause) {
                to = std::min(to, whole.to);
                if (to <= at) return;
                Segment piece = whole;
                piece.kind = Segment::Kind::done;
                piece.transfer = traces::no_task;
                piece.from = at;
                piece.to = at = to;
                piece.cause = cause;
                pieces.push_back(piece);
            };
            Cause cause = Cause::stalled_dma_issue;
            for (const LimiterChange& change : limiters) {
                add(change.from, cause);
                cause = stall_of(change.cause);
            }
            add(whole.to, cause);
            replace(open, s, pieces);
            s += pieces.size() - 1;
        }
        flush(static_cast<uint16_t>(u));
    }
}

void Accounting::count_streams(const TaskCommand& command) {
    const TaskReport& report = command.report;
    OpAccount& op = op_account(command.task->task->op);
    for (const StreamUse& use : report.streams) {
        const uint64_t moved = use.result->bytes;
        const StreamSide& source = use.request->source;
        const StreamSide& destination = use.request->destination;
        if (source.is_memory) {
            bytes_[static_cast<size_t>(source.level)][0] += moved;
            op.bytes[static_cast<size_t>(source.level)] += moved;
        }
        if (destination.is_memory) {
            bytes_[static_cast<size_t>(destination.level)][1] += moved;
            op.bytes[static_cast<size_t>(destination.level)] += moved;
        }
        count_hits(use, report.mover);
    }
}

void Accounting::count_hits(const StreamUse& use, bool mover) {
    const StreamSide& source = use.request->source;
    if (!source.is_memory) return;
    const uint64_t accesses = use.result->source_accesses;
    constexpr auto l1 = static_cast<size_t>(Level::l1), l2 = static_cast<size_t>(Level::l2);
    if (!mover) (source.level == Level::l1 ? hits_ : misses_)[l1] += accesses;
    const bool to_engine = !mover || use.request->destination.level == Level::l1;
    if (to_engine && source.level == Level::l2) hits_[l2] += accesses;
    if (to_engine && source.level == Level::ddr) misses_[l2] += accesses;
}

void Accounting::trace_bytes(uint16_t unit, const TaskReport& report) {
    traces::Event event;
    event.kind = traces::EventKind::counter;
    event.cause = static_cast<uint8_t>(traces::CounterId::bytes);
    event.unit = unit;
    event.op = traces::background_op;
    event.time_ps = parts_.core.edge(report.start);
    event.value = static_cast<int64_t>(moved_[unit]);
    parts_.sink->record(event);
    moved_[unit] += report.work;
    event.time_ps = parts_.core.edge(report.end);
    event.value = static_cast<int64_t>(moved_[unit]);
    parts_.sink->record(event);
}

void Accounting::count_work(const TaskCommand& command) {
    const BoundTask& task = *command.task->task;
    if (command.report.mover || (*parts_.units)[command.unit].unit_class != traces::UnitClass::nmu) return;
    const auto& inputs = command.task->inputs;
    TypeWork& type = by_type_[timing::rate_name(inputs[0].region->elem, inputs[1].region->elem)];
    if (type.peak_q16 == 0) {
        for (const proto::Engine& engine : platforms::engines_of(*parts_.platform)) {
            for (const proto::MacRate& rate : engine.array().rate()) {
                if (rate.type() != timing::rate_name(inputs[0].region->elem, inputs[1].region->elem))
                    continue;
                const auto array =
                    timing::array_for(engine.array(), inputs[0].region->elem, inputs[1].region->elem);
                type.peak_q16 += array.peak_q16() * engine.array().count();
            }
        }
    }
    type.macs += command.report.work;
    OpAccount& op = op_account(task.op);
    op.macs += command.report.work;
    op.peak_cycles += double(command.report.work) * 65536.0 / double(std::max<uint64_t>(type.peak_q16, 1));
}

/// What lies before every segment that is still open is certain.
void Accounting::settle_device() {
    Cycles until = now_;
    for (const Account& account : accounts_) {
        if (account.tasks && !account.open.empty()) until = std::min(until, account.open.front().from);
    }
    device_->settle(until);
}

void Accounting::finish(Cycles end, const std::vector<TaskCommand*>& running) {
    advance(end);
    for (TaskCommand* command : running) {
        TaskReport& report = command->report;
        report.end = end;
        const uint32_t op = command->task->task->op;
        if (report.mover && report.streams.empty()) throw InternalError("a transfer runs without a stream");
        for (const uint16_t unit : {command->unit, command->partner}) {
            if (unit == traces::no_unit) continue;
            settle_execution(unit, report, command->serial, op);
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
        flush(static_cast<uint16_t>(u));
        if ((*parts_.units)[u].unit_class != traces::UnitClass::sequencer) continue;
        append(static_cast<uint16_t>(u), {account.known_to, end, Cause::idle_no_work});
        flush(static_cast<uint16_t>(u));
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
        row.utilization = row.charged_cycles > 0 ? op.peak_cycles / double(row.charged_cycles) : 0;
        rows.push_back(row);
    }
    return rows;
}

uint64_t Accounting::macs() const {
    uint64_t sum = 0;
    for (const auto& [type, work] : by_type_) sum += work.macs;
    return sum;
}

double Accounting::compute_cycles_at_peak() const {
    double sum = 0;
    for (const auto& [type, work] : by_type_) {
        sum += double(work.macs) * 65536.0 / double(std::max<uint64_t>(work.peak_q16, 1));
    }
    return sum;
}

Cycles Accounting::unattributed() const {
    Cycles sum = 0;
    for (const Account& account : accounts_) sum += account.cycles[static_cast<size_t>(Cause::unattributed)];
    return sum;
}

Accounting::Now Accounting::state_of(uint16_t unit) const {
    const Account& account = accounts_[unit];
    if (!account.tasks) return {Cause::idle_no_work, traces::no_task};
    if (account.executing > 0) return {Cause::busy_useful, account.open.back().task};
    const Segment segment = waiting_cause(unit);
    const bool moving = segment.kind == Segment::Kind::on_transfer;
    return {moving ? Cause::stalled_operand_interconnect : segment.cause, segment.task};
}

}  // namespace kpu::model
