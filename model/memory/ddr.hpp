#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/types.hpp"
#include "model/dram/held.hpp"
#include "model/dram/rank.hpp"
#include "model/memory/busy_bits.hpp"
#include "model/memory/clock_crossing.hpp"
#include "model/memory/divide.hpp"
#include "model/memory/memory_config.hpp"
#include "model/memory/queue_depth.hpp"

namespace kpu::model {

/// Times of a burst at a DRAM channel, in nCK of the channel.
struct DramService {
    dram::Held held;        ///< cause of busy_wait
    uint64_t command;       ///< first command of this burst
    uint64_t data;          ///< first clock of its data on the bus
    uint64_t refresh_wait;  ///< part of the time to `data`: waited for a refresh
    uint64_t row_wait;      ///< for its own precharge and activate
    uint64_t busy_wait;     ///< for the bus, the bank, or command spacing
    bool refreshed;         ///< refreshes began since the last burst
};

/// Commands of a channel.
struct DramCounters {
    uint64_t reads = 0, writes = 0, activates = 0, row_hits = 0, refreshes = 0;
    uint64_t forwarded = 0;          ///< reads that a waiting write answered
    uint64_t charged_activates = 0;  ///< activates already counted in the results of streams
    dram::RankTimes rank_times{};    ///< clocks in each power state, summed over the ranks; `burst` only
};

/// Account of a channel of either fidelity for the statistics.
struct DdrAccount {
    BusyBits busy;
    uint64_t bytes_read = 0, bytes_written = 0;  ///< whole bursts
};

/// The channels of a DRAM, of either fidelity. How bursts get in and out differs (Dram, DdrControllers); what
/// the memory system asks beside that does not.
class DramModel {
  public:
    virtual ~DramModel() = default;
    virtual size_t channel_count() const = 0;
    virtual DdrAccount& account(size_t channel) = 0;
    virtual const DdrAccount& account(size_t channel) const = 0;
    /// Returns the counters up to core cycle `elapsed`, the refreshes of idle time included.
    virtual DramCounters counters(size_t channel, Cycles elapsed) const = 0;
    /// Returns the most bursts that waited at one time.
    virtual uint64_t peak_queue(size_t channel) const = 0;
    /// Returns the least time: no burst is served faster.
    virtual Cycles least_time() const = 0;
    /// Ends the accounting at `elapsed`.
    virtual void finish(Cycles elapsed) = 0;
};

/// Finds the channel of an address, and its place there.
class ChannelInterleave {
  public:
    explicit ChannelInterleave(const DdrConfig& config)
        : count_(config.channels), block_(config.channel_interleave_bytes) {}
    uint64_t channel(uint64_t address) const { return count_.remainder(block_.quotient(address)); }
    uint64_t local(uint64_t address) const {
        return count_.quotient(block_.quotient(address)) * block_.value() + block_.remainder(address);
    }

  private:
    Divisor count_, block_;
};

/// Spread of the last requests over the channels.
class ChannelLoad {
  public:
    explicit ChannelLoad(uint64_t channels) : requests_(channels, 0), most_(window * channels) {}
    void count(uint64_t channel) {
        ++requests_[channel];
        if (++sum_ >= most_) forget_half();
        if (requests_[channel] > requests_[busiest_]) busiest_ = channel;
    }
    /// True if a channel gets more than one and a half times its share: then what waits for any of them waits
    /// for that.
    bool camps() const {
        return requests_.size() > 1 && sum_ >= enough * requests_.size() &&
               2 * requests_[busiest_] * requests_.size() > 3 * sum_;
    }

  private:
    static constexpr uint64_t window = 64, enough = 8;  ///< requests a channel
    void forget_half() {
        sum_ = 0;
        for (uint64_t& requests : requests_) sum_ += requests /= 2;
    }

    std::vector<uint64_t> requests_;
    uint64_t sum_ = 0, most_, busiest_ = 0;
};

/// The bursts of one channel, in nCK. Open page, bursts on the bus in order of arrival; bank state as
/// arithmetic on the earliest times of the next commands. A burst that had arrived when the row it needs was
/// closed counts as a hit of that row, up to a bounded streak: what a scheduler that prefers row hits would
/// have done. See ddr.md.
class DramChannel {
  public:
    explicit DramChannel(const DramTiming& timing);
    /// Serves the burst that holds channel-local byte `address`, whose commands may come from nCK `request`
    /// on. Calls come in order of `request`.
    DramService serve(uint64_t address, bool is_write, uint64_t request);
    /// Returns the clocks from the arrival at the controller to `request`.
    uint64_t arrival_to_request() const { return t_.controller_nck / 2; }
    /// Returns the clocks from the last clock of data to the time at which the requester sees it (read), or
    /// it is stored.
    uint64_t data_to_done() const { return t_.controller_nck - t_.controller_nck / 2; }
    uint64_t activates() const { return activates_; }
    /// Counts refreshes begun before nCK `now`, those of idle time included.
    uint64_t refreshes(uint64_t now) const;
    /// Intervals [from, to) of refreshes begun since the last call, ascending.
    void take_refreshes(uint64_t now, std::vector<std::pair<uint64_t, uint64_t>>& into);

