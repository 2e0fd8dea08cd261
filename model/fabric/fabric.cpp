#include "model/fabric/fabric.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "isa/diagnostics.hpp"
#include "model/fabric/fabric_impl.hpp"

namespace kpu::model {

using Kind = StreamStage::Kind;

Fabric::Impl::Impl(const FabricConfig& c) : config(c), dram_((check(c), c.ddr), c.core) {
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
