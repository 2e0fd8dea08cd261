#pragma once

#include <vector>

#include "base/clock.hpp"
#include "model/memory/memory_system.hpp"
#include "model/stream/stream.hpp"
#include "traces/event.hpp"

namespace kpu::model {

/// Queue depth of every memory resource for the trace: streams that are open on it. A channel of the DDR
/// counts those whose addresses reach it. One record an instant and resource.
class OpenStreams {
  public:
    /// units: ids of the resources, in the order of MemorySystem::resources().
    OpenStreams(const MemorySystem& memory_system, traces::EventSink& sink, std::vector<uint16_t> units);
    void opened(MemorySystem::Handle stream, const StreamRequest& request, Cycles now);
    void closed(MemorySystem::Handle stream, Cycles now) { change(stream, now, -1); }
    /// Records what the last instant left.
    void flush();

  private:
    struct Depth {
        int64_t now = 0, recorded = 0;
        bool changed = false;
    };
    void change(MemorySystem::Handle stream, Cycles now, int by);
    void add_channels(const StreamSide& side, std::vector<size_t>& resources) const;

    const MemorySystem& memory_system_;
    uint32_t channels_;
    uint64_t interleave_bytes_;
    Clock core_;
    traces::EventSink& sink_;
    std::vector<uint16_t> units_;
    std::vector<Depth> depths_;
    std::vector<size_t> touched_;                 ///< since the last flush
    std::vector<std::vector<size_t>> resources_;  ///< resources that each stream passes
    Cycles at_ = 0;
};

}  // namespace kpu::model
