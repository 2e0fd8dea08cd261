#pragma once

#include <algorithm>
#include <array>
#include <boost/container/static_vector.hpp>
#include <vector>

#include "base/clock.hpp"
#include "isa/bus_address.hpp"
#include "model/memory/divide.hpp"
#include "model/memory/memory_config.hpp"
#include "model/memory/pattern_cursor.hpp"
#include "model/stream/stream.hpp"

namespace kpu::model {

__extension__ typedef unsigned __int128 Wide;

/// A resource that a stream's bursts pass.
struct StreamStage {
    /// dram: its end is known at once. dram_request, dram_response: a burst enters a controller at the one
    /// and leaves it at the other, when the controller says.
    enum class Kind : uint8_t { dram, sram, link, dram_request, dram_response };
    Kind kind = Kind::link;
    uint8_t side = 0;       ///< whose addresses: 0 source (read), 1 destination (write)
    uint32_t resource = 0;  ///< index among the resources of its kind; DRAM: 0, all channels together
};

/// The way of all streams between two places.
struct StreamPath {
    static constexpr size_t max_stages = max_hops + 4;
    boost::container::static_vector<StreamStage, max_stages> stages;  ///< in the order in which bursts pass
    uint32_t links = 0;
    bool uses_dram = false;
    bool revisits = false;  ///< two stages are the same resource

    void add(StreamStage stage);
};

/// A burst between its issue and its delivery.
struct Burst {
    Cycles time = 0;  ///< arrival at the stage it is before; at the end, delivery
    std::array<uint64_t, 2> address{};
    Cycles pace_time = 0;  ///< when the pace alone would have issued it; of paced streams only
    Cycles worst = 0;      ///< the largest single loss, and its cause
    traces::Cause cause = traces::Cause::stalled_operand_interconnect;
    uint32_t bytes = 0;

    void lose(Cycles cycles, traces::Cause why) {
        if (cycles > worst) {
            worst = cycles;
            cause = why;
        }
    }
};

/// Record of the bursts of streams as they come to memories.
struct AccessTrace {
    traces::EventSink* sink = nullptr;
    const Clock* core = nullptr;
};

/// Memory that one stream leaves to the next.
struct StreamBuffers {
    std::vector<Burst> ring;
    std::vector<LimiterChange> limiters;
};

/// Progress of one stream: which burst comes next at each stage, and the limiter timeline.
class StreamState {
  public:
    static constexpr int max_stages = StreamPath::max_stages;

    /// Alignments: of the pieces of either side, 0 = none.
    /// `link_queue`: bursts that a link holds, 0: any number.
    StreamState(const StreamRequest& request, Cycles now, const StreamPath& path, StreamBuffers buffers,
                std::array<uint64_t, 2> align_bytes, uint32_t link_queue);
    StreamBuffers take_buffers();

    /// Returns the arrival time of the next burst at stage k; never when none is known.
    Cycles head(int k) const { return heads_[k]; }
    struct Arrival {
        Cycles time;  ///< never when none is known
        int stage;
    };
    /// Returns the first arrival; of stages with equal times the last, where the older burst is.
    Arrival first_arrival() const {
        Cycles time = heads_[0];
        size_t stage = 0;
        for (size_t k = 1; k < static_cast<size_t>(stage_count); ++k) {
            stage = heads_[k] <= time ? k : stage;
            time = std::min(time, heads_[k]);
        }
        return {time, static_cast<int>(stage)};
    }
    /// Postpones the next burst at stage k, a link: it is not taken before.
    void postpone(int k, Cycles time) { heads_[k] = time; }
    Burst& burst_at(int k) { return ring_[next_[k] & mask_]; }
    /// Returns the SRAM words or DRAM bursts touched, of either side.
    uint64_t& accesses(uint8_t side) {
        return side == 1 ? result.destination_accesses : result.source_accesses;
    }
    /// Notes how long the next burst at stage k waited there.
    void wait(int k, Cycles cycles) { wait_of(next_[k], cycles); }
    /// Notes how long burst `number` waited at a stage.
    void wait_of(uint64_t number, Cycles cycles) {
        if (number == 0) first_waits_ += cycles;
    }
    /// Returns the number of the next burst at stage k.
    uint64_t number_at(int k) const { return next_[k]; }
    /// Notes that the next burst at stage k, which is `burst`, was served, and leaves the stage at `done`.
    void leave(int k, Burst& burst, Cycles done);
    /// Returns the next burst at stage k, a dram_request, entered a controller. Its number.
    uint64_t enter(int k);
    /// Notes that a burst that entered a controller before stage k is done at that time: it leaves after the
    /// older ones.
    void answer(int k, uint64_t number, Cycles done);
    Burst& burst_of(uint64_t number) { return at(number); }

