#include "model/memory/open_streams.hpp"

#include <algorithm>

#include "base/diagnostics.hpp"

namespace kpu::model {

OpenStreams::OpenStreams(const MemorySystem& memory_system, traces::EventSink& sink,
                         std::vector<uint16_t> units)
    : memory_system_(memory_system),
      channels_(memory_system.config().ddr.channels),
      interleave_bytes_(memory_system.config().ddr.channel_interleave_bytes),
      core_(memory_system.config().core),
      sink_(sink),
      units_(std::move(units)),
      depths_(units_.size()) {
    if (units_.size() != memory_system.resources().size())
        throw InternalError("one unit id per memory resource is needed");
}

void OpenStreams::add_channels(const StreamSide& side, std::vector<size_t>& resources) const {
    const uint64_t first = side.pattern.address / interleave_bytes_;
    const uint64_t last = (std::max(side.pattern.end(), side.pattern.address + 1) - 1) / interleave_bytes_;
    for (uint64_t block = first; block <= last && block - first < channels_; ++block) {
        const size_t channel = block % channels_;
        if (std::find(resources.begin(), resources.end(), channel) == resources.end())
            resources.push_back(channel);
    }
}

void OpenStreams::opened(MemorySystem::Handle stream, const StreamRequest& request, Cycles now) {
    if (stream >= resources_.size()) resources_.resize(stream + 1);
    std::vector<size_t>& resources = resources_[stream];
    resources.clear();
    for (const StreamSide* side : {&request.source, &request.destination})
        if (side->is_memory && side->level == Level::ddr) add_channels(*side, resources);
    memory_system_.add_resources(stream, resources);
    change(stream, now, 1);
}

void OpenStreams::change(MemorySystem::Handle stream, Cycles now, int by) {
    if (now != at_) flush();
    at_ = now;
    for (const size_t resource : resources_[stream]) {
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
