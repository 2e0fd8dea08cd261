#include "model/accounting/execution.hpp"

#include <algorithm>

namespace kpu::model {

using traces::Cause;

namespace {

/// Returns the pieces in order: wait for operands, fill, useful, padding, late operands, drain, late results.
Pieces formula_pieces(const TaskPlan& plan, const TaskReport& report, WorkCarry& carry) {
    const uint64_t peak = std::max<uint64_t>(plan.peak_q16, 1);
    __extension__ typedef unsigned __int128 Wide;
    const Wide work = (static_cast<Wide>(plan.work) << 16) + carry.work;
    const auto useful = static_cast<Cycles>(std::min<Wide>(work / peak, plan.steady));
    carry.work = static_cast<uint64_t>(std::min<Wide>(work - Wide{useful} * peak, peak - 1));
    Pieces pieces;
    Cycles at = report.start;
    const auto add = [&](Cycles length, Cause cause) {
        if (length > 0) pieces.push_back({at, at + length, cause});
        at += length;
    };
    add(report.operand_wait, Cause::stalled_operand_sram_access);
    add(plan.fill, Cause::busy_fill_drain);
    add(useful, Cause::busy_useful);
    add(plan.steady - useful, Cause::busy_padding);
    add(report.operand_stall, stall_of(report.operand_cause));
    add(plan.drain, Cause::busy_fill_drain);
    add(report.result_stall, stall_of(report.result_cause));
    return pieces;
}

/// Returns the pieces of a stream: between two changes of limiter, the cycles that the port needed for the
/// bytes delivered, then the limiter.
Pieces stream_pieces(const TaskPlan& plan, const TaskReport& report, WorkCarry& carry) {
    Pieces pieces;
    const auto add = [&](Cycles from, Cycles to, Cause cause) {
        if (from < to) pieces.push_back({from, to, cause});
    };
    const StreamResult& result = *report.streams.front().result;
    const uint64_t peak = std::max<uint64_t>(plan.peak_q16, 1);
    Cycles at = report.start;
    for (size_t i = 0; i < result.limiters.size(); ++i) {
        const LimiterChange& change = result.limiters[i];
        const bool last = i + 1 == result.limiters.size();
        const uint64_t bytes =
            (last ? result.bytes : result.limiters[i + 1].bytes_before) - change.bytes_before;
        const Cycles from = std::clamp(change.from, at, report.end);
        const Cycles to = last ? report.end : std::clamp(result.limiters[i + 1].from, from, report.end);
        add(at, from, Cause::stalled_dma_issue);
        carry.bytes += bytes << 16;
        const Cycles useful = std::min(to - from, carry.bytes / peak);
        carry.bytes -= useful * peak;
        add(from, from + useful, Cause::busy_useful);
        add(from + useful, to, stall_of(change.cause));
        at = to;
    }
    add(at, report.end, Cause::stalled_dma_issue);
    carry.bytes = std::min(carry.bytes, peak - 1);
    return pieces;
}

Pieces step_pieces(const TaskReport& report) {
    Pieces pieces;
    for (size_t i = 0; i < report.steps.size(); ++i) {
        const Cycles to = i + 1 < report.steps.size() ? report.steps[i + 1].from : report.end;
        if (report.steps[i].from < to) pieces.push_back({report.steps[i].from, to, report.steps[i].cause});
    }
    return pieces;
}

}  // namespace

Pieces execution_pieces(const TaskPlan& plan, const TaskReport& report, WorkCarry& carry) {
    switch (plan.course) {
        case TaskPlan::Course::stream:
            return stream_pieces(plan, report, carry);
        case TaskPlan::Course::steps:
            return step_pieces(report);
        case TaskPlan::Course::formula:
            break;
    }
    return formula_pieces(plan, report, carry);
}

Pieces wait_pieces(const Segment& wait, const StreamResult& transfer) {
    Pieces pieces;
    Cycles at = wait.from;
    const auto add = [&](Cycles to, Cause cause) {
        to = std::min(to, wait.to);
        if (to <= at) return;
        pieces.push_back({at, to, cause});
        at = to;
    };
    Cause cause = Cause::stalled_dma_issue;
    for (const LimiterChange& change : transfer.limiters) {
        add(change.from, cause);
        cause = stall_of(change.cause);
    }
    add(wait.to, cause);
    return pieces;
}

Cause limiter_at(const StreamResult& stream, Cycles now) {
    Cause cause = Cause::stalled_dma_issue;
    for (const LimiterChange& change : stream.limiters) {
        if (change.from > now) break;
        cause = change.cause;
    }
    return cause;
}

namespace {

Cause step_at(const TaskReport& report, Cycles now) {
    Cause cause = Cause::busy_overhead;
    for (const StepChange& change : report.steps) {
        if (change.from > now) break;
        cause = change.cause;
    }
    return cause;
}

}  // namespace

Cause executing_cause(const TaskPlan& plan, const TaskReport& report, Cycles now) {
    if (plan.moves()) return limiter_at(*report.streams.front().result, now);
    if (plan.course == TaskPlan::Course::steps) return step_at(report, now);
    const Cycles spent = now - report.start;
    if (spent < report.operand_wait) return Cause::stalled_operand_sram_access;
    if (spent < report.operand_wait + plan.fill) return Cause::busy_fill_drain;
    if (spent < report.operand_wait + plan.fill + plan.steady) return Cause::busy_useful;
    // beyond the steady state it starves while an operand has bytes to come, then drains
    for (const StreamUse& use : report.streams) {
        const StreamSide& source = use.request->source;
        const bool arriving = use.result->end == 0 || use.result->end > now;
        if (source.is_memory && arriving) return stall_of(limiter_at(*use.result, now));
    }
    return Cause::busy_fill_drain;
}

}  // namespace kpu::model
