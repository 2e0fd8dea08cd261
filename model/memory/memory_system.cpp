#include "model/memory/memory_system.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/diagnostics.hpp"
#include "model/memory/memory_system_impl.hpp"

namespace kpu::model {

using Kind = StreamStage::Kind;

MemorySystem::Impl::Impl(const MemoryConfig& c) : config(c) {
    check(config);
    if (config.ddr.controller) {
        burst_ = std::make_unique<DdrControllers>(config.ddr, config.core);
        dram_ = burst_.get();
    } else {
        simple_ = std::make_unique<Dram>(config.ddr, config.core);
        dram_ = simple_.get();
    }
    for (uint32_t i = 0; i < config.ddr.channels; ++i) {
        resources.push_back({fmt::format("ddr{}", i), UnitKind::ddr, -1, static_cast<int>(i), i});
    }
    add_link("link_sys", -1);
    srams_.emplace_back(config.l2, config.core, config.sram_clock);
    resource_of_sram_.push_back(resources.size());
    resources.push_back({"l2", UnitKind::l2, -1, 0, 0});
    for (size_t k = 0; k < config.l1.size(); ++k) {
        const int engine = static_cast<int>(k);
        if (config.topology == Topology::crossbar) add_link(fmt::format("e{}_link", k), engine);
        srams_.emplace_back(config.l1[k], config.core, config.sram_clock);
        resource_of_sram_.push_back(resources.size());
        resources.push_back({fmt::format("e{}_l1", k), UnitKind::l1, engine, 0, k + 1});
    }
    build_links();
    if (config.link.arbitration != Arbitration::age) link_inputs_.resize(links_.size());
}

void MemorySystem::Impl::add_link(const std::string& name, int engine) {
    resource_of_link_.push_back(resources.size());
    resources.push_back({name, UnitKind::link, engine, 0, links_.size()});
    links_.emplace_back(config.link_at(links_.size()), config.core, config.link_clock);
}

/// Adds a link between two nodes of a ring or mesh, both directions together.
void MemorySystem::Impl::join(unsigned a, unsigned b) {
    link_between_[{std::min(a, b), std::max(a, b)}] = static_cast<uint32_t>(links_.size());
    add_link(fmt::format("link_n{}_n{}", std::min(a, b), std::max(a, b)), -1);
    resources.back().index = static_cast<int>(link_between_.size() - 1);
}

void MemorySystem::Impl::build_links() {
    const unsigned nodes = node_count();
    if (config.topology == Topology::ring) {
        for (unsigned n = 0; n + 1 < nodes; ++n) join(n, n + 1);
        if (nodes > 2) join(0, nodes - 1);
    }
    if (config.topology != Topology::mesh) return;
    while (mesh_columns_ * mesh_columns_ < nodes) ++mesh_columns_;
    for (unsigned n = 0; n < nodes; ++n) {
        if ((n + 1) % mesh_columns_ != 0 && n + 1 < nodes) join(n, n + 1);
        if (n + mesh_columns_ < nodes) join(n, n + mesh_columns_);
    }
}

/// Returns the next node. Ring: the shorter way round, upwards where both are equal. Mesh: along the row,
/// then along the column; a node of the last row, which may be short, goes along its column first.
unsigned MemorySystem::Impl::next_node(unsigned at, unsigned to) const {
    const unsigned nodes = node_count();
    if (config.topology == Topology::ring) {
        const unsigned up = (to + nodes - at) % nodes;
        return up <= nodes - up ? (at + 1) % nodes : (at + nodes - 1) % nodes;
    }
    const unsigned column = at % mesh_columns_, target = to % mesh_columns_;
    const bool in_last_row = at / mesh_columns_ == (nodes - 1) / mesh_columns_;
    if (column == target || (in_last_row && at / mesh_columns_ != to / mesh_columns_))
        return at < to ? at + mesh_columns_ : at - mesh_columns_;
    return column < target ? at + 1 : at - 1;
}

/// Adds the links between two nodes of the interconnect; -1 is L2.
void MemorySystem::Impl::add_hops(int from, int to, StreamPath& path) const {
    const auto link = [&](uint32_t index) { path.add({Kind::link, 0, index}); };
    if (config.topology == Topology::crossbar) {
        for (const int node : {from, to})
            if (node >= 0) link(static_cast<uint32_t>(node + 1));
        return;
    }
    const auto last = static_cast<unsigned>(to + 1);
    for (auto at = static_cast<unsigned>(from + 1); at != last;) {
        const unsigned next = next_node(at, last);
        link(link_between_.at({std::min(at, next), std::max(at, next)}));
        at = next;
    }
}

std::vector<RouteHop> MemorySystem::Impl::route(const StreamRequest& request) const {
    std::vector<RouteHop> hops;
    for (const StreamStage& stage : new_path(request).stages) {
        if (stage.kind == Kind::dram_response) continue;
        const Cycles moving = stage.kind == Kind::dram ? dram_burst_cycles() : 1;
        const Cycles least = least_time(stage), latency = least > moving ? least - moving : 0;
        if (stage.kind == Kind::link)
            hops.push_back({resource_of_link_[stage.resource], latency});
        else if (stage.kind == Kind::sram)
            hops.push_back({resource_of_sram_[stage.resource], latency});
        else
            hops.push_back({0, latency});
    }
    return hops;
}

/// Returns the bus time of one DRAM burst, rounded up.
Cycles MemorySystem::Impl::dram_burst_cycles() const {
    const DramTiming& t = config.ddr.timing;
    return static_cast<Cycles>((static_cast<Wide>(t.burst_nck) * config.core.hz() + t.clock_hz - 1) /
                               t.clock_hz);
}

void MemorySystem::Impl::add_resources(Handle handle, std::vector<size_t>& indices) {
    const StreamState& stream = state(handle);
    const auto begin = static_cast<std::ptrdiff_t>(indices.size());
    for (int k = 0; k < stream.stage_count; ++k) {
        const StreamStage& stage = stream.stages[k];
        if (stage.kind != Kind::link && stage.kind != Kind::sram) continue;
        const size_t index =
            (stage.kind == Kind::link ? resource_of_link_ : resource_of_sram_)[stage.resource];
        if (std::find(indices.begin() + begin, indices.end(), index) == indices.end())
            indices.push_back(index);
    }
}

int MemorySystem::Impl::node_of(const StreamSide& side) const {
    if (side.is_memory && side.level == Level::ddr) return node_ddr;
    if (side.is_memory && side.level == Level::l2) return node_l2;
    if (!side.is_memory && side.engine == no_engine) return node_l2;
    if (side.engine >= config.l1.size())
        throw InternalError(
            fmt::format("a stream names engine {}, but there are {}", side.engine, config.l1.size()));
    return side.engine;
}

void MemorySystem::Impl::add_memory(const StreamSide& side, uint8_t index, StreamPath& path) const {
    if (!side.is_memory) return;
    const int node = node_of(side);
    if (node != node_ddr) {
        path.add({Kind::sram, index, static_cast<uint32_t>(node + 1)});
    } else if (simple_) {
        path.add({Kind::dram, index, 0});
    } else {
        path.add({Kind::dram_request, index, 0});
        path.add({Kind::dram_response, index, 0});
    }
}

StreamPath MemorySystem::Impl::new_path(const StreamRequest& request) const {
    StreamPath path;
    add_memory(request.source, 0, path);
    const int from = node_of(request.source), to = node_of(request.destination);
    if (from != to) {
        if (from == node_ddr) path.add({Kind::link, 0, 0});
        add_hops(std::max(from, node_l2), std::max(to, node_l2), path);
        if (to == node_ddr) path.add({Kind::link, 0, 0});
    }
    add_memory(request.destination, 1, path);
    return path;
}

const StreamPath& MemorySystem::Impl::path_of(const StreamRequest& request) {
    const auto end = [this](const StreamSide& side) {
        return 2 * static_cast<uint64_t>(node_of(side) - node_ddr) + (side.is_memory ? 1 : 0);
    };
    const uint64_t ends = end(request.source) << 32 | end(request.destination);
    const auto found = paths_.find(ends);
    return found != paths_.end() ? found->second : paths_.emplace(ends, new_path(request)).first->second;
}

/// Returns the least time that a burst spends at a stage.
Cycles MemorySystem::Impl::least_time(const StreamStage& stage) const {
    switch (stage.kind) {
        case Kind::dram:
        case Kind::dram_request:
            return dram_->least_time();
        case Kind::dram_response:
            return 0;
        case Kind::link:
            return links_[stage.resource].least_time();
        case Kind::sram:
            break;
    }
    return srams_[stage.resource].least_time(stage.side == 1);
}

/// Bursts end at multiples of this: in DRAM of the stream's burst within a channel's block, and at least of
/// the DRAM's own burst; in an SRAM of the stream's burst, and at the end of an interleave block when that is
/// longer. 1: no end at all.
uint64_t MemorySystem::Impl::alignment_of(const StreamSide& side, uint64_t burst_bytes) const {
    if (!side.is_memory) return 1;
    if (side.level == Level::ddr) {
        return std::max<uint64_t>(config.ddr.timing.burst_bytes,
                                  std::min<uint64_t>(burst_bytes, config.ddr.channel_interleave_bytes));
    }
    return std::max(burst_bytes, srams_[static_cast<size_t>(node_of(side)) + 1].interleave_bytes());
}

MemorySystem::Handle MemorySystem::Impl::open(const StreamRequest& request, Cycles now) {
    if (now < served_until_) throw InternalError("a stream is opened in the past of the memory system");
    StreamBuffers buffers;
    if (!spare_.empty()) {
        buffers = std::move(spare_.back());
        spare_.pop_back();
    }
    const Handle handle = slots_.take();
    StreamState& stream = slots_[handle].emplace(
        request, now, path_of(request), std::move(buffers),
        std::array<uint64_t, 2>{alignment_of(request.source, request.burst_bytes),
                                alignment_of(request.destination, request.burst_bytes)},
        config.link.queue_bursts);
    stream.order = opened_++;
    if (access_trace_.sink != nullptr) stream.trace = &access_trace_;
    stream.handle = handle;
    ++open_count;
    if (stream.complete) {
        finished_.push_back(handle);
        first_completion_ = std::min(first_completion_, stream.result.end);
    } else {
        start(&stream);
    }
    return handle;
}

StreamState& MemorySystem::Impl::state(Handle handle) {
    if (handle >= slots_.size() || !slots_[handle]) throw InternalError("no such stream is open");
    return *slots_[handle];
}

void MemorySystem::Impl::close(Handle handle, StreamResult& result) {
    StreamState& stream = state(handle);
    if (!stream.complete || std::find(finished_.begin(), finished_.end(), handle) != finished_.end())
        throw InternalError("a stream is closed before its completion was taken");
    std::swap(result, stream.result);
    spare_.push_back(stream.take_buffers());
    slots_[handle].reset();
    slots_.give_back(handle);
    --open_count;
}

const std::vector<MemorySystem::Handle>& MemorySystem::Impl::take_completed(Cycles now) {
    taken_.clear();
    if (first_completion_ > now) return taken_;
    first_completion_ = never;
    size_t kept = 0;
    for (const Handle h : finished_) {
        const Cycles end = slots_[h]->result.end;
        if (end <= now) {
            taken_.push_back(h);
        } else {
            finished_[kept++] = h;
            first_completion_ = std::min(first_completion_, end);
        }
    }
    finished_.resize(kept);
    const auto key = [&](Handle h) {
        const StreamState& s = *slots_[h];
        return std::tie(s.result.end, s.priority, s.unit, s.order);
    };
    if (taken_.size() > 1)
        std::sort(taken_.begin(), taken_.end(), [&](Handle a, Handle b) { return key(a) < key(b); });
    return taken_;
}

template <typename Function>
void MemorySystem::Impl::each_busy_track(Function function) {
    for (size_t index = 0; index < resources.size(); ++index) {
        const ResourceInfo& info = resources[index];
        switch (info.kind) {
            case UnitKind::ddr:
                function(index, dram_->account(info.place).busy);
                break;
            case UnitKind::link:
                function(index, links_[info.place].busy);
                break;
            default:
                function(index, srams_[info.place].busy);
        }
    }
}

ResourceStats MemorySystem::Impl::stats(size_t resource, Cycles elapsed) const {
    ResourceStats stats;
    const auto times = [&](const auto& busy) {
        stats.useful = busy.useful(elapsed);
        stats.overhead = busy.overhead(elapsed);
        stats.idle = elapsed - stats.useful - stats.overhead;
    };
    const ResourceInfo& info = resources.at(resource);
    switch (info.kind) {
        case UnitKind::ddr: {
            const DdrAccount& account = std::as_const(*dram_).account(info.place);
            times(account.busy);
            stats.bytes_read = account.bytes_read;
            stats.bytes_written = account.bytes_written;
            stats.peak_queue = dram_->peak_queue(info.place);
            stats.dram = dram_->counters(info.place, elapsed);
            break;
        }
        case UnitKind::link: {
            const Link& link = links_[info.place];
            times(link.busy);
            stats.bytes_read = link.bytes_moved;
            stats.peak_queue = link.queue.peak();
            break;
        }
        default: {
            const Sram& sram = srams_[info.place];
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

void MemorySystem::Impl::trace_to(traces::EventSink* sink, const std::vector<uint16_t>& unit_ids) {
    if (unit_ids.size() != resources.size()) throw InternalError("one unit id per memory resource is needed");
    each_busy_track(
        [&](size_t index, auto& busy) { busy.recorder.connect(sink, unit_ids[index], &config.core); });
}

void MemorySystem::Impl::trace_accesses_to(traces::EventSink& sink, const std::vector<uint16_t>& unit_ids) {
    access_trace_ = {&sink, &config.core};
    if (!burst_) return;
    std::vector<uint16_t> channels(burst_->channel_count());
    for (size_t i = 0; i < resources.size(); ++i)
        if (resources[i].kind == UnitKind::ddr) channels[resources[i].place] = unit_ids.at(i);
    burst_->trace_banks_to(sink, channels);
}

void MemorySystem::Impl::finish(Cycles elapsed) {
    dram_->finish(elapsed);
    each_busy_track([&](size_t, auto& busy) { busy.finish(elapsed); });
}

MemorySystem::MemorySystem(const MemoryConfig& config) : impl_(std::make_unique<Impl>(config)) {}
MemorySystem::~MemorySystem() = default;
MemorySystem::Handle MemorySystem::open(const StreamRequest& request, Cycles now) {
    return impl_->open(request, now);
}
Cycles MemorySystem::advance(Cycles horizon) { return impl_->advance(horizon); }
bool MemorySystem::advance_one(Cycles horizon) { return impl_->advance_one(horizon); }
Cycles MemorySystem::next_time() const { return impl_->next_time(); }
Cycles MemorySystem::next_completion() const { return impl_->next_completion(); }
Cycles MemorySystem::next_arrival() const { return impl_->next_arrival(); }
void MemorySystem::take_answers(Cycles now) { impl_->take_answers(now); }
const std::vector<MemorySystem::Handle>& MemorySystem::take_completed(Cycles now) {
    return impl_->take_completed(now);
}
const StreamResult& MemorySystem::result(Handle stream) const { return impl_->state(stream).result; }
void MemorySystem::close(Handle stream, StreamResult& result) { impl_->close(stream, result); }
void MemorySystem::close(Handle stream) {
    StreamResult ignored;
    impl_->close(stream, ignored);
}
size_t MemorySystem::open_streams() const { return impl_->open_count; }
const std::vector<ResourceInfo>& MemorySystem::resources() const { return impl_->resources; }
void MemorySystem::add_resources(Handle stream, std::vector<size_t>& indices) const {
    impl_->add_resources(stream, indices);
}
std::vector<RouteHop> MemorySystem::route(const StreamRequest& request) const {
    return impl_->route(request);
}
ResourceStats MemorySystem::stats(size_t resource, Cycles elapsed) const {
    return impl_->stats(resource, elapsed);
}
std::array<uint64_t, 2> MemorySystem::dram_bytes(size_t channel) const { return impl_->dram_bytes(channel); }
void MemorySystem::trace_to(traces::EventSink* sink, const std::vector<uint16_t>& ids) {
    impl_->trace_to(sink, ids);
}
void MemorySystem::trace_accesses_to(traces::EventSink& sink, const std::vector<uint16_t>& ids) {
    impl_->trace_accesses_to(sink, ids);
}
void MemorySystem::finish(Cycles elapsed) { impl_->finish(elapsed); }
const MemoryConfig& MemorySystem::config() const { return impl_->config; }

}  // namespace kpu::model
