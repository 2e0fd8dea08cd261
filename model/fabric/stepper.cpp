// Which burst is served next, and where: the part of the fabric in which a simulation spends its time.
#include <algorithm>

#include "model/fabric/fabric_impl.hpp"

namespace kpu::model {

using traces::Cause;
using Kind = StreamStage::Kind;

namespace {

[[gnu::always_inline]] inline Cycles serve_at(Sram& sram, StreamState& stream, int k, Burst& burst) {
    const uint8_t side = stream.stages[static_cast<size_t>(k)].side;
    const bool write = side == 1;
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

[[gnu::always_inline]] inline Cycles serve_at(Dram& dram, StreamState& stream, int k, Burst& burst) {
    const uint8_t side = stream.stages[static_cast<size_t>(k)].side;
    const bool write = side == 1;
    const DdrChannel::Service service = dram.serve(burst.time, burst.address[side], burst.bytes, write);
    stream.accesses(side) += service.bursts;
    stream.result.dram_activates += service.activates;
    // what one of its bursts waits, the ones behind it wait with it
    const Cycles losses = service.busy_wait + service.row_wait + service.refresh_wait;
    if (losses != 0) {
        const Cycles waits = std::min(service.done - burst.time, losses);
        stream.wait(k, waits);
        burst.lose(std::min(service.busy_wait, waits), Cause::stalled_operand_dram_bandwidth);
        burst.lose(std::min(service.row_wait, waits), Cause::stalled_operand_dram_latency);
        burst.lose(std::min(service.refresh_wait, waits), Cause::stalled_refresh);
    }
    return service.done;
}

}  // namespace

Cycles Fabric::Impl::next_time() const {
    Cycles time = first_completion_;
    for (const StreamState* stream : active_) time = std::min(time, stream->earliest());
    return time;
}

void Fabric::Impl::start(StreamState* stream) {
    active_.insert(std::upper_bound(active_.begin(), active_.end(), stream, precedes), stream);
    for (int k = stream->stage_count - 1; k >= 0; --k) {
        Inputs& inputs = inputs_[inputs_index(stream->stages[static_cast<size_t>(k)])];
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
    for (Inputs& inputs : inputs_)
        inputs.erase(std::remove_if(inputs.begin(), inputs.end(),
                                    [&](const Input& input) { return complete(input.stream); }),
                     inputs.end());
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
        for (size_t resource = 0; resource < inputs_.size(); ++resource)
            if (!inputs_[resource].empty()) progress |= sweep(resource, limit);
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
    if (resource == 0) return sweep(inputs, dram_, limit);
    if (resource <= links_.size()) return sweep(inputs, links_[resource - 1], limit);
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

/// The oracle: the earliest arrival anywhere, in order of precedes(), within a stream of the older burst.
bool Fabric::Impl::advance_one(Cycles horizon) {
    StreamState* first = nullptr;
    Cycles time = std::min(horizon, first_completion_);
    for (StreamState* stream : active_) {
        if (stream->earliest() >= time) continue;
        time = stream->earliest();
        first = stream;
    }
    if (first == nullptr) return false;
    serve(*first, earliest_stage(*first));
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
            return pass(dram_, stream, k);
    }
}

}  // namespace kpu::model
