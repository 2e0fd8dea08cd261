#include "model/fabric/ddr.hpp"

#include <algorithm>

namespace kpu::model {

namespace {

int log2_of(uint64_t value) {
    int bits = 0;
    while (uint64_t{1} << (bits + 1) <= value) ++bits;
    return bits;
}

uint32_t field(uint64_t& bits, int width) {
    const uint64_t value = bits & ((uint64_t{1} << width) - 1);
    bits >>= width;
    return static_cast<uint32_t>(value);
}

}  // namespace

ArithmeticDramChannel::ArithmeticDramChannel(const DramTiming& timing)
    : t_(timing),
      burst_bits_(log2_of(timing.burst_bytes)),
      column_bits_(log2_of(timing.row_bytes / timing.burst_bytes)),
      group_bits_(log2_of(timing.bank_groups)),
      bank_bits_(log2_of(timing.banks_per_group)),
      row_bits_(log2_of(timing.rows)),
      banks_(size_t{timing.bank_groups} * timing.banks_per_group),
      group_activate_(timing.bank_groups, 0),
      group_write_end_(timing.bank_groups, 0),
      next_refresh_(timing.trefi) {}

ArithmeticDramChannel::Place ArithmeticDramChannel::place_of(uint64_t address) const {
    uint64_t bits = address >> burst_bits_;
    uint32_t group = 0;
    if (t_.mapping == DramMapping::bank_group_interleaved) {
        group = field(bits, group_bits_);
        field(bits, column_bits_);
    } else {
        field(bits, column_bits_);
        group = field(bits, group_bits_);
    }
    const uint32_t bank = field(bits, bank_bits_);
    const uint32_t row = field(bits, row_bits_);
    return {group, group << bank_bits_ | bank, row};
}

uint64_t ArithmeticDramChannel::refresh_start(uint64_t due) const {
    uint64_t start = due;
    for (const Bank& bank : banks_) {
        if (bank.row != no_row)
            start = std::max(start, bank.precharge_ready + t_.trp);  // all banks are precharged first
        else
            start = std::max(start, bank.activate_ready);
    }
    return start;
}

void ArithmeticDramChannel::refresh_until(uint64_t now) {
    while (next_refresh_ <= now) {
        const uint64_t start = refresh_start(next_refresh_);
        refresh_end_ = start + t_.trfc;
        refreshes_.emplace_back(start, refresh_end_);
        for (Bank& bank : banks_) {
            bank.row = no_row;
            bank.closed = {};
            bank.activate_ready = refresh_end_;
        }
        gaps_.clear();
        ++counters_.refreshes;
        next_refresh_ += t_.trefi;
    }
}

uint64_t ArithmeticDramChannel::activate_time(uint64_t earliest, const Bank& bank, uint32_t group) const {
    uint64_t time = std::max(earliest, bank.activate_ready);
    const uint64_t last = last_activates_[(activate_index_ + 3) % 4];
    if (last != 0) time = std::max(time, last - 1 + t_.trrd_s);
    if (group_activate_[group] != 0) time = std::max(time, group_activate_[group] - 1 + t_.trrd_l);
    const uint64_t fourth = last_activates_[activate_index_];
    if (fourth != 0) time = std::max(time, fourth - 1 + t_.tfaw);
    return time;
}

uint64_t ArithmeticDramChannel::after_last(uint64_t earliest, uint32_t group, bool is_write) const {
    if (!any_column_) return earliest;
    const uint64_t spacing = std::max(group == last_group_ ? t_.tccd_l : t_.tccd_s, t_.burst_nck);
    uint64_t time = std::max(earliest, last_column_ + spacing);
    if (is_write && !last_write_) time = std::max(time, last_column_ + t_.rd_to_wr);
    if (!is_write && last_write_) {
        time = std::max(time, last_write_end_ + t_.twtr_s);
        if (group_write_end_[group] != 0) time = std::max(time, group_write_end_[group] + t_.twtr_l);
    }
    return time;
}

/// A place among the columns already given out, for a burst that is ready early enough; 0 when there is none.
uint64_t ArithmeticDramChannel::fill_gap(uint64_t earliest, uint32_t group, bool is_write) {
    const uint64_t spacing = std::max(t_.tccd_s, t_.burst_nck);
    const uint64_t same_group = std::max(t_.tccd_l, t_.burst_nck) - spacing;
    for (size_t i = 0; i < gaps_.size(); ++i) {
        Gap& gap = gaps_[i];
        const uint64_t time = std::max(earliest, gap.from + (group == gap.group_before ? same_group : 0));
        const uint64_t latest_wait = group == gap.group_after ? same_group : 0;
        if (gap.is_write != is_write || time + latest_wait > gap.to) continue;
        const Gap rest{time + spacing, gap.to, group, gap.group_after, is_write};
        if (time >= gap.from + spacing) {
            gap.to = time - spacing;
            gap.group_after = group;
            if (rest.from <= rest.to) gaps_.insert(gaps_.begin() + static_cast<std::ptrdiff_t>(i) + 1, rest);
        } else if (rest.from <= rest.to) {
            gap = rest;
        } else {
            gaps_.erase(gaps_.begin() + static_cast<std::ptrdiff_t>(i));
        }
        if (gaps_.size() > max_gaps) gaps_.erase(gaps_.begin());
        return time;
    }
    return 0;
}

/// The time of a column command, as early as the bus lets it.
uint64_t ArithmeticDramChannel::take_column(uint64_t earliest, uint32_t group, bool is_write) {
    if (earliest < last_column_ && !gaps_.empty()) {
        const uint64_t time = fill_gap(earliest, group, is_write);
        if (time != 0) return time;
    }
    const uint64_t time = after_last(earliest, group, is_write);
    const uint64_t spacing = std::max(t_.tccd_s, t_.burst_nck);
    if (any_column_ && last_write_ == is_write && time >= last_column_ + 2 * spacing) {
        gaps_.push_back({last_column_ + spacing, time - spacing, last_group_, group, is_write});
        if (gaps_.size() > max_gaps) gaps_.erase(gaps_.begin());
    }
    any_column_ = true;
    last_column_ = time;
    last_group_ = group;
    last_write_ = is_write;
    return time;
}

/// Whether the row is open, or was when the burst arrived.
bool ArithmeticDramChannel::hit(Bank& bank, uint32_t row, uint64_t request) const {
    if (bank.row == row) {
        ++bank.streak;
        return true;
    }
    for (ClosedRow& closed : bank.closed) {
        if (closed.row == row && request <= closed.closed && closed.streak < max_streak) {
            ++closed.streak;
            return true;
        }
    }
    return false;
}

/// Opens the row of a burst, closing another one.
void ArithmeticDramChannel::activate(Bank& bank, const Place& place, uint64_t request, DramService& result) {
    uint64_t ready = std::max(request, refresh_end_);
    if (bank.row != no_row) {
        const uint64_t precharge = std::max(ready, bank.precharge_ready);
        bank.closed[bank.next_closed++ % bank.closed.size()] = {bank.row, bank.streak, precharge};
        result.command = precharge;
        result.row_wait = t_.trp;
        ready = precharge + t_.trp;
    }
    const uint64_t time = activate_time(ready, bank, place.group);
    if (bank.row == no_row) result.command = time;
    bank.row = place.row;
    bank.streak = 1;
    bank.column_ready = time + t_.trcd;
    bank.precharge_ready = time + t_.tras;
    bank.activate_ready = time + t_.trc;
    group_activate_[place.group] = time + 1;
    last_activates_[activate_index_] = time + 1;
    activate_index_ = (activate_index_ + 1) % 4;
    result.row_wait += t_.trcd;
    result.activated = true;
    ++counters_.activates;
}

DramService ArithmeticDramChannel::serve(uint64_t address, bool is_write, uint64_t arrival) {
    DramService result;
    const Place place = place_of(address);
    Bank& bank = banks_[place.bank];
    const uint64_t request = arrival + t_.controller_nck / 2;
    // Refreshes due before the burst would be served come first. A postponed burst may meet the next one.
    uint64_t earliest = std::max(request, last_column_);
    result.refreshed = next_refresh_ <= earliest;
    refresh_until(earliest);
    if (refresh_end_ > request) {
        const uint64_t resumed = std::max(earliest, refresh_end_);
        result.refresh_wait = resumed > earliest ? resumed - earliest : 0;
    }
    if (hit(bank, place.row, request))
        ++counters_.row_hits;
    else
        activate(bank, place, request, result);
    const uint64_t ready = bank.row == place.row ? std::max(request, bank.column_ready) : request;
    const uint64_t column = take_column(ready, place.group, is_write);
    if (!result.activated) result.command = column;
    result.data = column + (is_write ? t_.cwl : t_.cl);
    result.data_end = result.data + t_.burst_nck;
    if (is_write) {
        ++counters_.writes;
        last_write_end_ = std::max(last_write_end_, result.data_end);
        group_write_end_[place.group] = std::max(group_write_end_[place.group], result.data_end);
        if (bank.row == place.row)
            bank.precharge_ready = std::max(bank.precharge_ready, result.data_end + t_.twr);
    } else {
        ++counters_.reads;
        if (bank.row == place.row) bank.precharge_ready = std::max(bank.precharge_ready, column + t_.trtp);
    }
    result.done = result.data_end + (t_.controller_nck - t_.controller_nck / 2);
    const uint64_t waited = column - request;
    result.refresh_wait = std::min(result.refresh_wait, waited);
    result.row_wait = std::min(result.row_wait, waited - result.refresh_wait);
    result.busy_wait = waited - result.refresh_wait - result.row_wait;
    return result;
}

DramCounters ArithmeticDramChannel::counters(uint64_t now) const {
    DramCounters counters = counters_;
    if (next_refresh_ <= now) counters.refreshes += (now - next_refresh_) / t_.trefi + 1;
    return counters;
}

void ArithmeticDramChannel::take_refreshes(uint64_t now, std::vector<std::pair<uint64_t, uint64_t>>& into) {
    refresh_until(now);
    into.swap(refreshes_);
    refreshes_.clear();
}

DdrChannel::DdrChannel(const DramTiming& timing, const Clock& core)
    : crossing_(core, Clock(timing.clock_hz)),
      burst_bytes_(timing.burst_bytes),
      // one less: the edges of the two clocks are rounded to picoseconds
      least_time_(std::max<Cycles>(2, (uint64_t{std::min(timing.cl, timing.cwl)} + timing.burst_nck +
                                       timing.controller_nck) *
                                          (core.hz() / 1000) / (timing.clock_hz / 1000)) -
                  1),
      channel_(std::make_unique<ArithmeticDramChannel>(timing)) {}

void DdrChannel::account_refreshes(Cycles now) {
    channel_->take_refreshes(crossing_.to_memory(now), refreshes_);
    for (const auto& [from, to] : refreshes_)
        busy.overhead(std::min(now, crossing_.to_core(from)), crossing_.to_core(from), crossing_.to_core(to));
    refreshes_.clear();
}

DdrChannel::Service DdrChannel::serve(Cycles arrival, uint64_t address, bool write) {
    const uint64_t arrived = crossing_.to_memory(arrival);
    const DramService service = channel_->serve(address, write, arrived);
    if (service.refreshed) account_refreshes(arrival);
    const Cycles data = crossing_.to_core(service.data);
    const Cycles data_end = crossing_.to_core(service.data_end);
    busy.overhead(arrival, std::max(arrival, crossing_.to_core(service.command)), data);
    busy.useful(arrival, data, data_end);
    (write ? bytes_written : bytes_read) += burst_bytes_;
    Service result;
    result.done = crossing_.to_core(service.done);
    result.refresh_wait = crossing_.duration_in_core(service.refresh_wait);
    result.row_wait = crossing_.duration_in_core(service.row_wait);
    result.busy_wait = crossing_.duration_in_core(service.busy_wait);
    result.activated = service.activated;
    if (result.busy_wait + result.refresh_wait > 0)
        queue.waits(arrival, arrival + result.busy_wait + result.refresh_wait);
    return result;
}

}  // namespace kpu::model
