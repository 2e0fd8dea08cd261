#include "model/fabric/fabric.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "isa/diagnostics.hpp"
#include "model/fabric/stream_state.hpp"

namespace kpu::model {

using traces::Cause;
using Kind = StreamStage::Kind;

class Fabric::Impl {
  public:
    explicit Impl(const FabricConfig& config);

    Handle open(const StreamRequest& request, Cycles now);
    Cycles advance(Cycles horizon);
    bool advance_one(Cycles horizon);
    Cycles next_time() const;
    std::vector<Handle> take_completed(Cycles now);
    StreamState& state(Handle handle) const;
    void close(Handle handle, StreamResult& result);
    ResourceStats stats(size_t resource, Cycles elapsed) const;
    void trace_to(traces::EventSink* sink, const std::vector<uint16_t>& unit_ids);
    void finish(Cycles elapsed);

    FabricConfig config;
    std::vector<ResourceInfo> resources;
    size_t open_count = 0;

  private:
    /// Where a stream's end sits: DDR behind the system link, L2 in the middle, engines behind their links.
    static constexpr int node_ddr = -2, node_l2 = -1;
    int node_of(const StreamSide& side) const;
    StreamPath path_of(const StreamRequest& request) const;
    void add_memory(const StreamSide& side, uint8_t index, StreamPath& path) const;
    uint64_t alignment_of(const StreamSide& side, uint64_t burst_bytes) const;

    /// A stage of an active stream, at its resource.
    struct Input {
        StreamState* stream;
        int stage;
        Cycles time;  ///< its next arrival is at this time if known, else not before
        bool known;
        bool revisits;  ///< the stream passes the resource twice

        void look() {
            const Cycles head = stream->head(stage);
            known = head != never_known;
            time = known ? head : stream->arrival_bound(stage);
        }
    };
    /// By (priority, unit, order of opening); of one stream the older bursts first.
    static bool precedes(const StreamState* a, const StreamState* b) {
        return std::tie(a->priority, a->unit, a->order) < std::tie(b->priority, b->unit, b->order);
    }
    using Inputs = std::vector<Input>;
    size_t inputs_index(const StreamStage& stage) const;
    Cycles least_time(const StreamStage& stage) const;
    Cycles safe_until(Cycles horizon) const;
    bool sweep(size_t resource, Cycles limit);
    template <typename Resource>
    bool sweep(Inputs& inputs, Resource& resource, Cycles limit);
    template <typename Resource>
    static void pass(Resource& resource, StreamState& stream, int k);
    void serve(StreamState& stream, int k);
    static int earliest_stage(const StreamState& stream);
    void start(StreamState* stream);
    void take_complete();

    template <typename Function>
    void each_busy_track(Function function);

