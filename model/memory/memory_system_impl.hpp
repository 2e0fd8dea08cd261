#pragma once
// The memory system's own state; only memory_system.cpp and stepper.cpp include this.

#include <boost/container/stable_vector.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/pool.hpp"
#include "model/memory/ddr_controllers.hpp"
#include "model/memory/earliest.hpp"
#include "model/memory/memory_system.hpp"
#include "model/memory/stream_state.hpp"

namespace kpu::model {

class MemorySystem::Impl {
  public:
    explicit Impl(const MemoryConfig& config);

    Handle open(const StreamRequest& request, Cycles now);
    Cycles advance(Cycles horizon);
    bool advance_one(Cycles horizon);
    Cycles next_completion() const { return std::min(first_completion_, next_answer()); }
    Cycles next_arrival() const { return arrivals_.time(); }
    Cycles next_time() const { return std::min(next_completion(), next_arrival()); }
    void take_answers(Cycles now);
    const std::vector<Handle>& take_completed(Cycles now);
    StreamState& state(Handle handle);
    void close(Handle handle, StreamResult& result);
    ResourceStats stats(size_t resource, Cycles elapsed) const;
    std::array<uint64_t, 2> dram_bytes(size_t channel) const {
        const DdrAccount& account = std::as_const(*dram_).account(channel);
        return {account.bytes_read, account.bytes_written};
    }
    void add_resources(Handle stream, std::vector<size_t>& indices);
    std::vector<RouteHop> route(const StreamRequest& request) const;
    void trace_to(traces::EventSink* sink, const std::vector<uint16_t>& unit_ids);
    void trace_accesses_to(traces::EventSink& sink, const std::vector<uint16_t>& unit_ids);
    void finish(Cycles elapsed);

    MemoryConfig config;
    std::vector<ResourceInfo> resources;
    size_t open_count = 0;

  private:
    /// Nodes of stream ends: DDR beyond the system link, L2 in the middle, engines beyond their links.
    static constexpr int node_ddr = -2, node_l2 = -1;
    int node_of(const StreamSide& side) const;
    StreamPath new_path(const StreamRequest& request) const;
    const StreamPath& path_of(const StreamRequest& request);
    void add_memory(const StreamSide& side, uint8_t index, StreamPath& path) const;
    void add_hops(int from, int to, StreamPath& path) const;
    void build_links();
    void add_link(const std::string& name, int engine);
    void join(unsigned a, unsigned b);
    unsigned next_node(unsigned at, unsigned to) const;
    /// Returns the nodes of the interconnect: L2, then the engines.
    unsigned node_count() const { return 1 + static_cast<unsigned>(config.l1.size()); }
    Cycles dram_burst_cycles() const;
    uint64_t alignment_of(const StreamSide& side, uint64_t burst_bytes) const;

    /// A link that a stream passes, and the stage at which it does.
    struct LinkInput {
        StreamState* stream;
        int stage;
    };
    /// Streams whose next arrivals changed with a burst that was served: only its own, which are yet to be
    /// looked up, or those of others too, and all were.
    enum class Changed : uint8_t { itself, others };
    /// True if `a` goes first by (priority, unit, order of opening).
    static bool precedes(const StreamState* a, const StreamState* b) {
        return std::tie(a->priority, a->unit, a->order) < std::tie(b->priority, b->unit, b->order);
    }
    Cycles least_time(const StreamStage& stage) const;
    void start(StreamState* stream);
    void end(StreamState& stream);
    void number_places();
    void settle(StreamState& stream);
    bool turn(Cycles horizon, bool single);
    void advance(StreamState& stream, Cycles until);
    Changed serve(StreamState& stream, StreamState::Arrival arrival, Cycles until);
    template <typename Resource>
    static void pass(Resource& resource, StreamState& stream, int k, Cycles until);
    void arbitrate(StreamState& stream, StreamState::Arrival arrival);
    const LinkInput& grant(const std::vector<LinkInput>& inputs, const Link& link, Cycles time) const;
    void enter(StreamState& stream, int k);
    void take_answers();
    Cycles next_answer() const { return burst_ ? burst_->bound() : never; }

    template <typename Function>
    void each_busy_track(Function function);

    using Slot = std::optional<StreamState>;

    std::unique_ptr<Dram> simple_;  ///< the DRAM is one of these
    std::unique_ptr<DdrControllers> burst_;
    DramModel* dram_;
    std::vector<Sram> srams_;  ///< L2, then L1 by engine
    std::vector<Link> links_;  ///< system, then by engine, or between nodes
    /// Links between two nodes, the lower first.
    std::map<std::pair<unsigned, unsigned>, uint32_t> link_between_;
    unsigned mesh_columns_ = 1;
    std::vector<size_t> resource_of_link_, resource_of_sram_;
    std::unordered_map<uint64_t, StreamPath> paths_;           ///< indexed by the two ends
    Pool<Slot, boost::container::stable_vector<Slot>> slots_;  ///< indexed by handle
    std::vector<StreamBuffers> spare_;                         ///< buffers of closed streams
    std::vector<StreamState*> active_;                         ///< not complete, in order of precedes()
    Earliest arrivals_;                                        ///< the next of each of them
    std::vector<std::vector<LinkInput>>
        link_inputs_;  ///< in order of precedes(); of links that arbitrate by more than age
    AccessTrace access_trace_;
    std::vector<Handle> finished_;  ///< complete, not taken
    std::vector<Handle> taken_;     ///< handles that the last call of take_completed() returned
    Cycles first_completion_ = never;
    uint64_t opened_ = 0;
    Cycles served_until_ = 0;  ///< no stream may open before
};

}  // namespace kpu::model
