// Which burst is served next, and where: the part of the fabric in which a simulation spends its time.
#include <algorithm>
#include <utility>

#include "isa/diagnostics.hpp"
#include "model/fabric/fabric_impl.hpp"

namespace kpu::model {

using traces::Cause;
using Kind = StreamStage::Kind;

namespace {

[[gnu::always_inline]] inline Cycles serve_at(Sram& sram, StreamState& stream, int k, Burst& burst) {
    const uint8_t side = stream.stages[static_cast<size_t>(k)].side;
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

[[gnu::always_inline]] inline Cycles serve_at(Link& link, StreamState& stream, int k, Burst& burst) {
    const Link::Service service = link.serve(burst.time, burst.bytes);
    if (service.wait != 0) {
        stream.wait(k, service.wait);
        burst.lose(service.wait, Cause::stalled_operand_interconnect);
    }
    return service.done;
}

/// Charges what a burst waited for a DRAM: what one of its DRAM bursts waits, the ones behind it wait with
/// it.
template <typename Waits>
[[gnu::always_inline]] inline void charge(StreamState& stream, uint64_t number, Burst& burst, Cycles time,
                                          const Waits& lost) {
    const Cycles losses = lost.busy_wait + lost.row_wait + lost.refresh_wait;
    if (losses == 0) return;
    const Cycles waits = std::min(time, losses);
    stream.wait_of(number, waits);
    burst.lose(std::min(lost.busy_wait, waits), Cause::stalled_operand_dram_bandwidth);
    burst.lose(std::min(lost.row_wait, waits), Cause::stalled_operand_dram_latency);
    burst.lose(std::min(lost.refresh_wait, waits), Cause::stalled_refresh);
}

[[gnu::always_inline]] inline Cycles serve_at(Dram& dram, StreamState& stream, int k, Burst& burst) {
    const uint8_t side = stream.stages[static_cast<size_t>(k)].side;
    const bool write = side == 1;
    if (stream.trace != nullptr) stream.record_access(burst, side);
    const DdrChannel::Service service = dram.serve(burst.time, burst.address[side], burst.bytes, write);
    stream.accesses(side) += service.bursts;
    stream.result.dram_activates += service.activates;
    charge(stream, stream.number_at(k), burst, service.done - burst.time, service);
    return service.done;
}

}  // namespace

Cycles Fabric::Impl::next_time() const {
    Cycles time = std::min(first_completion_, next_answer());
    for (const StreamState* stream : active_) time = std::min(time, stream->earliest());
    return time;
}

void Fabric::Impl::start(StreamState* stream) {
    active_.insert(std::upper_bound(active_.begin(), active_.end(), stream, precedes), stream);
    for (int k = stream->stage_count - 1; k >= 0; --k) {
        if (stream->stages[static_cast<size_t>(k)].kind == Kind::dram_response) continue;
        const size_t resource = inputs_index(stream->stages[static_cast<size_t>(k)]);
        Inputs& inputs = inputs_[resource];
        if (inputs.empty())
            in_use_.insert(std::upper_bound(in_use_.begin(), in_use_.end(), resource), resource);
        const auto place =
            std::upper_bound(inputs.begin(), inputs.end(), stream,
                             [](const StreamState* a, const Input& b) { return precedes(a, b.stream); });
        inputs.insert(place, {stream, k, 0, false, stream->revisits});
    }
}

/// Moves complete streams from the active to the finished ones.
void Fabric::Impl::take_complete() {
    const auto complete = [](const StreamState* stream) { return stream->complete; };
    const auto first = std::find_if(active_.begin(), active_.end(), complete);
    if (first == active_.end()) return;
    for (auto it = first; it != active_.end(); ++it) {
        if (!(*it)->complete) continue;
        finished_.push_back((*it)->handle);
        first_completion_ = std::min(first_completion_, (*it)->result.end);
    }
    for (const size_t resource : in_use_) {
        Inputs& inputs = inputs_[resource];
        inputs.erase(std::remove_if(inputs.begin(), inputs.end(),
                                    [&](const Input& input) { return complete(input.stream); }),
                     inputs.end());
    }
    in_use_.erase(std::remove_if(in_use_.begin(), in_use_.end(),
                                 [&](size_t resource) { return inputs_[resource].empty(); }),
                  in_use_.end());
    active_.erase(std::remove_if(first, active_.end(), complete), active_.end());
}

/// Arrivals before this can be served: neither the horizon nor a completion comes earlier.
Cycles Fabric::Impl::safe_until(Cycles horizon) const {
    Cycles time = std::min(horizon, first_completion_);
    for (const StreamState* stream : active_) time = std::min(time, stream->completion_bound());
    return time;
}

/// Resource by resource, each as far as its arrivals are known: their order at each resource is all that
/// matters. The earliest arrival of all can always be served, so the loop ends when none is left.
Cycles Fabric::Impl::advance(Cycles horizon) {
    for (bool progress = true; progress;) {
        const Cycles limit = safe_until(horizon);
        progress = false;
        for (const size_t resource : in_use_) progress |= sweep(resource, limit);
        if (progress) take_complete();
    }
    served_until_ = std::max(served_until_, std::min(horizon, next_time()));
    return first_completion_ <= horizon ? first_completion_ : never;
}

/// Takes the next burst of stage k through its resource.
template <typename Resource>
[[gnu::always_inline]] inline void Fabric::Impl::pass(Resource& resource, StreamState& stream, int k) {
    Burst& burst = stream.burst_at(k);
    stream.leave(k, burst, serve_at(resource, stream, k, burst));
}

bool Fabric::Impl::sweep(size_t resource, Cycles limit) {
    Inputs& inputs = inputs_[resource];
    if (resource == 0) return simple_ ? sweep(inputs, *simple_, limit) : sweep_controllers(inputs, limit);
    if (resource <= links_.size()) {
        Link& link = links_[resource - 1];
        return config.link.arbitration == Arbitration::age ? sweep(inputs, link, limit)
                                                           : sweep_arbitrated(inputs, link, limit);
    }
    return sweep(inputs, srams_[resource - 1 - links_.size()], limit);
}

/// Serves the arrivals at one resource before `limit`, in order, until one may come first that is not known
/// yet. True when there were any.
template <typename Resource>
bool Fabric::Impl::sweep(Inputs& inputs, Resource& resource, Cycles limit) {
    Input* const begin = inputs.data();
    Input* const end = begin + inputs.size();
    for (Input* input = begin; input != end; ++input) input->look();
    bool progress = false;
    for (;;) {
        Input* first = nullptr;
        Cycles earliest = limit, until = limit;  // `first` has it all to itself before `until`
        for (Input* input = begin; input != end;
             ++input) {  // without branches: who is first is hard to predict
            const Cycles time = input->time;
            const bool earlier = time < earliest;  // the one before wins a tie
            const Cycles after = time < until ? time + 1 : until;
            until = earlier ? earliest : after;
            first = earlier ? input : first;
            earliest = earlier ? time : earliest;
        }
        if (first == nullptr || !first->known) return progress;
        progress = true;
        StreamState& stream = *first->stream;
        const int stage = first->stage;
        if (first->revisits) {  // a visit changes what is known of the other one
            pass(resource, stream, stage);
            for (Input* input = begin; input != end; ++input)
                if (input->stream == &stream) input->look();
        } else {
            do pass(resource, stream, stage);
            while (stream.head(stage) < until);
            first->look();
        }
    }
}

/// Which of the bursts that wait for a link at `time`, or come then, goes next. Inputs stand in order of
/// precedes().
const Fabric::Impl::Input* Fabric::Impl::grant(const Inputs& inputs, const Link& link, Cycles time) const {
    const Input* best = nullptr;
    const auto better = [&](const Input& a, const Input& b) {
        const auto age = [](const Input& i) { return i.stream->burst_at(i.stage).time; };
        if (config.link.arbitration == Arbitration::priority)
            return std::pair(a.stream->priority, age(a)) < std::pair(b.stream->priority, age(b));
        // the units above the last one's, then the others
        const auto turn = [&](const Input& i) {
            return static_cast<uint16_t>(i.stream->unit - link.last_unit - 1);
        };
        return std::pair(turn(a), age(a)) < std::pair(turn(b), age(b));
    };
    for (const Input& input : inputs) {
        if (input.stream->head(input.stage) > time) continue;
        if (best == nullptr || better(input, *best)) best = &input;
    }
    return best;
}

/// As sweep(), for a link that chooses among the bursts that wait when it becomes free.
bool Fabric::Impl::sweep_arbitrated(Inputs& inputs, Link& link, Cycles limit) {
    bool progress = false;
    for (;;) {
        Cycles first = never;
        for (const Input& input : inputs) first = std::min(first, input.stream->head(input.stage));
        if (first == never) return progress;
        const Cycles time = std::max(first, link.free());
        for (Input& input : inputs) {
            progress |= input.stream->postpone(input.stage, link.free());
            input.look();
        }
        for (const Input& input : inputs)
            if (!input.known && input.time <= time) return progress;  // may come in time
        if (time >= limit) return progress;
        const Input* granted = grant(inputs, link, time);
        link.last_unit = granted->stream->unit;
        pass(link, *granted->stream, granted->stage);
        progress = true;
    }
}

/// The controllers take the arrivals before `limit`, in order, then work up to the first time at which
/// something may arrive that is not known yet.
bool Fabric::Impl::sweep_controllers(Inputs& inputs, Cycles limit) {
    bool progress = false;
    for (;;) {
        for (Input& input : inputs) input.look();
        const Input* first = nullptr;
        Cycles earliest = limit, until = limit;  // as in sweep()
        for (const Input& input : inputs) {
            if (input.time < earliest) {
                until = earliest;
                earliest = input.time;
                first = &input;
            } else if (input.time < until) {
                until = input.time + 1;
            }
        }
        if (first == nullptr || !first->known) {
            if (!burst_->advance(earliest)) return progress;
            take_answers();
            return true;
        }
        progress = true;
        do enter(*first->stream, first->stage);
        while (!first->revisits && first->stream->head(first->stage) < until);
        take_answers();
    }
}

/// The next burst of stage k enters its controller.
void Fabric::Impl::enter(StreamState& stream, int k) {
    const Burst& burst = stream.burst_at(k);
    const uint8_t side = stream.stages[static_cast<size_t>(k)].side;
    const uint64_t address = burst.address[side];
    const uint32_t bytes = burst.bytes;
    if (stream.trace != nullptr) stream.record_access(burst, side);
    DdrRequest request;
    request.stream = &stream;
    request.stage = k + 1;
    request.arrival = burst.time;
    request.number = stream.enter(k);
    burst_->take(request, address, bytes, side == 1);
}

/// What the controllers have finished leaves them.
void Fabric::Impl::take_answers() {
    for (const DdrAnswer& answer : burst_->answers()) {
        StreamState& stream = *answer.request.stream;
        const int k = answer.request.stage;
        stream.accesses(stream.stages[static_cast<size_t>(k)].side) += answer.bursts;
        stream.result.dram_activates += answer.activates;
        const uint64_t number = answer.request.number;
        charge(stream, number, stream.burst_of(number), answer.done - answer.request.arrival, answer);
        stream.answer(k, answer.request.number, answer.done);
    }
    burst_->answers().clear();
}

/// The oracle: the earliest arrival anywhere, in order of precedes(), within a stream of the older burst.
/// Controllers work only up to what they may answer next.
bool Fabric::Impl::advance_one(Cycles horizon) {
    StreamState* first = nullptr;
    Cycles time = std::min(horizon, first_completion_);
    for (StreamState* stream : active_) {
        if (stream->earliest() >= time) continue;
        time = stream->earliest();
        first = stream;
    }
    if (next_answer() <= time && next_answer() < std::min(horizon, first_completion_)) {
        served_until_ = std::max(served_until_, next_answer());
        burst_->advance(next_answer());
        take_answers();
        take_complete();
        return true;
    }
    if (first == nullptr) return false;
    int stage = earliest_stage(*first);
    const StreamStage& at = first->stages[static_cast<size_t>(stage)];
    if (at.kind == Kind::link && config.link.arbitration != Arbitration::age) {
        Link& link = links_[at.resource];
        if (link.free() > time) {
            first->postpone(stage, link.free());
            return true;
        }
        const Input* granted = grant(inputs_[inputs_index(at)], link, time);
        first = granted->stream;
        stage = granted->stage;
        link.last_unit = first->unit;
    }
    serve(*first, stage);
    served_until_ = std::max(served_until_, time);
    take_complete();
    return true;
}

/// Among the stages with the earliest arrival the last: the older burst.
int Fabric::Impl::earliest_stage(const StreamState& stream) {
    int best = 0;
    for (int k = 1; k < stream.stage_count; ++k)
        if (stream.head(k) <= stream.head(best)) best = k;
    return best;
}

void Fabric::Impl::serve(StreamState& stream, int k) {
    const StreamStage& stage = stream.stages[static_cast<size_t>(k)];
    switch (stage.kind) {
        case Kind::sram:
            return pass(srams_[stage.resource], stream, k);
        case Kind::link:
            return pass(links_[stage.resource], stream, k);
        case Kind::dram:
            return pass(*simple_, stream, k);
        case Kind::dram_request:
            enter(stream, k);
            return take_answers();
        case Kind::dram_response:
            throw InternalError("a burst leaves a DRAM controller when that says so");
    }
}

}  // namespace kpu::model
