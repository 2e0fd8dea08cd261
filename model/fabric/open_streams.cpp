#include "model/fabric/open_streams.hpp"

#include <algorithm>

#include "isa/diagnostics.hpp"

namespace kpu::model {

namespace {

/// Where a stream's end sits, as in the fabric: DDR, L2, then the engines.
constexpr int node_ddr = -2, node_l2 = -1;

}  // namespace

OpenStreams::OpenStreams(const FabricConfig& config, traces::EventSink& sink, std::vector<uint16_t> units)
    : channels_(config.ddr.channels),
      interleave_bytes_(config.ddr.channel_interleave_bytes),
      core_(config.core),
      sink_(sink),
      units_(std::move(units)),
      depths_(units_.size()) {
    if (units_.size() != channels_ + 2 + 2 * config.l1.size())
        throw InternalError("one unit id per memory resource is needed");
}

int OpenStreams::node_of(const StreamSide& side) const {
    if (side.is_memory && side.level == Level::ddr) return node_ddr;
    if (side.is_memory && side.level == Level::l2) return node_l2;
    return side.engine == no_engine ? node_l2 : side.engine;
}

void OpenStreams::add_channels(const StreamSide& side) {
    const uint64_t first = side.pattern.address / interleave_bytes_;
    const uint64_t last = (std::max(side.pattern.end(), side.pattern.address + 1) - 1) / interleave_bytes_;
    for (uint64_t block = first; block <= last && block - first < channels_; ++block)
        resources_.push_back(block % channels_);
}

/// Channels of the DDR, then the system's link, L2, and link and L1 of every engine.
void OpenStreams::find_resources(const StreamRequest& request) {
    resources_.clear();
    const auto link = [&](int node) {
        return channels_ + (node < 0 ? 0 : 2 + 2 * static_cast<size_t>(node));
    };
    const int from = node_of(request.source), to = node_of(request.destination);
    for (const StreamSide* side : {&request.source, &request.destination}) {
        const int node = node_of(*side);
        if (from != to && node != node_l2) resources_.push_back(link(node));
        if (!side->is_memory) continue;
        if (node == node_ddr) {
            add_channels(*side);
        } else {
            resources_.push_back(link(node) + 1);
        }
    }
    std::sort(resources_.begin(), resources_.end());
    resources_.erase(std::unique(resources_.begin(), resources_.end()), resources_.end());
}

void OpenStreams::change(const StreamRequest& request, Cycles now, int by) {
    if (now != at_) flush();
    at_ = now;
    find_resources(request);
    for (const size_t resource : resources_) {
        Depth& depth = depths_[resource];
        depth.now += by;
        if (!depth.changed) touched_.push_back(resource);
        depth.changed = true;
    }
}

void OpenStreams::flush() {
    std::sort(touched_.begin(), touched_.end());
    for (const size_t resource : touched_) {
        Depth& depth = depths_[resource];
        depth.changed = false;
        if (depth.now == depth.recorded) continue;
        depth.recorded = depth.now;
        traces::Event event;
        event.time_ps = core_.edge(at_);
        event.kind = traces::EventKind::counter;
        event.cause = static_cast<uint8_t>(traces::CounterId::queue_depth);
        event.unit = units_[resource];
        event.op = traces::background_op;
        event.value = depth.now;
        sink_.record(event);
    }
    touched_.clear();
}

}  // namespace kpu::model
