#include "model/fabric/stream_state.hpp"

#include <algorithm>

#include "isa/diagnostics.hpp"

namespace kpu::model {

using traces::Cause;

namespace {

constexpr Cycles never_issued = ~Cycles{0};

__extension__ typedef unsigned __int128 Wide;

uint64_t power_of_two_at_least(uint64_t value) {
    uint64_t power = 1;
    while (power < value) power *= 2;
    return power;
}

uint64_t total_of(const StreamRequest& request) {
    if (!request.source.is_memory && !request.destination.is_memory)
        throw InternalError("a stream needs a memory at one end at least");
    return std::max(PatternCursor::total_bytes(request.source),
                    PatternCursor::total_bytes(request.destination));
}

}  // namespace

StreamState::StreamState(const StreamRequest& request, Cycles now, const std::vector<StreamStage>& path,
                         std::array<uint64_t, 2> align_bytes)
    : stage_count(static_cast<int>(path.size())),
      priority(request.priority),
      unit(request.unit),
      cursor_{PatternCursor(request.source, align_bytes[0]),
              PatternCursor(request.destination, align_bytes[1])},
      burst_bytes_(request.burst_bytes),
      port_bytes_per_cycle_(request.port_bytes_per_cycle),
      window_(request.max_outstanding),
      descriptor_cycles_(request.descriptor_cycles),
      row_cycles_(request.row_cycles),
      pace_offset_(request.pace_offset),
      pace_cycles_(request.pace_cycles),
      paced_(request.pace_cycles > 0 || request.pace_offset > 0),
      total_bytes_(total_of(request)),
      left_bytes_(total_bytes_),
      issue_free_(now + request.descriptor_cycles),
      last_delivery_(now + request.descriptor_cycles) {
    if (burst_bytes_ == 0 || port_bytes_per_cycle_ == 0 || window_ == 0)
        throw InternalError("a stream needs burst_bytes, port_bytes_per_cycle and max_outstanding above 0");
    if (window_ > max_window) throw InternalError("a stream has too many outstanding bursts");
    if (path.empty() || path.size() > max_stages) throw InternalError("a stream has no path");
    std::copy(path.begin(), path.end(), stages.begin());
    for (int k = 0; k < stage_count; ++k) {
        uses_dram |= stages[k].kind == StreamStage::Kind::dram;
        for (int j = 0; j < k; ++j)
            revisits |= stages[j].kind == stages[k].kind && stages[j].resource == stages[k].resource;
    }
    const uint64_t slots = power_of_two_at_least(std::min<uint64_t>(window_, total_bytes_));
    ring_.resize(slots);
    mask_ = slots - 1;
    result.start = now;
    heads_.fill(never_issued);
    limit(now, descriptor_cycles_ > 0 ? Cause::stalled_dma_issue
               : paced_               ? Cause::busy_useful
                                      : latency_cause());
    if (left_bytes_ == 0) {
        complete = true;
        result.end = now + std::max<Cycles>(1, descriptor_cycles_);
        next_time = ~Cycles{0};
        return;
    }
    prepare_issue();
    next_time = earliest();
}

traces::Cause StreamState::latency_cause() const {
    return uses_dram ? Cause::stalled_operand_dram_latency : Cause::stalled_operand_interconnect;
}

/// When the pace issues the burst that begins at the bytes issued so far; then moves on by the step.
Cycles StreamState::take_pace() {
    const Cycles time = result.start + pace_offset_ + pace_quotient_;
    if (pace_cycles_ == 0) return time;
    pace_quotient_ += step_quotient_;
    pace_remainder_ += step_remainder_;
    if (pace_remainder_ >= total_bytes_) {
        pace_remainder_ -= total_bytes_;
        ++pace_quotient_;
    }
    return time;
}

/// Computes the time of the next issue as soon as it is known: the window must have room.
void StreamState::prepare_issue() {
    heads_[0] = never_issued;
    const uint64_t index = next_[0];
    if (left_bytes_ == 0) return;
    const bool windowed = index >= window_;
    if (windowed && next_[stage_count - 1] <= index - window_) return;
    const Cycles window_free = windowed ? at(index - window_).time : 0;

    const bool row = cursor_[0].at_run_start() || cursor_[1].at_run_start();
    uint64_t n = std::min<uint64_t>(burst_bytes_, left_bytes_);
    n = cursor_[1].piece(cursor_[0].piece(n));
    const auto bytes = static_cast<uint32_t>(n);
    if (bytes != step_bytes_) {
        step_bytes_ = bytes;
        port_cycles_ = (bytes + port_bytes_per_cycle_ - 1) / port_bytes_per_cycle_;
        const auto scaled = static_cast<Wide>(bytes) * pace_cycles_;
        step_quotient_ = static_cast<uint64_t>(scaled / total_bytes_);
        step_remainder_ = static_cast<uint64_t>(scaled % total_bytes_);
    }

    Burst& burst = at(index);
    burst.address = {cursor_[0].address(), cursor_[1].address()};
    burst.bytes = bytes;
    burst.waits = 0;
    burst.worst = 0;
    burst.cause = Cause::stalled_operand_interconnect;
    Cycles time = issue_free_;
    if (row && row_cycles_ > 0) {
        time += row_cycles_;
        burst.lose(row_cycles_, Cause::stalled_dma_issue);
    }
    burst.pace_time = take_pace();
    time = std::max(time, burst.pace_time);
    if (window_free > time) {
        burst.lose(window_free - time, latency_cause());
        time = window_free;
    }
    heads_[0] = burst.time = burst.issue_time = time;
    cursor_[0].advance(n);
    cursor_[1].advance(n);
    left_bytes_ -= n;
    // a port wider than a burst issues several of them in a cycle
    port_used_ = time == port_cycle_ ? port_used_ + bytes : bytes;
    port_cycle_ = time;
    issue_free_ = port_used_ + burst_bytes_ <= port_bytes_per_cycle_ ? time : time + port_cycles_;
}

bool StreamState::served(int k, Cycles done) {
    Burst& burst = burst_at(k);
    burst.time = last_out_[k] = std::max(done, last_out_[k]);  // bursts of a stream stay in order
    const bool first = next_[k]++ == 0;
    if (k > 0) heads_[k] = next_[k] < next_[k - 1] ? at(next_[k]).time : never_issued;
    const bool last_stage = k == stage_count - 1;
    if (last_stage)
        deliver(burst, first);
    else if (next_[k + 1] + 1 == next_[k])
        heads_[k + 1] = burst.time;
    if (k == 0 || (last_stage && heads_[0] == never_issued)) prepare_issue();
    if (last_stage && left_bytes_ == 0 && heads_[0] == never_issued && next_[k] == next_[0]) {
        complete = true;
        result.end = last_delivery_;
    }
    return complete;
}

/// Decides what the time up to this delivery was lost to.
void StreamState::deliver(const Burst& burst, bool first) {
    const Cycles from = last_delivery_, until = burst.time;
    if (!paced_) {
        const Cause cause = burst.worst == 0 && first ? latency_cause() : burst.cause;
        if (until > from) limit(from, cause);
    } else {
        // A paced stream lost what its delivery is later than ever before; the first burst's transit is no
        // loss.
        const Cycles lateness = until - burst.pace_time;
        if (first) max_lateness_ = until - burst.issue_time - burst.waits;
        const Cycles lost = lateness > max_lateness_ ? std::min(lateness - max_lateness_, until - from) : 0;
        if (until - lost > from) limit(from, Cause::busy_useful);
        if (lost > 0) limit(until - lost, burst.cause);
        max_lateness_ = std::max(max_lateness_, lateness);
    }
    last_delivery_ = until;
    result.bytes += burst.bytes;
}

void StreamState::limit(Cycles from, Cause cause) {
    std::vector<LimiterChange>& list = result.limiters;
    if (!list.empty() && list.back().from == from) list.pop_back();
    if (list.empty() || list.back().cause != cause) list.push_back({from, cause, result.bytes});
}

}  // namespace kpu::model
