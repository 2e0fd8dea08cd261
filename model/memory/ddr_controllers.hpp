#pragma once

#include <memory>
#include <vector>

#include "base/pool.hpp"
#include "model/dram/channel.hpp"
#include "model/memory/ddr.hpp"
#include "model/memory/divide.hpp"
#include "model/stream/stream.hpp"
#include "traces/event.hpp"

namespace kpu::model {

class BankRecorder;
class StreamState;

/// A burst of a stream at the DRAM: who asked.
struct DdrRequest {
    StreamState* stream = nullptr;
    uint64_t number = 0;  ///< number of the burst in its stream
    int stage = 0;        ///< that it is to leave
    Cycles arrival = 0;
    bool camps = false;  ///< a channel got more than its share of requests when this one came
};

/// A request whose end is certain.
struct DdrAnswer {
    DdrRequest request;
    Cycles done = 0;
    Cycles refresh_wait = 0, row_wait = 0, busy_wait = 0;
    uint32_t bursts = 0, activates = 0;  ///< that the device executed for it
    dram::Held held = dram::Held::bus;   ///< cause of busy_wait
};

/// A channel with its controller (model/dram), in its own clocks, and its accounting.
class DdrController {
  public:
    DdrController(const dram::Config& config, const ClockCrossing& crossing);
    DdrController(const DdrController&) = delete;
    DdrController& operator=(const DdrController&) = delete;

    /// Times are nCK; calls come in order of arrival.
    void take(const dram::Request& request);
    /// Runs everything before nCK `until`.
    void advance(uint64_t until);
    std::vector<dram::Completion>& completions() { return channel_.completions(); }
    /// Returns a time before which no completion to come is done.
    uint64_t bound() const { return channel_.next_completion_bound(); }
    /// Ends the accounting at nCK `end`. Bursts that the controller has taken are still carried out.
    void finish(uint64_t end);
    const DramCounters& counters() const { return counters_; }
    void observe(dram::CommandObserver* observer) { channel_.observe(observer); }
    uint64_t peak_queue() const { return peak_queue_; }

    DdrAccount account;
    uint32_t requests = 0;  ///< taken and not answered
    uint64_t charged_activates = 0;

  private:
    void account_activities();

    dram::Channel channel_;
    const ClockCrossing& crossing_;
    uint64_t burst_bytes_;
    std::vector<dram::Activity> activities_;  ///< not yet in `account.busy`
    Cycles accounted_ = 0;                    ///< last command that is
    uint64_t peak_queue_ = 0;
    DramCounters counters_;
};

/// `burst`: every channel has a controller with queues, so the end of a burst is known only later. Requests
/// go in with take(), in order of arrival; advance() lets the controllers work; what has become certain
/// stands in answers(); bound() says before which time nothing else will be done. Nothing is undone.
class DdrControllers final : public DramModel {
  public:
    DdrControllers(const DdrConfig& config, const Clock& core);
    ~DdrControllers() override;
    DdrControllers(const DdrControllers&) = delete;
    DdrControllers& operator=(const DdrControllers&) = delete;

    /// Records from now on what banks do. `units`: of the channels.
    void trace_banks_to(traces::EventSink& sink, const std::vector<uint16_t>& units);
    /// Takes a request for [address, address + bytes), which lies in one channel.
    void take(const DdrRequest& request, uint64_t address, uint32_t bytes, bool is_write);
    /// Issues every command that can be issued before arrivals of cycle `until` are seen.
    void advance(Cycles until);
    std::vector<DdrAnswer>& answers() { return answers_; }
    /// Returns a time before which no request without an answer is done; `never` when all have one.
    const Cycles& bound() const { return bound_; }

    size_t channel_count() const override { return channels_.size(); }
    DdrAccount& account(size_t channel) override { return channels_[channel]->account; }
    const DdrAccount& account(size_t channel) const override { return channels_[channel]->account; }
    /// Returns what finish() found.
    DramCounters counters(size_t channel, Cycles) const override { return channels_[channel]->counters(); }
    uint64_t peak_queue(size_t channel) const override { return channels_[channel]->peak_queue(); }
    Cycles least_time() const override { return least_time_; }
    void finish(Cycles elapsed) override;

  private:
    void collect(DdrController& channel);
    void answer(const DdrRequest& request, const dram::Completion& completion);

    ClockCrossing crossing_;
    ChannelInterleave interleave_;
    ChannelLoad load_;
    Divisor burst_bytes_;
    Cycles least_time_;
    std::vector<std::unique_ptr<DdrController>> channels_;
    Clock memory_;
    dram::Geometry geometry_;
    std::unique_ptr<BankRecorder> recorder_;  ///< none: not recorded
    Pool<DdrRequest> open_;                   ///< indexed by tag
    std::vector<DdrAnswer> answers_;
    uint64_t requests_ = 0;  ///< without an answer
    uint64_t advanced_ = 0;  ///< nCK
    Cycles bound_ = never;
};

}  // namespace kpu::model
