#pragma once

#include <array>
#include <vector>

#include "model/fabric/fabric_config.hpp"
#include "model/fabric/pattern_cursor.hpp"
#include "model/stream/stream.hpp"

namespace kpu::model {

/// A resource that a stream's bursts pass.
struct StreamStage {
    enum class Kind : uint8_t { dram, sram, link };
    Kind kind = Kind::link;
    uint8_t side = 0;  ///< whose addresses: 0 source (read), 1 destination (write)
    uint32_t resource =
        0;  ///< index among the resources of its kind; DRAM: the channel follows from the address
};

/// A burst between its issue and its delivery.
struct Burst {
    Cycles time = 0;  ///< arrival at the stage it is before; at the end, delivery
    std::array<uint64_t, 2> address{};
    Cycles pace_time = 0;  ///< when the pace alone would have issued it
    Cycles issue_time = 0;
    Cycles waits = 0;  ///< in all queues
    Cycles worst = 0;  ///< the largest single loss, and its cause
    traces::Cause cause = traces::Cause::stalled_operand_interconnect;
    uint32_t bytes = 0;

    void lose(Cycles cycles, traces::Cause why) {
        if (cycles > worst) {
            worst = cycles;
            cause = why;
        }
    }
};

/// Progress of one stream: which burst comes next at each stage, and the limiter timeline.
class StreamState {
  public:
    static constexpr int max_stages = 4;

    /// Alignments: of the pieces of either side, 0 = none.
    StreamState(const StreamRequest& request, Cycles now, const std::vector<StreamStage>& stages,
                std::array<uint64_t, 2> align_bytes);

    /// Arrival time of the next burst at stage k; never when none is known.
    Cycles head(int k) const { return heads_[k]; }
    Cycles earliest() const {
        return std::min(std::min(heads_[0], heads_[1]), std::min(heads_[2], heads_[3]));
    }
    Burst& burst_at(int k) { return ring_[next_[k] & mask_]; }
    /// The next burst at stage k was served, and leaves the stage at `done`. True when the stream is
    /// complete.
    bool served(int k, Cycles done);

    StreamResult result;
    std::array<StreamStage, max_stages> stages{};
    int stage_count = 0;
    bool revisits = false;  ///< two stages are the same resource
    bool uses_dram = false;
    bool complete = false;
    uint8_t priority;
    uint16_t unit;
    uint64_t order = 0;  ///< of opening
    uint32_t handle = 0;
    Cycles next_time = 0;

  private:
    const Burst& at(uint64_t index) const { return ring_[index & mask_]; }
    Burst& at(uint64_t index) { return ring_[index & mask_]; }
    void prepare_issue();
    Cycles take_pace();
    void deliver(const Burst& burst, bool first);
    void limit(Cycles from, traces::Cause cause);
    traces::Cause latency_cause() const;

    std::array<PatternCursor, 2> cursor_;
    uint32_t burst_bytes_, port_bytes_per_cycle_, window_;
    Cycles descriptor_cycles_, row_cycles_;
    Cycles pace_offset_, pace_cycles_;
    bool paced_;
    uint64_t total_bytes_, left_bytes_;
    uint64_t pace_quotient_ = 0,
             pace_remainder_ = 0;  ///< floor and rest of issued bytes * pace_cycles / total
    uint32_t step_bytes_ = 0;      ///< of the cached pace step and port time
    uint64_t step_quotient_ = 0, step_remainder_ = 0;
    Cycles port_cycles_ = 0;

    std::vector<Burst> ring_;
    uint64_t mask_;
    std::array<Cycles, max_stages> heads_;  ///< by stage, see head()
    std::array<uint64_t, max_stages> next_{};
    std::array<Cycles, max_stages> last_out_{};
    Cycles issue_free_;
    Cycles port_cycle_ = ~Cycles{0};  ///< of the last issue
    uint64_t port_used_ = 0;          ///< bytes issued in it
    Cycles last_delivery_;
    Cycles max_lateness_ = 0;
};

}  // namespace kpu::model
