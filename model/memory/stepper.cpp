// Which burst is served next, and where: the part of the memory system in which a simulation spends its time.
#include <algorithm>
#include <utility>

#include "base/diagnostics.hpp"
#include "model/memory/memory_system_impl.hpp"

namespace kpu::model {

using traces::Cause;
using Kind = StreamStage::Kind;

namespace {

[[gnu::always_inline]] inline Cycles serve_at(Sram& sram, StreamState& stream, int k, uint8_t side,
                                              Burst& burst) {
    const bool write = side == 1;
    if (stream.trace != nullptr) stream.record_access(burst, side);
    const Sram::Service service = sram.serve(burst.time, burst.address[side], burst.bytes, write);
    stream.accesses(side) += service.words;
    const Cycles wait = service.port_wait + service.bank_wait;
    if (wait != 0) {
        stream.result.bank_conflict_cycles += service.bank_wait;
        stream.wait(k, wait);
        burst.lose(wait, write ? Cause::stalled_backpressure : Cause::stalled_operand_bank_conflict);
    }
    return service.done;
}

[[gnu::always_inline]] inline Cycles serve_at(Link& link, StreamState& stream, int k, uint8_t /*side*/,
                                              Burst& burst) {
    const Link::Service service = link.serve(burst.time, burst.bytes);
    if (service.wait != 0) {
        stream.wait(k, service.wait);
        burst.lose(service.wait, Cause::stalled_operand_interconnect);
    }
    return service.done;
}

Cause cause_of(dram::Held held) {
    switch (held) {
        case dram::Held::bank:
            return Cause::stalled_operand_dram_bank_conflict;
        case dram::Held::turn_around:
            return Cause::stalled_operand_dram_turnaround;
        case dram::Held::imbalance:
            return Cause::stalled_operand_dram_imbalance;
        case dram::Held::bus:
            break;
    }
    return Cause::stalled_operand_dram_bandwidth;
}

/// Charges what a burst waited for a DRAM: what one of its DRAM bursts waits, the later ones wait with it.
template <typename Waits>
[[gnu::always_inline]] inline void charge(StreamState& stream, uint64_t number, Burst& burst, Cycles time,
                                          const Waits& lost) {
    const Cycles losses = lost.busy_wait + lost.row_wait + lost.refresh_wait;
    if (losses == 0) return;
    const Cycles waits = std::min(time, losses);
    stream.wait_of(number, waits);
    burst.lose(std::min(lost.busy_wait, waits), cause_of(lost.held));
    burst.lose(std::min(lost.row_wait, waits), Cause::stalled_operand_dram_latency);
    burst.lose(std::min(lost.refresh_wait, waits), Cause::stalled_refresh);
}

[[gnu::always_inline]] inline Cycles serve_at(Dram& dram, StreamState& stream, int k, uint8_t side,
                                              Burst& burst) {
    const bool write = side == 1;
    if (stream.trace != nullptr) stream.record_access(burst, side);
    const DdrChannel::Service service = dram.serve(burst.time, burst.address[side], burst.bytes, write);
    stream.accesses(side) += service.bursts;
    stream.result.dram_activates += service.activates;
    charge(stream, stream.number_at(k), burst, service.done - burst.time, service);
    return service.done;
}

}  // namespace

void MemorySystem::Impl::start(StreamState* stream) {
    stream->next = stream->first_arrival();
    active_.insert(std::upper_bound(active_.begin(), active_.end(), stream, precedes), stream);
    number_places();
    if (config.link.arbitration == Arbitration::age) return;
    for (int k = stream->stage_count - 1; k >= 0; --k) {
        const StreamStage& stage = stream->stages[k];
        if (stage.kind != Kind::link) continue;
        std::vector<LinkInput>& inputs = link_inputs_[stage.resource];
        const auto place =
            std::upper_bound(inputs.begin(), inputs.end(), stream,
                             [](const StreamState* a, const LinkInput& b) { return precedes(a, b.stream); });
        inputs.insert(place, {stream, k});
    }
}

/// Ends a stream that is complete.
void MemorySystem::Impl::end(StreamState& stream) {
    finished_.push_back(stream.handle);
    first_completion_ = std::min(first_completion_, stream.result.end);
    active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(stream.place));
    number_places();
    for (std::vector<LinkInput>& inputs : link_inputs_)
        inputs.erase(std::remove_if(inputs.begin(), inputs.end(),
                                    [&](const LinkInput& input) { return input.stream == &stream; }),
                     inputs.end());
}

void MemorySystem::Impl::number_places() {
    arrivals_.assign(active_.size(), [&](size_t place) {
        active_[place]->place = place;
        return active_[place]->next.time;
    });
}

/// Settles a stream that has moved on.
void MemorySystem::Impl::settle(StreamState& stream) {
    if (stream.complete) return end(stream);
    stream.next = stream.first_arrival();
    arrivals_.set(stream.place, stream.next.time);
}

/// Takes the next burst of stage k through its resource, and those that come before `until`.
template <typename Resource>
[[gnu::always_inline]] inline void MemorySystem::Impl::pass(Resource& resource, StreamState& stream, int k,
                                                            Cycles until) {
    const uint8_t side = stream.stages[k].side;
    do {
        Burst& burst = stream.burst_at(k);
        stream.leave(k, burst, serve_at(resource, stream, k, side, burst));
    } while (stream.head(k) < until);
}

