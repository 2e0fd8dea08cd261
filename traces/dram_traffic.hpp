#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/option.hpp"
#include "base/text_output.hpp"
#include "base/types.hpp"
#include "traces/bank_use.hpp"
#include "traces/events.hpp"
#include "traces/formats.hpp"
#include "traces/run_info.hpp"

namespace kpu::traces {

/// Counts of banks. hits + misses + conflicts = reads + writes.
struct BankCounts {
    uint64_t reads = 0, writes = 0;                ///< bursts
    uint64_t hits = 0, misses = 0, conflicts = 0;  ///< part of these bursts: see BankUse::Row
    uint64_t activates = 0;     ///< some rows are closed by a refresh before they serve a burst
    uint64_t turn_arounds = 0;  ///< bursts before which the data bus changed its direction

    uint64_t bursts() const { return reads + writes; }
    bool any() const { return bursts() + activates > 0; }
    void add(const BankUse& use);
    void add(const BankCounts& other);
};

/// Use of the banks of each DRAM channel over time, and for whom.
class DramTraffic {
  public:
    struct Stream {
        std::string unit, task, operation;  ///< names; unknown ones are empty
        BankCounts counts;
    };

    /// Bins of `width_ps` from `from` on, doubled while bins times banks exceed 1,048,576. `channels`: their names.
    DramTraffic(Picoseconds from, Picoseconds width_ps, std::vector<std::string> channels, uint32_t banks,
                uint32_t burst_bytes);
    /// Adds another asker. Its number.
    size_t add_stream(Stream stream);
    Stream& stream(size_t number) { return streams_[number]; }
    /// Adds a use at a time that is not before `from`.
    void add(Picoseconds time, size_t channel, size_t bank, const BankUse& use, size_t stream);

    Picoseconds from() const { return from_; }
    Picoseconds width() const { return width_; }
    size_t bins() const { return cells_.size() / row(); }
    const std::vector<std::string>& channels() const { return channels_; }
    size_t banks() const { return banks_; }
    uint32_t burst_bytes() const { return burst_bytes_; }
    const BankCounts& at(size_t bin, size_t channel, size_t bank) const {
        return cells_[bin * row() + channel * banks_ + bank];
    }
    BankCounts total() const;
    /// Returns the streams that did something, most bursts first.
    std::vector<Stream> streams() const;
    /// Returns the same in so many bins or fewer.
    DramTraffic in_bins(size_t most) const;

  private:
    size_t row() const { return channels_.size() * banks_; }
    void widen();

    static constexpr size_t most_cells = size_t{1} << 20;
    Picoseconds from_, width_;
    std::vector<std::string> channels_;
    size_t banks_;
    uint32_t burst_bytes_;
    std::vector<BankCounts> cells_;  ///< indexed by bin, channel, bank
    std::vector<Stream> streams_;
};

/// Collects the part of a run's recording that info.view shows: a use of a bank when the channel or the unit
/// that asked is among its units. Throws UserError when the recording has no uses of banks.
DramTraffic dram_traffic(const RunInfo& info, const Events& events);

/// About how many banks do something in how many bins.
double traffic_rows(const RunInfo& info, const RecordCounts& counts);

/// CSV, a row for each bank in each bin in which it did something:
/// time_ns,dt_ns,channel,bank,reads,writes,row_hits,row_misses,row_conflicts,activates,turn_arounds
void write_traffic_by_bank(const DramTraffic& traffic, Output& output);
/// CSV, a row for each unit and task that asked, most bursts first:
/// unit,task,operation,reads,writes,row_hits,row_misses,row_conflicts,activates,turn_arounds
void write_traffic_by_stream(const DramTraffic& traffic, Output& output);

/// Says what a trace of banks cannot show (Format::refuses).
std::string traffic_refuses(const TraceView& view, const OptionValues& options);

}  // namespace kpu::traces
