#pragma once

#include <memory>
#include <vector>

#include "model/dram/channel.hpp"
#include "model/fabric/ddr.hpp"
#include "model/stream/stream.hpp"

namespace kpu::model {

class StreamState;

/// A burst of a stream at the DRAM: who asked.
struct DdrRequest {
    StreamState* stream = nullptr;
    uint64_t number = 0;  ///< of the burst in its stream
    int stage = 0;        ///< that it is to leave
    Cycles arrival = 0;
};

/// A request whose end is certain.
struct DdrAnswer {
    DdrRequest request;
    Cycles done = 0;
    Cycles refresh_wait = 0, row_wait = 0, busy_wait = 0;
    uint32_t bursts = 0, activates = 0;  ///< that the device executed for it
};

/// One channel with its controller (model/dram), in its own clocks, and its accounting.
class DdrController final : public dram::CommandObserver {
  public:
    DdrController(const dram::Config& config, const ClockCrossing& crossing);
    DdrController(const DdrController&) = delete;
    DdrController& operator=(const DdrController&) = delete;

    /// DRAM bursts from the address `first` on, which arrive at nCK `arrival`. Calls come in order of
    /// arrival.
    void take(uint64_t arrival, uint64_t first, uint32_t bursts, bool is_write, uint32_t tag);
    /// Everything before nCK `until` has happened.
    void advance(uint64_t until);
    std::vector<dram::Completion>& completions() { return channel_.completions(); }
    /// No completion to come is done before.
    uint64_t bound() const { return channel_.next_completion_bound(); }
    /// Ends the accounting at nCK `end`. Bursts that the controller has taken are still carried out.
    void finish(uint64_t end);
    const DramCounters& counters() const { return counters_; }
    uint64_t peak_queue() const { return peak_queue_; }
    void on_command(const dram::IssuedCommand& command) override;

    DdrAccount account;
    uint32_t requests = 0;  ///< taken and not answered
    uint64_t charged_activates = 0;

  private:
    /// Bursts whose data move back to back; nCK but for the core cycle since which there has been work.
    struct Moves {
        Cycles worked_since = 0;
        uint64_t from = 0, to = 0;
        uint64_t last_command = 0;
    };
    void account_moves();

    dram::Channel channel_;
    const ClockCrossing& crossing_;
    dram::Timing timing_;
    uint64_t burst_bytes_;
    Cycles busy_since_ = 0;  ///< there has been work since
    Cycles accounted_ = 0;   ///< last command that is in `account.busy`
    Moves moves_;            ///< not yet in it
    uint64_t peak_queue_ = 0;
    DramCounters counters_;
};

/// `burst`: every channel has a controller with queues, so the end of a burst is known only later. Requests
/// go in with take(), in order of arrival; advance() lets the controllers work; what has become certain
/// stands in answers(); bound() says before which time nothing else will be done. Nothing is undone.
class DdrControllers final : public DramModel {
  public:
    DdrControllers(const DdrConfig& config, const Clock& core);

    /// A request for [address, address + bytes), which lies in one channel.
    void take(const DdrRequest& request, uint64_t address, uint32_t bytes, bool is_write);
    /// Issues every command that can be issued before arrivals of cycle `until` are seen.
    void advance(Cycles until);
    std::vector<DdrAnswer>& answers() { return answers_; }
    /// No request without an answer is done before; `never` when all have one.
    const Cycles& bound() const { return bound_; }

    size_t channel_count() const override { return channels_.size(); }
    DdrAccount& account(size_t channel) override { return channels_[channel]->account; }
    const DdrAccount& account(size_t channel) const override { return channels_[channel]->account; }
    /// What finish() found.
    DramCounters counters(size_t channel, Cycles) const override { return channels_[channel]->counters(); }
    uint64_t peak_queue(size_t channel) const override { return channels_[channel]->peak_queue(); }
    Cycles least_time() const override { return least_time_; }
    void finish(Cycles elapsed) override;

  private:
    /// A request whose DRAM bursts are not all done.
    struct Open {
        DdrRequest request;
        uint64_t arrival = 0, done = 0, row_wait = 0, refresh_wait = 0, busy_wait = 0;  ///< nCK
        uint32_t left = 0, bursts = 0, activates = 0;
    };
    void collect(DdrController& channel);
    void answer(const Open& open);

    ClockCrossing crossing_;
    ChannelInterleave interleave_;
    uint64_t burst_bytes_;
    Cycles least_time_;
    std::vector<std::unique_ptr<DdrController>> channels_;
    std::vector<Open> open_;
    std::vector<uint32_t> free_;
    std::vector<DdrAnswer> answers_;
    uint64_t requests_ = 0;  ///< without an answer
    uint64_t advanced_ = 0;  ///< nCK
    Cycles bound_ = never;
};

}  // namespace kpu::model
