#include "model/dram/replay.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/diagnostics.hpp"

namespace kpu::dram {
namespace {

void check(const ReplayConfig& config) {
    const auto fail = [](const std::string& what, const std::string& fix) {
        throw UserError(fmt::format("{}. Fix: give {}.", what, fix));
    };
    if (config.channels == 0 || config.channels > 256)
        fail(fmt::format("{} DRAM channels", config.channels), "1 to 256 channels");
    const uint32_t burst = config.channel.geometry.burst_bytes;
    if (config.channel_interleave_bytes == 0 || config.channel_interleave_bytes % burst != 0) {
        fail(fmt::format("a channel interleave of {} bytes", config.channel_interleave_bytes),
             fmt::format("a multiple of the burst of {} bytes", burst));
    }
    if (config.max_outstanding == 0) fail("no outstanding read", "at least 1");
}

class Replay {
  public:
    Replay(const ReplayConfig& config, TraceSource& trace, const std::vector<CommandObserver*>& observers)
        : config_(config), trace_(trace), channels_(config.channels, Channel(config.channel)) {
        for (size_t c = 0; c < std::min(observers.size(), channels_.size()); ++c)
            channels_[c].observe(observers[c]);
    }

    ReplayResult run() {
        uint64_t line_clock = 0;  // of the last request
        uint32_t in_clock = 0;    // requests in it
        while (const auto request = trace_.next()) {
            uint64_t time =
                request->relative ? line_clock + request->time : std::max(request->time, line_clock);
            if (time == line_clock && in_clock == config_.channels) ++time;
            if (!request->is_write) time = wait_for_returns(time);
            time = enter(*request, time);
            in_clock = time == line_clock ? in_clock + 1 : 1;
            line_clock = time;
        }
        finish();
        return std::move(result_);
    }

  private:
    /// Returns the first clock from `time` on at which another read may be in flight.
    uint64_t wait_for_returns(uint64_t time) {
        retire(time);
        while (in_flight_ >= config_.max_outstanding) {
            find_next_return();
            time = std::max(time, next_return());
            retire(time);
        }
        return time;
    }

    void retire(uint64_t time) {
        while (first_return_ < returns_.size() && returns_[first_return_] <= time) {
            ++first_return_;
            --in_flight_;
        }
        if (first_return_ < 4096) return;
        returns_.erase(returns_.begin(), returns_.begin() + static_cast<std::ptrdiff_t>(first_return_));
        first_return_ = 0;
    }

    uint64_t next_return() const { return first_return_ < returns_.size() ? returns_[first_return_] : never; }

    /// Advances until the next return is certain: no channel can have an earlier one.
    void find_next_return() {
        for (;;) {
            const uint64_t known = next_return();
            uint64_t bound = never;
            for (const Channel& channel : channels_) bound = std::min(bound, channel.next_completion_bound());
            if (known <= bound) return;
            if (channels_.size() == 1) {
                channels_[0].advance_to_completion(never / 2);
                collect(channels_[0]);
            } else {
                for (Channel& channel : channels_) {
                    if (channel.now() < bound) channel.advance(bound);
                    collect(channel);
                }
            }
        }
    }

    void collect(Channel& channel) {
        for (const Completion& completion : channel.completions()) {
            if (completion.is_write) continue;
            const uint64_t latency = completion.done - completion.arrival;
            if (latency >= reads_by_latency_.size()) reads_by_latency_.resize(latency + 1);
            ++reads_by_latency_[latency];
            waits_[0] += completion.waits.row;
            waits_[1] += completion.waits.refresh;
            waits_[2] += completion.waits.turn_around;
            waits_[3] += completion.waits.busy;
            result_.cycles = std::max(result_.cycles, completion.done);
            // nearly always the last
            returns_.push_back(completion.done);
            for (size_t i = returns_.size() - 1; i > first_return_ && returns_[i - 1] > returns_[i]; --i)
                std::swap(returns_[i - 1], returns_[i]);
        }
        channel.completions().clear();
    }