  private:
    static constexpr uint32_t no_row = 0xffffffff;
    static constexpr uint32_t max_streak = 16;  ///< row hits that may pass older bursts to other rows
    struct ClosedRow {
        uint32_t row = no_row;
        uint32_t streak = 0;
        uint64_t closed = 0;  ///< when it was precharged
    };
    struct Bank {
        uint32_t row = no_row;
        uint32_t streak = 0;  ///< bursts served since the activate
        uint32_t next_closed = 0;
        std::array<ClosedRow, 4> closed{};
        uint64_t column_ready = 0;     ///< activate + tRCD
        uint64_t precharge_ready = 0;  ///< tRAS, tRTP and tWR respected
        uint64_t activate_ready = 0;   ///< tRC after the last activate; tRFC after a refresh
        uint64_t refresh_end = 0;      ///< end of its last refresh
    };
    /// Columns could still go at [from, to], between one column and a later one of the same direction.
    struct Gap {
        uint64_t from = 0, to = 0;
        uint32_t group_before = 0, group_after = 0;
        bool is_write = false;
    };
    static constexpr size_t max_gaps = 8;
    struct Place {
        uint32_t group, bank, row;  ///< bank: of all banks of the channel
    };
    struct Opening {
        /// Clock of the first command, and how long a burst waits for it and later ones.
        uint64_t command, wait;
    };
    /// The direction of a column command.
    enum class Column : uint8_t { read, write, none };
    Place place_of(uint64_t address) const;
    static bool hit_closed(Bank& bank, uint32_t row, uint64_t request);
    Opening activate(Bank& bank, uint32_t group, uint32_t row, uint64_t request);
    bool refresh_until(uint64_t now);
    uint64_t refresh_start(uint64_t due) const;
    /// True if the next refresh is for that bank too.
    bool is_refreshed(size_t bank) const { return (bank & (t_.refresh_sets - 1)) == refresh_set_; }
    uint64_t activate_time(uint64_t earliest, const Bank& bank, uint32_t group) const;
    uint64_t take_column(uint64_t request, uint64_t earliest, uint32_t group, bool is_write);
    uint64_t fill_gap(uint64_t earliest, uint32_t group, bool is_write);
    uint64_t turn_around(uint64_t earliest, uint32_t group, bool is_write);

    DramTiming t_;
    uint64_t spacing_, group_spacing_;  ///< least spacing of columns: of two groups, of one group
    int group_shift_, bank_shift_, row_shift_, bank_bits_;
    uint64_t group_mask_, bank_mask_, row_mask_;
    std::vector<Bank> banks_;
    Bank closed_bank_;  ///< stands for the bank of a burst whose row is closed again: nothing to wait for
    std::vector<uint64_t> group_activate_;       ///< last activate of each group, + 1 (0: never)
    uint64_t last_activates_[4] = {0, 0, 0, 0};  ///< ring, + 1 (0: never)
    unsigned activate_index_ = 0;
    Column last_ = Column::none;
    uint32_t last_group_ = 0;
    uint64_t last_column_ = 0;
    std::vector<Gap> gaps_;  ///< ascending, the newest max_gaps
    uint64_t last_write_end_ = 0;
    std::vector<uint64_t> group_write_end_;
    uint64_t next_refresh_;                                 ///< due
    uint64_t refresh_end_ = 0;                              ///< end of the last one
    uint32_t refresh_set_ = 0;                              ///< the next one's banks
    std::vector<std::pair<uint64_t, uint64_t>> refreshes_;  ///< not taken
    uint64_t activates_ = 0, refresh_count_ = 0;
    dram::BusUse use_;  ///< since bursts last waited for nothing
};

/// A DRAM channel in the time of the core: the two clock crossings, and the accounting.
class DdrChannel {
  public:
    DdrChannel(const DramTiming& timing, const Clock& core);

    struct Service {
        Cycles done;
        Cycles refresh_wait, row_wait, busy_wait;
        uint32_t bursts, activates;
        dram::Held held;  ///< cause of busy_wait
    };
    /// Returns a request for the channel-local bytes [address, address + bytes): its bursts go to the channel
    /// together, and it is done with the last.
    Service serve(Cycles arrival, uint64_t address, uint32_t bytes, bool write);
    /// Commands issued before `now`, refreshes of idle time included.
    DramCounters counters(Cycles now) const;
    /// Returns the least time: no burst is served faster.
    Cycles least_time() const { return least_time_; }
    /// Takes the refreshes begun before `now` into `busy`.
    void account_refreshes(Cycles now);

    DdrAccount account;
    QueueDepth queue;

  private:
    ClockCrossing crossing_;
    uint64_t ranks_, burst_bytes_, burst_nck_;
    Cycles least_time_;
    DramChannel channel_;
    std::vector<std::pair<uint64_t, uint64_t>> refreshes_;
};

/// `simple`: all channels by arithmetic, the end of a burst known as soon as it arrives.
class Dram final : public DramModel {
  public:
    Dram(const DdrConfig& config, const Clock& core)
        : channels(config.channels, DdrChannel(config.timing, core)),
          interleave_(config),
          load_(config.channels) {}

    /// Returns a request for [address, address + bytes), which lies in one channel.
    DdrChannel::Service serve(Cycles arrival, uint64_t address, uint32_t bytes, bool write) {
        const uint64_t channel = interleave_.channel(address);
        load_.count(channel);
        DdrChannel::Service service =
            channels[channel].serve(arrival, interleave_.local(address), bytes, write);
        if (service.busy_wait > 0 && load_.camps()) service.held = dram::Held::imbalance;
        return service;
    }

    size_t channel_count() const override { return channels.size(); }
    DdrAccount& account(size_t channel) override { return channels[channel].account; }
    const DdrAccount& account(size_t channel) const override { return channels[channel].account; }
    DramCounters counters(size_t channel, Cycles elapsed) const override {
        return channels[channel].counters(elapsed);
    }
    uint64_t peak_queue(size_t channel) const override { return channels[channel].queue.peak(); }
    Cycles least_time() const override { return channels.front().least_time(); }
    void finish(Cycles elapsed) override {
        for (DdrChannel& channel : channels) channel.account_refreshes(elapsed);
    }

    std::vector<DdrChannel> channels;

  private:
    ChannelInterleave interleave_;
    ChannelLoad load_;
};

}  // namespace kpu::model