    StreamResult result;
    const StreamPath* path;
    const StreamStage* stages;  ///< stages of the path
    int stage_count;
    bool complete = false;
    uint8_t priority;
    uint16_t unit;
    uint64_t order = 0;  ///< order of opening
    uint32_t handle = 0;
    size_t place = 0;                    ///< among the active streams
    Arrival next{never, 0};              ///< kept by the stepper
    const AccessTrace* trace = nullptr;  ///< null: not recorded

    /// Records that a burst comes to the memory at a side of the stream, at its time.
    void record_access(const Burst& burst, uint8_t side) const;
    uint32_t task() const { return task_; }
    uint32_t op() const { return op_; }

  private:
    const Burst& at(uint64_t index) const { return ring_[index & mask_]; }
    Burst& at(uint64_t index) { return ring_[index & mask_]; }
    /// True if a controller has bursts of the stream that will leave at stage k.
    bool in_controller(int k) const {
        return k > 0 && stages[k].kind == StreamStage::Kind::dram_response && next_[k] < next_[k - 1];
    }
    static constexpr Cycles not_answered = 0;
    /// True if stage k waits until the link after it has room. What a controller answers is not held up.
    bool holds_back(int k) const {
        return queue_ != 0 && k + 1 < stage_count && next_[k] >= queue_ &&
               stages[k + 1].kind == StreamStage::Kind::link &&
               stages[k].kind != StreamStage::Kind::dram_response;
    }
    /// True if a burst has come to stage k, and waits because the link after it is full.
    bool held_back(int k) const { return holds_back(k) && next_[k + 1] + queue_ <= next_[k]; }
    void arrive_in_queue(int k);
    void move_queues(int k, uint64_t served, Cycles out);
    void make_room(int k, uint64_t served, Cycles out);
    bool present(int k) const { return k > 0 ? next_[k] < next_[k - 1] : waits_at_issue_; }
    void issue_next();
    void prepare_issue();
    bool cut(Burst& burst);
    void set_step(uint32_t bytes);
    Cycles take_pace();
    void deliver(const Burst& burst, bool first);
    void limit(Cycles from, traces::Cause cause);

    std::array<PatternCursor, 2> cursor_;
    std::array<uint64_t, 2> memory_;  ///< bus address of the first byte of the level at each side
    uint32_t task_, op_;
    uint32_t burst_bytes_, port_bytes_per_cycle_, window_;
    Cycles descriptor_cycles_, row_cycles_;
    Cycles pace_offset_, pace_cycles_;
    bool paced_;
    uint64_t total_bytes_, left_bytes_;
    uint64_t pace_quotient_ = 0,
             pace_remainder_ = 0;              ///< floor and rest of issued bytes * pace_cycles / total
    uint64_t plain_bursts_ = 0;                ///< so many more have full size and begin no run
    std::array<uint64_t, 2> plain_address_{};  ///< address of the next of them
    uint32_t step_bytes_ = 0;                  ///< size of the cached pace step and port time
    uint64_t step_quotient_ = 0, step_remainder_ = 0;
    Cycles port_cycles_ = 0;