    /// Gives a request to its channel as soon as it has room.
    uint64_t enter(const TraceRequest& request, uint64_t time) {
        uint64_t address = request.address;
        uint32_t index = 0;
        if (config_.channels > 1) {
            const uint64_t interleave = config_.channel_interleave_bytes, block = address / interleave;
            index = static_cast<uint32_t>(block % config_.channels);
            address = block / config_.channels * interleave + address % interleave;
        }
        Channel& channel = channels_[index];
        if (address >= config_.channel.geometry.bytes()) outside(request);
        if (channel.now() < time) channel.advance(time);
        if (!channel.has_room(request.is_write)) {
            channel.advance_to_room(request.is_write, never / 2);
            result_.back_pressure += channel.now() - time;
            time = channel.now();
        }
        channel.push({time, address, request.is_write, 0, 1, request.source});
        if (!request.is_write) ++in_flight_;
        ++(request.is_write ? result_.requested_writes : result_.requested_reads);
        collect(channel);
        return time;
    }

    [[noreturn]] void outside(const TraceRequest& request) const {
        const uint64_t bytes = config_.channel.geometry.bytes() * config_.channels;
        Diagnostics diagnostics;
        diagnostics.error(
            {trace_.name(), static_cast<uint32_t>(request.line), 1},
            fmt::format("address 0x{:x} lies outside of the memory, which has {} bytes. Fix: use lower "
                        "addresses, more channels or ranks, or another device.",
                        request.address, bytes));
        throw UserError(std::move(diagnostics));
    }

    void finish() {
        for (Channel& channel : channels_) {
            channel.advance_to_idle(never / 2);
            collect(channel);
            result_.cycles = std::max(result_.cycles, channel.counters(0).last_write);
        }
        for (Channel& channel : channels_) {
            if (channel.now() < result_.cycles) channel.advance(result_.cycles);
            add(channel.counters(result_.cycles));
        }
        summarize();
    }

    void add(const Counters& counters) {
        result_.channels.push_back(counters);
        Counters& sum = result_.counters;
        sum.reads += counters.reads;
        sum.writes += counters.writes;
        sum.forwarded += counters.forwarded;
        sum.activates += counters.activates;
        sum.precharges += counters.precharges;
        sum.refreshes += counters.refreshes;
        sum.row_hits += counters.row_hits;
        sum.data_clocks += counters.data_clocks;
        sum.last_write = std::max(sum.last_write, counters.last_write);
        for (size_t s = 0; s < rank_state_count; ++s) sum.rank_times[s] += counters.rank_times[s];
    }

    void summarize() {
        uint64_t reads = 0;
        double sum = 0;
        for (size_t latency = 0; latency < reads_by_latency_.size(); ++latency) {
            reads += reads_by_latency_[latency];
            sum += static_cast<double>(latency) * static_cast<double>(reads_by_latency_[latency]);
        }
        if (reads == 0) return;
        const auto count = static_cast<double>(reads);
        result_.read_latency = {sum / count,
                                reached(1),
                                reached((reads + 1) / 2),
                                reached(reads - reads / 10),
                                reached(reads - reads / 100),
                                reached(reads)};
        const auto mean = [&](uint64_t total) { return static_cast<double>(total) / count; };
        result_.waits = {mean(waits_[0]), mean(waits_[1]), mean(waits_[2]), mean(waits_[3])};
    }

    /// Returns the latency that `count` of the reads did not exceed.
    uint64_t reached(uint64_t count) const {
        size_t latency = 0;
        for (uint64_t below = reads_by_latency_[0]; below < count; below += reads_by_latency_[latency])
            ++latency;
        return latency;
    }

    const ReplayConfig& config_;
    TraceSource& trace_;
    std::vector<Channel> channels_;
    std::vector<uint64_t> returns_;  ///< clocks at which reads in flight return, ascending from first_return_
    size_t first_return_ = 0;
    uint64_t in_flight_ = 0;
    std::vector<uint64_t> reads_by_latency_;
    uint64_t waits_[4] = {0, 0, 0, 0};
    ReplayResult result_;
};

}  // namespace

ReplayResult replay(const ReplayConfig& config, TraceSource& trace,
                    const std::vector<CommandObserver*>& observers) {
    check(config);
    return Replay(config, trace, observers).run();
}

}  // namespace kpu::dram
