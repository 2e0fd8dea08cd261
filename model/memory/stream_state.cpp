#include "model/memory/stream_state.hpp"

#include <algorithm>

#include "base/diagnostics.hpp"

namespace kpu::model {

using traces::Cause;

namespace {

uint64_t power_of_two_at_least(uint64_t value) {
    return value <= 1 ? 1 : uint64_t{1} << (64 - __builtin_clzll(value - 1));
}

uint64_t total_of(const StreamRequest& request) {
    if (!request.source.is_memory && !request.destination.is_memory)
        throw InternalError("a stream needs a memory at one end at least");
    return std::max(PatternCursor::total_bytes(request.source),
                    PatternCursor::total_bytes(request.destination));
}

/// Bursts that may be outstanding. One is no longer than the shortest run of either side.
uint32_t window_of(const StreamRequest& request) {
    uint64_t piece = request.burst_bytes;
    for (const StreamSide* side : {&request.source, &request.destination})
        if (side->is_memory && side->pattern.run_bytes > 0) piece = std::min(piece, side->pattern.run_bytes);
    const uint64_t in_buffer = piece == 0 ? 0 : request.buffer_bytes / piece;
    return std::max(request.max_outstanding,
                    static_cast<uint32_t>(std::min<uint64_t>(in_buffer, max_buffered)));
}

}  // namespace

void StreamPath::add(StreamStage stage) {
    using Kind = StreamStage::Kind;
    links += stage.kind == Kind::link ? 1 : 0;
    uses_dram |= stage.kind == Kind::dram || stage.kind == Kind::dram_request;
    for (const StreamStage& other : stages)
        revisits |= other.kind == stage.kind && other.resource == stage.resource;
    stages.push_back(stage);
}

StreamState::StreamState(const StreamRequest& request, Cycles now, const StreamPath& its_path,
                         StreamBuffers buffers, std::array<uint64_t, 2> align_bytes, uint32_t link_queue)
    : path(&its_path),
      stages(its_path.stages.data()),
      stage_count(static_cast<int>(its_path.stages.size())),
      priority(request.priority),
      unit(request.unit),
      cursor_{PatternCursor(request.source, align_bytes[0]),
              PatternCursor(request.destination, align_bytes[1])},
      memory_{bus_address(request.source.level, request.source.engine, 0),
              bus_address(request.destination.level, request.destination.engine, 0)},
      task_(request.task),
      op_(request.op),
      burst_bytes_(request.burst_bytes),
      port_bytes_per_cycle_(request.port_bytes_per_cycle),
      window_(window_of(request)),
      descriptor_cycles_(request.descriptor_cycles),
      row_cycles_(request.row_cycles),
      pace_offset_(request.pace_offset),
      pace_cycles_(request.pace_cycles),
      paced_(request.pace_cycles > 0 || request.pace_offset > 0),
      total_bytes_(total_of(request)),
      left_bytes_(total_bytes_),
      queue_(link_queue),
      last_in_(link_queue == 0 ? 0 : its_path.stages.size(), 0),
      left_(link_queue * its_path.stages.size(), 0),
      ring_(std::move(buffers.ring)),
      issue_free_(now + request.descriptor_cycles),
      last_delivery_(now + request.descriptor_cycles) {
    if (burst_bytes_ == 0 || port_bytes_per_cycle_ == 0 || window_ == 0)
        throw InternalError("a stream needs burst_bytes, port_bytes_per_cycle and max_outstanding above 0");
    if (window_ > max_window) throw InternalError("a stream has too many outstanding bursts");
    if (stage_count == 0) throw InternalError("a stream has no path");
    result.links = path->links;
    if (path->uses_dram)
        latency_cause_ = Cause::stalled_operand_dram_latency;
    else if (path->links > 0)
        latency_cause_ = Cause::stalled_operand_interconnect;
    // without a link a burst that does not fill the port passes the SRAM's in a cycle all the same
    short_bytes_ = path->links == 0 && !path->uses_dram ? port_bytes_per_cycle_ : 0;
    const uint64_t slots = power_of_two_at_least(std::min<uint64_t>(window_, total_bytes_));
    if (ring_.size() < slots) ring_.resize(slots);
    mask_ = slots - 1;
    result.start = now;
    result.limiters = std::move(buffers.limiters);
    result.limiters.clear();
    for (size_t k = 0; k < its_path.stages.size(); ++k) {
        heads_[k] = never;
        next_[k] = last_out_[k] = 0;
    }
    limit(now, descriptor_cycles_ > 0 ? Cause::stalled_dma_issue
               : paced_               ? Cause::busy_useful
                                      : latency_cause_);
    if (left_bytes_ == 0) {
        complete = true;
        result.end = now + std::max<Cycles>(1, descriptor_cycles_);
        return;
    }
    issue_next();
}

void StreamState::record_access(const Burst& burst, uint8_t side) const {
    traces::Event event;
    event.kind = traces::EventKind::access;
    event.time_ps = trace->core->edge(burst.time);
    event.unit = unit;
    event.task = task_;
    event.op = op_;
    event.value = static_cast<int64_t>(memory_[side] | burst.address[side]);
    event.cause = side;
    event.reserved = burst.bytes;
    trace->sink->record(event);
}

StreamBuffers StreamState::take_buffers() { return {std::move(ring_), std::move(result.limiters)}; }

void StreamState::set_step(uint32_t bytes) {
    step_bytes_ = bytes;
    port_cycles_ = (bytes + port_bytes_per_cycle_ - 1) / port_bytes_per_cycle_;
    if (!paced_) return;
    const auto scaled = static_cast<Wide>(bytes) * pace_cycles_;
    step_quotient_ = static_cast<uint64_t>(scaled / total_bytes_);
    step_remainder_ = static_cast<uint64_t>(scaled % total_bytes_);
}

}  // namespace kpu::model