    uint64_t queue_;               ///< bursts that a link holds; 0: any number
    std::vector<Cycles> last_in_;  ///< with a queue: when the last burst was taken, indexed by stage
    std::vector<Cycles> left_;     ///< with a queue: when burst n left stage k, at k * queue_ + n % queue_
    bool waits_at_issue_ = false;  ///< the next burst is held back at stage 0
    std::vector<Burst> ring_;
    uint64_t mask_;
    std::array<Cycles, max_stages> heads_;  ///< indexed by stage, see head()
    std::array<uint64_t, max_stages> next_;
    std::array<Cycles, max_stages> last_out_;
    Cycles issue_free_;
    Cycles port_cycle_ = ~Cycles{0};  ///< cycle of the last issue
    uint64_t port_used_ = 0;          ///< bytes issued in it
    Cycles last_delivery_;
    Cycles max_lateness_ = 0;
    Cycles first_issue_ = 0, first_waits_ = 0;  ///< issue and waits of the first burst
    traces::Cause latency_cause_ = traces::Cause::stalled_operand_sram_access;
    uint32_t short_bytes_ = 0;  ///< a burst below them is one access of an SRAM that could carry more
};

/// Returns when the pace issues the burst that begins at the bytes issued so far; then moves on by the step.
inline Cycles StreamState::take_pace() {
    const Cycles time = result.start + pace_offset_ + pace_quotient_;
    pace_quotient_ += step_quotient_;
    pace_remainder_ += step_remainder_;
    if (pace_remainder_ >= total_bytes_) {
        pace_remainder_ -= total_bytes_;
        ++pace_quotient_;
    }
    return time;
}

/// Takes the next burst off what is left. True when it begins a run of either side.
inline bool StreamState::cut(Burst& burst) {
    if (plain_bursts_ > 0) {
        --plain_bursts_;
        burst.bytes = burst_bytes_;
        burst.address = plain_address_;
        plain_address_[0] += burst_bytes_;
        plain_address_[1] += burst_bytes_;
        if (step_bytes_ != burst_bytes_) set_step(burst_bytes_);
        left_bytes_ -= burst_bytes_;
        return false;
    }
    const bool row = cursor_[0].at_run_start() || cursor_[1].at_run_start();
    uint64_t n = std::min<uint64_t>(burst_bytes_, left_bytes_);
    n = cursor_[1].piece(cursor_[0].piece(n));
    const auto bytes = static_cast<uint32_t>(n);
    burst.bytes = bytes;
    burst.address = {cursor_[0].address(), cursor_[1].address()};
    cursor_[0].advance(n);
    cursor_[1].advance(n);
    left_bytes_ -= n;
    if (bytes != step_bytes_) set_step(bytes);
    if (bytes == burst_bytes_ && left_bytes_ >= burst_bytes_) {
        plain_bursts_ = std::min({cursor_[0].pieces(n), cursor_[1].pieces(n), left_bytes_ / n});
        plain_address_ = {cursor_[0].address(), cursor_[1].address()};
        if (plain_bursts_ > 0) {
            cursor_[0].advance(plain_bursts_ * n);
            cursor_[1].advance(plain_bursts_ * n);
        }
    }
    return row;
}

/// The burst before stage 0 has left it.
inline void StreamState::issue_next() {
    heads_[0] = never;
    if (left_bytes_ != 0) prepare_issue();
}

/// Computes the time of the next issue as soon as it is known: the window must have room.
inline void StreamState::prepare_issue() {
    const uint64_t index = next_[0];
    Cycles window_free = 0;
    if (index >= window_) {
        if (next_[stage_count - 1] <= index - window_) return;
        window_free = at(index - window_).time;
    }
    Burst& burst = at(index);
    const bool row = cut(burst);
    burst.worst = 0;
    burst.cause = burst.bytes < short_bytes_ ? traces::Cause::stalled_operand_sram_access
                                             : traces::Cause::stalled_operand_interconnect;
    Cycles time = issue_free_;
    if (row && row_cycles_ > 0) {
        time += row_cycles_;
        burst.lose(row_cycles_, traces::Cause::stalled_dma_issue);
    }
    if (paced_) {
        burst.pace_time = take_pace();
        time = std::max(time, burst.pace_time);
    }
    if (window_free > time) {
        burst.lose(window_free - time, latency_cause_);
        time = window_free;
    }
    if (index == 0) first_issue_ = time;
    burst.time = time;
    // a port wider than a burst issues several of them in a cycle
    port_used_ = time == port_cycle_ ? port_used_ + burst.bytes : burst.bytes;
    port_cycle_ = time;
    issue_free_ = port_used_ + burst_bytes_ <= port_bytes_per_cycle_ ? time : time + port_cycles_;
    heads_[0] = time;
    if (queue_ != 0) arrive_in_queue(0);
}

/// A burst has left stage k: if that is a link, the one that waits before it may come.
inline void StreamState::make_room(int k, uint64_t served, Cycles out) {
    if (k == 0 || stages[k].kind != StreamStage::Kind::link) return;
    left_[static_cast<size_t>(k) * queue_ + (served - 1) % queue_] = out;
    if (heads_[k - 1] == never && present(k - 1) && holds_back(k - 1)) arrive_in_queue(k - 1);
}

/// Notes that the next burst of stage k has come to it: it is taken as soon as the following link has room,
/// and not before the burst before it.
inline void StreamState::arrive_in_queue(int k) {
    if (stages[k].kind == StreamStage::Kind::dram_response) return;
    if (k == 0) waits_at_issue_ = held_back(0);
    if (held_back(k)) {
        heads_[k] = never;
        return;
    }
    Burst& burst = at(next_[k]);
    Cycles& last = last_in_[static_cast<size_t>(k)];
    if (holds_back(k))
        last = std::max(last, left_[(static_cast<size_t>(k) + 1) * queue_ + next_[k] % queue_]);
    const Cycles late = last > burst.time ? last - burst.time : 0;
    if (late > 0) burst.lose(late, traces::Cause::stalled_operand_interconnect);
    if (k == 0) {
        issue_free_ += late;
        port_cycle_ += late;
    }
    heads_[k] = burst.time = last = burst.time + late;
}

/// Moves the queues: burst `served`, counted from 1, has left stage k.
inline void StreamState::move_queues(int k, uint64_t served, Cycles out) {
    if (k > 0 && served < next_[k - 1]) arrive_in_queue(k);
    make_room(k, served, out);
    if (k + 1 < stage_count && next_[k + 1] + 1 == served) arrive_in_queue(k + 1);
}

[[gnu::always_inline]] inline void StreamState::leave(int k, Burst& burst, Cycles done) {
    const Cycles out = std::max(done, last_out_[k]);  // bursts of a stream stay in order
    burst.time = last_out_[k] = out;
    const uint64_t served = ++next_[k];
    const bool last_stage = k + 1 == stage_count;
    if (k > 0) heads_[k] = served < next_[k - 1] ? at(served).time : never;
    if (!last_stage && next_[k + 1] + 1 == served) heads_[k + 1] = out;
    if (queue_ != 0) move_queues(k, served, out);
    if (!last_stage) {
        if (k == 0) issue_next();
        return;
    }
    deliver(burst, served == 1);
    if (k == 0 || (heads_[0] == never && !waits_at_issue_)) issue_next();
    if (left_bytes_ == 0 && heads_[0] == never && served == next_[0]) {
        complete = true;
        result.end = last_delivery_;
    }
}

inline uint64_t StreamState::enter(int k) {
    const uint64_t number = next_[k]++;
    at(number).time = not_answered;
    if (k == 0)
        issue_next();
    else
        heads_[k] = number + 1 < next_[k - 1] ? at(number + 1).time : never;
    return number;
}

inline void StreamState::answer(int k, uint64_t number, Cycles done) {
    at(number).time = done;
    while (in_controller(k)) {
        Burst& oldest = at(next_[k]);
        if (oldest.time == not_answered) break;
        leave(k, oldest, oldest.time);
    }
    heads_[k] = never;
}

/// Decides what the time up to this delivery was lost to.
inline void StreamState::deliver(const Burst& burst, bool first) {
    const Cycles from = last_delivery_, until = burst.time;
    if (!paced_) {
        const traces::Cause cause = burst.worst == 0 && first ? latency_cause_ : burst.cause;
        if (until > from) limit(from, cause);
    } else {
        // A paced stream lost what its delivery is later than ever before; the first burst's transit is no
        // loss.
        const Cycles lateness = until - burst.pace_time;
        if (first) max_lateness_ = until - first_issue_ - first_waits_;
        const Cycles lost = lateness > max_lateness_ ? std::min(lateness - max_lateness_, until - from) : 0;
        if (until - lost > from) limit(from, traces::Cause::busy_useful);
        if (lost > 0) limit(until - lost, burst.cause);
        max_lateness_ = std::max(max_lateness_, lateness);
    }
    last_delivery_ = until;
    result.bytes += burst.bytes;
}

inline void StreamState::limit(Cycles from, traces::Cause cause) {
    std::vector<LimiterChange>& list = result.limiters;
    if (!list.empty() && list.back().from == from) list.pop_back();
    if (list.empty() || list.back().cause != cause) list.push_back({from, cause, result.bytes});
}

}  // namespace kpu::model