/// Serves the next arrival of a stage, and those of that stage before `until`.
[[gnu::always_inline]] inline MemorySystem::Impl::Changed MemorySystem::Impl::serve(
    StreamState& stream, StreamState::Arrival arrival, Cycles until) {
    const int k = arrival.stage;
    const StreamStage& stage = stream.stages[k];
    switch (stage.kind) {
        case Kind::sram:
            pass(srams_[stage.resource], stream, k, until);
            return Changed::itself;
        case Kind::link:
            if (config.link.arbitration != Arbitration::age) {
                arbitrate(stream, arrival);
                return Changed::others;
            }
            pass(links_[stage.resource], stream, k, until);
            return Changed::itself;
        case Kind::dram:
            pass(*simple_, stream, k, until);
            return Changed::itself;
        case Kind::dram_request:
            enter(stream, k);
            return Changed::others;
        case Kind::dram_response:
            break;
    }
    throw InternalError("a burst leaves a DRAM controller when that says so");
}

/// Takes what comes first: answers of controllers, or arrivals of the stream whose next one it is; `single`:
/// only that one. False when nothing is left before the horizon and the first completion.
[[gnu::always_inline]] inline bool MemorySystem::Impl::turn(Cycles horizon, bool single) {
    const Cycles limit = std::min(horizon, first_completion_);
    const Cycles answer = next_answer(), time = arrivals_.time();
    if (std::min(answer, time) >= limit) return false;
    served_until_ = std::max(served_until_, std::min(answer, time));
    if (answer <= time) {
        take_answers(answer);
    } else {
        const Earliest::First first = arrivals_.first();
        advance(*active_[first.place], single ? time : std::min({first.until, limit, answer}));
    }
    return true;
}

/// Serves in order of time, so that nothing is ever served that something unknown could come before. Ties go
/// by precedes(), within a stream to the older burst. Controllers that may answer before the next arrival
/// work up to that answer first.
Cycles MemorySystem::Impl::advance(Cycles horizon) {
    while (turn(horizon, false)) continue;
    served_until_ = std::max(served_until_, std::min(horizon, next_time()));
    return first_completion_ <= horizon ? first_completion_ : never;
}

/// Serves the arrivals of a stream before `until`, the first of which is the earliest of all. Only the order
/// at each resource matters: so several at one stage may go before an earlier one at another.
void MemorySystem::Impl::advance(StreamState& stream, Cycles until) {
    const Cycles at_one_stage = stream.path->revisits ? 0 : until;
    do {
        if (serve(stream, stream.next, at_one_stage) == Changed::others) return;
        if (stream.complete) return end(stream);
        stream.next = stream.first_arrival();
    } while (stream.next.time < until);
    arrivals_.set(stream.place, stream.next.time);
}

bool MemorySystem::Impl::advance_one(Cycles horizon) { return turn(horizon, true); }

/// Called when a burst has come to a link that chooses among those that wait when it becomes free.
void MemorySystem::Impl::arbitrate(StreamState& stream, StreamState::Arrival arrival) {
    const uint32_t resource = stream.stages[arrival.stage].resource;
    Link& link = links_[resource];
    if (link.free() > arrival.time) {
        stream.postpone(arrival.stage, link.free());
        return settle(stream);
    }
    const LinkInput& granted = grant(link_inputs_[resource], link, arrival.time);
    StreamState& first = *granted.stream;
    link.last_unit = first.unit;
    pass(link, first, granted.stage, 0);
    settle(first);
}

/// Chooses which of the bursts that wait for a link at `time`, or come then, goes next. Inputs stand in order
/// of precedes().
const MemorySystem::Impl::LinkInput& MemorySystem::Impl::grant(const std::vector<LinkInput>& inputs,
                                                               const Link& link, Cycles time) const {
    const LinkInput* best = nullptr;
    const auto better = [&](const LinkInput& a, const LinkInput& b) {
        const auto age = [](const LinkInput& i) { return i.stream->burst_at(i.stage).time; };
        if (config.link.arbitration == Arbitration::priority)
            return std::pair(a.stream->priority, age(a)) < std::pair(b.stream->priority, age(b));
        // the units above the last one's, then the others
        const auto turn = [&](const LinkInput& i) {
            return static_cast<uint16_t>(i.stream->unit - link.last_unit - 1);
        };
        return std::pair(turn(a), age(a)) < std::pair(turn(b), age(b));
    };
    for (const LinkInput& input : inputs) {
        if (input.stream->head(input.stage) > time) continue;
        if (best == nullptr || better(input, *best)) best = &input;
    }
    return *best;
}

/// Lets the next burst of stage k enter its controller.
void MemorySystem::Impl::enter(StreamState& stream, int k) {
    const Burst& burst = stream.burst_at(k);
    const uint8_t side = stream.stages[k].side;
    const uint64_t address = burst.address[side];
    const uint32_t bytes = burst.bytes;
    if (stream.trace != nullptr) stream.record_access(burst, side);
    DdrRequest request;
    request.stream = &stream;
    request.stage = k + 1;
    request.arrival = burst.time;
    request.number = stream.enter(k);
    settle(stream);
    burst_->take(request, address, bytes, side == 1);
    take_answers();
}

void MemorySystem::Impl::take_answers(Cycles now) {
    while (next_answer() <= now) {
        burst_->advance(next_answer());
        take_answers();
    }
}

/// Takes what the controllers have finished.
void MemorySystem::Impl::take_answers() {
    for (const DdrAnswer& answer : burst_->answers()) {
        StreamState& stream = *answer.request.stream;
        const int k = answer.request.stage;
        stream.accesses(stream.stages[k].side) += answer.bursts;
        stream.result.dram_activates += answer.activates;
        const uint64_t number = answer.request.number;
        charge(stream, number, stream.burst_of(number), answer.done - answer.request.arrival, answer);
        stream.answer(k, answer.request.number, answer.done);
        settle(stream);
    }
    burst_->answers().clear();
}

}  // namespace kpu::model
