#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/memory/ddr.hpp"
#include "model/memory/memory_config.hpp"
#include "model/memory/sram.hpp"
#include "model/stream/stream.hpp"
#include "traces/event.hpp"

namespace kpu::model {

/// A memory resource as a unit of the statistics.
struct ResourceInfo {
    std::string name;  ///< ddr0, link_sys, l2, e0_link, e0_l1; link_n0_n1 between two nodes of a ring or mesh
    UnitKind kind;
    int engine = -1;
    int index = 0;
    size_t place = 0;  ///< in the memory system's own list of its kind
};

/// A resource that a stream passes.
struct RouteHop {
    size_t resource = 0;  ///< index of resources(); all channels of the DRAM count as the first
    Cycles latency = 0;
};

/// Times and bytes of a resource up to a time.
struct ResourceStats {
    Cycles useful = 0, overhead = 0, idle = 0;
    uint64_t bytes_read = 0, bytes_written = 0;  ///< DRAM: whole bursts; a link: all bytes as read
    uint64_t words_read = 0, words_written = 0;  ///< SRAM: physical words of access_width_bytes
    uint64_t conflict_cycles = 0;                ///< SRAM: waited for a busy bank, summed over accesses
    uint64_t peak_queue = 0;                     ///< most requests waiting at once
    DramCounters dram;
};

/// The memory system: moves streams as bursts through memories and links, in time order, in core cycles. No
/// SystemC. See memory_system.md.
class MemorySystem {
  public:
    using Handle = uint32_t;

    explicit MemorySystem(const MemoryConfig& config);
    ~MemorySystem();

    /// Starts a stream at core cycle `now`, which must not lie before a cycle already passed to advance().
    /// A request that no path serves is InternalError.
    Handle open(const StreamRequest& request, Cycles now);
    /// Serves the burst arrivals strictly before `horizon`, in time order, and stops at the first completion:
    /// returns its time when that is at or before the horizon (arrivals before it are served, those at it are
    /// not), else `never`.
    Cycles advance(Cycles horizon);
    /// Serves the earliest arrival if it lies before `horizon` and before the first completion; false
    /// otherwise. Same results as advance(): the oracle.
    bool advance_one(Cycles horizon);
    /// Returns the earlier of next_completion() and next_arrival(); `never` when nothing is in flight.
    Cycles next_time() const;
    /// Returns the earliest completion not taken, or answer of a DRAM's controller, which may be one.
    Cycles next_completion() const;
    /// Returns the earliest arrival not served.
    Cycles next_arrival() const;
    /// Takes what controllers answer at or before `now`: nothing that arrives at `now` can change it. Nothing
    /// completes at or before `now` any more that take_completed() would not give.
    void take_answers(Cycles now);
    /// Returns the streams that complete at or before `now` and were not yet taken, by (end, priority, unit,
    /// order of opening). The list lives until the next call.
    const std::vector<Handle>& take_completed(Cycles now);
    /// Returns what is known of an open stream; valid until close().
    const StreamResult& result(Handle stream) const;
    /// Forgets a completed stream; its result goes to `result`.
    void close(Handle stream, StreamResult& result);
    void close(Handle stream);
    size_t open_streams() const;

    /// Returns ddr0.., link_sys, l2, then link and L1 of every engine; in a ring or mesh the L1s, then the
    /// links between its nodes.
    const std::vector<ResourceInfo>& resources() const;
    /// Links and SRAMs that an open stream passes, as indices of resources(), each once: added to `indices`.
    void add_resources(Handle stream, std::vector<size_t>& indices) const;
    /// Returns what a stream passes in the order in which its bytes do, with the least time that a burst
    /// spends at each beside being moved.
    std::vector<RouteHop> route(const StreamRequest& request) const;
    ResourceStats stats(size_t resource, Cycles elapsed) const;
    /// Returns what a channel read and wrote so far: whole bursts.
    std::array<uint64_t, 2> dram_bytes(size_t channel) const;
    /// Records changes of state of every resource; unit_ids parallel to resources().
    void trace_to(traces::EventSink* sink, const std::vector<uint16_t>& unit_ids);
    /// Records every burst of the streams opened from now on, when it comes to a memory, and what the banks of
    /// controllers do for them. Unit ids as for trace_to().
    void trace_accesses_to(traces::EventSink& sink, const std::vector<uint16_t>& unit_ids);
    /// Ends the accounting: refreshes and states up to `elapsed`. No stream may be advanced afterwards.
    void finish(Cycles elapsed);
    const MemoryConfig& config() const;

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace kpu::model