    Dram dram_;
    std::vector<Sram> srams_;  ///< L2, then L1 by engine
    std::vector<Link> links_;  ///< system, then by engine
    std::vector<std::unique_ptr<StreamState>> slots_;
    std::vector<Handle> free_;
    std::vector<StreamBuffers> spare_;  ///< of closed streams
    std::vector<StreamState*> active_;  ///< not complete, in order of precedes()
    std::vector<Inputs> inputs_;        ///< DRAM, links, SRAMs
    DramRate dram_rate_;
    std::vector<Handle> finished_;  ///< complete, not taken
    Cycles first_completion_ = never;
    uint64_t opened_ = 0;
    Cycles served_until_ = 0;  ///< no stream may open before
};

namespace {

[[gnu::always_inline]] inline Cycles serve_at(Sram& sram, StreamState& stream, int k, Burst& burst) {
    const uint8_t side = stream.stages[static_cast<size_t>(k)].side;
    const bool write = side == 1;
    const uint64_t address = burst.address[side];
    const Sram::Service service = sram.serve(burst.time, address, burst.bytes, write);
    const uint64_t words = sram.words(address, burst.bytes);
    sram.words_moved[write] += words;
    stream.accesses(side) += words;
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

Fabric::Impl::Impl(const FabricConfig& c)
    : config(c), dram_((check(c), c.ddr), c.core) {
    using traces::UnitClass;
    for (uint32_t i = 0; i < config.ddr.channels; ++i) {
        resources.push_back({fmt::format("ddr{}", i), UnitClass::ddr, -1, static_cast<int>(i)});
    }
    links_.emplace_back(config.link);
    resources.push_back({"link_sys", UnitClass::link, -1, 0});
    srams_.emplace_back(config.l2);
    resources.push_back({"l2", UnitClass::l2, -1, 0});
    for (size_t k = 0; k < config.l1.size(); ++k) {
        links_.emplace_back(config.link);
        resources.push_back({fmt::format("e{}_link", k), UnitClass::link, static_cast<int>(k), 0});
        srams_.emplace_back(config.l1[k]);
        resources.push_back({fmt::format("e{}_l1", k), UnitClass::l1, static_cast<int>(k), 0});
    }
    inputs_.resize(1 + links_.size() + srams_.size());
    const DramTiming& t = config.ddr.timing;
    const uint64_t parallel = uint64_t{config.ddr.channels} * t.burst_bytes;
    dram_rate_.cycles_per_byte_q16 =
        static_cast<uint64_t>((static_cast<Wide>(t.burst_nck) * config.core.hz() << 16) /
                              (static_cast<Wide>(t.clock_hz) * parallel));
    dram_rate_.parallel_bytes = parallel;
}

int Fabric::Impl::node_of(const StreamSide& side) const {
    if (side.is_memory && side.level == Level::ddr) return node_ddr;
    if (side.is_memory && side.level == Level::l2) return node_l2;
    if (!side.is_memory && side.engine == no_engine) return node_l2;
    if (side.engine >= config.l1.size())
        throw InternalError(
            fmt::format("a stream names engine {}, but there are {}", side.engine, config.l1.size()));
    return side.engine;
}

void Fabric::Impl::add_memory(const StreamSide& side, uint8_t index, StreamPath& path) const {
    if (!side.is_memory) return;
    const int node = node_of(side);
    if (node == node_ddr)
        path.push_back({Kind::dram, index, 0, 1});
    else
        path.push_back({Kind::sram, index, static_cast<uint32_t>(node + 1), 1});
}

StreamPath Fabric::Impl::path_of(const StreamRequest& request) const {
    StreamPath path;
    add_memory(request.source, 0, path);
    const int from = node_of(request.source), to = node_of(request.destination);
    if (from != to) {
        const auto link = [&](int node) {
            path.push_back({Kind::link, 0, static_cast<uint32_t>(node + 1), 1});
        };
        if (from == node_ddr) link(-1);
        if (from >= 0) link(from);
        if (to == node_ddr) link(-1);
        if (to >= 0) link(to);
    }
    add_memory(request.destination, 1, path);
    for (StreamStage& stage : path) stage.least = least_time(stage);
    return path;
}

/// What a burst spends at a stage at least: never too much, or order would be lost.
Cycles Fabric::Impl::least_time(const StreamStage& stage) const {
    switch (stage.kind) {
        case Kind::dram:
            return dram_.channels.front().least_time();
        case Kind::link:
            return 1 + config.link.hop_latency_cycles;
        case Kind::sram:
            break;
    }
    const SramConfig& sram = stage.resource == 0 ? config.l2 : config.l1[stage.resource - 1];
    return 1 + (stage.side == 1 ? sram.write_latency_cycles : sram.read_latency_cycles);
}

/// Bursts end at multiples of this: in DRAM of the stream's burst within a channel's block, and at least of
/// the DRAM's own burst; in an SRAM of the stream's burst, and at the end of an interleave block when that is
/// longer. 1: no end at all.
uint64_t Fabric::Impl::alignment_of(const StreamSide& side, uint64_t burst_bytes) const {
    if (!side.is_memory) return 1;
    if (side.level == Level::ddr) {
        return std::max<uint64_t>(config.ddr.timing.burst_bytes,
                                  std::min<uint64_t>(burst_bytes, config.ddr.channel_interleave_bytes));
    }
    return std::max(burst_bytes, srams_[static_cast<size_t>(node_of(side) + 1)].interleave_bytes());
}

Fabric::Handle Fabric::Impl::open(const StreamRequest& request, Cycles now) {
    if (now < served_until_) throw InternalError("a stream is opened in the past of the memory system");
    StreamBuffers buffers;
    if (!spare_.empty()) {
        buffers = std::move(spare_.back());
        spare_.pop_back();
    }
    auto stream = std::make_unique<StreamState>(
        request, now, path_of(request), std::move(buffers),
        std::array<uint64_t, 2>{alignment_of(request.source, request.burst_bytes),
                                alignment_of(request.destination, request.burst_bytes)},
        dram_rate_);
    stream->order = opened_++;
    Handle handle = static_cast<Handle>(slots_.size());
    if (free_.empty()) {
        slots_.emplace_back();
    } else {
        handle = free_.back();
        free_.pop_back();
    }
    stream->handle = handle;
    slots_[handle] = std::move(stream);
    ++open_count;
    StreamState* added = slots_[handle].get();
    if (added->complete) {
        finished_.push_back(handle);
        first_completion_ = std::min(first_completion_, added->result.end);
    } else {
        start(added);
    }
    return handle;
}

StreamState& Fabric::Impl::state(Handle handle) const {
    if (handle >= slots_.size() || slots_[handle] == nullptr) throw InternalError("no such stream is open");
    return *slots_[handle];
}

void Fabric::Impl::close(Handle handle, StreamResult& result) {
    StreamState& stream = state(handle);
    if (!stream.complete || std::find(finished_.begin(), finished_.end(), handle) != finished_.end())
        throw InternalError("a stream is closed before its completion was taken");
    std::swap(result, stream.result);
    spare_.push_back(stream.take_buffers());
    slots_[handle].reset();
    free_.push_back(handle);
    --open_count;
}

std::vector<Fabric::Handle> Fabric::Impl::take_completed(Cycles now) {
    const auto key = [&](Handle h) {
        const StreamState& s = *slots_[h];
        return std::tie(s.result.end, s.priority, s.unit, s.order);
    };
    std::sort(finished_.begin(), finished_.end(), [&](Handle a, Handle b) { return key(a) < key(b); });
    const auto later = std::find_if(finished_.begin(), finished_.end(),
                                    [&](Handle h) { return slots_[h]->result.end > now; });
    std::vector<Handle> taken(finished_.begin(), later);
    finished_.erase(finished_.begin(), later);
    first_completion_ = finished_.empty() ? never : slots_[finished_.front()]->result.end;
    return taken;
}

Cycles Fabric::Impl::next_time() const {
    Cycles time = first_completion_;
    for (const StreamState* stream : active_) time = std::min(time, stream->earliest());
    return time;
}

size_t Fabric::Impl::inputs_index(const StreamStage& stage) const {
    switch (stage.kind) {
        case Kind::dram:
            return 0;
        case Kind::link:
            return 1 + stage.resource;
        case Kind::sram:
            break;
    }
    return 1 + links_.size() + stage.resource;
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
        take_complete();
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
        for (Input* input = begin; input != end; ++input) {
            if (input->time < earliest) {
                until = earliest;  // the one before wins a tie
                earliest = input->time;
                first = input;
            } else if (input->time < until) {
                until = input->time + 1;
            }
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

template <typename Function>
void Fabric::Impl::each_busy_track(Function function) {
    size_t index = 0;
    for (DdrChannel& channel : dram_.channels) function(index++, channel.busy);
    function(index++, links_[0].busy);
    function(index++, srams_[0].busy);
    for (size_t k = 1; k < links_.size(); ++k) {
        function(index++, links_[k].busy);
        function(index++, srams_[k].busy);
    }
}

ResourceStats Fabric::Impl::stats(size_t resource, Cycles elapsed) const {
    ResourceStats stats;
    const auto times = [&](const auto& busy) {
        stats.useful = busy.useful(elapsed);
        stats.overhead = busy.overhead(elapsed);
        stats.idle = elapsed - stats.useful - stats.overhead;
    };
    const ResourceInfo& info = resources.at(resource);
    const auto place = static_cast<size_t>(info.engine + 1);
    switch (info.unit_class) {
        case traces::UnitClass::ddr: {
            const DdrChannel& channel = dram_.channels[static_cast<size_t>(info.index)];
            times(channel.busy);
            stats.bytes_read = channel.bytes_read;
            stats.bytes_written = channel.bytes_written;
            stats.peak_queue = channel.queue.peak();
            stats.dram = channel.counters(elapsed);
            break;
        }
        case traces::UnitClass::link: {
            const Link& link = links_[place];
            times(link.busy);
            stats.bytes_read = link.bytes_moved;
            stats.peak_queue = link.queue.peak();
            break;
        }
        default: {
            const Sram& sram = srams_[place];
            times(sram.busy);
            stats.bytes_read = sram.bytes_moved[0];
            stats.bytes_written = sram.bytes_moved[1];
            stats.words_read = sram.words_moved[0];
            stats.words_written = sram.words_moved[1];
            stats.conflict_cycles = sram.conflict_cycles;
            stats.peak_queue = sram.queue.peak();
        }
    }
    return stats;
}

void Fabric::Impl::trace_to(traces::EventSink* sink, const std::vector<uint16_t>& unit_ids) {
    if (unit_ids.size() != resources.size()) throw InternalError("one unit id per memory resource is needed");
    each_busy_track(
        [&](size_t index, auto& busy) { busy.recorder.connect(sink, unit_ids[index], &config.core); });
}

void Fabric::Impl::finish(Cycles elapsed) {
    for (DdrChannel& channel : dram_.channels) channel.account_refreshes(elapsed);
    each_busy_track([&](size_t, auto& busy) { busy.finish(elapsed); });
}

Fabric::Fabric(const FabricConfig& config) : impl_(std::make_unique<Impl>(config)) {}
Fabric::~Fabric() = default;
Fabric::Handle Fabric::open(const StreamRequest& request, Cycles now) { return impl_->open(request, now); }
Cycles Fabric::advance(Cycles horizon) { return impl_->advance(horizon); }
bool Fabric::advance_one(Cycles horizon) { return impl_->advance_one(horizon); }
Cycles Fabric::next_time() const { return impl_->next_time(); }
std::vector<Fabric::Handle> Fabric::take_completed(Cycles now) { return impl_->take_completed(now); }
const StreamResult& Fabric::result(Handle stream) const { return impl_->state(stream).result; }
void Fabric::close(Handle stream, StreamResult& result) { impl_->close(stream, result); }
void Fabric::close(Handle stream) {
    StreamResult ignored;
    impl_->close(stream, ignored);
}
size_t Fabric::open_streams() const { return impl_->open_count; }
const std::vector<ResourceInfo>& Fabric::resources() const { return impl_->resources; }
ResourceStats Fabric::stats(size_t resource, Cycles elapsed) const { return impl_->stats(resource, elapsed); }
void Fabric::trace_to(traces::EventSink* sink, const std::vector<uint16_t>& ids) {
    impl_->trace_to(sink, ids);
}
void Fabric::finish(Cycles elapsed) { impl_->finish(elapsed); }
const FabricConfig& Fabric::config() const { return impl_->config; }

}  // namespace kpu::model
