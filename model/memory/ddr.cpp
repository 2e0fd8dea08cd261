#include "model/memory/ddr.hpp"

#include <algorithm>

namespace kpu::model {

namespace {

int log2_of(uint64_t value) {
    int bits = 0;
    while (uint64_t{1} << (bits + 1) <= value) ++bits;
    return bits;
}

}  // namespace

DramChannel::DramChannel(const DramTiming& timing)
    : t_(timing),
      spacing_(std::max(timing.tccd_s, timing.burst_nck)),
      group_spacing_(std::max<uint64_t>(timing.tccd_l, spacing_)),
      bank_bits_(log2_of(uint64_t{timing.banks_per_group} * timing.ranks)),
      group_mask_(timing.bank_groups - 1),
      bank_mask_(timing.banks_per_group * timing.ranks - 1),  // a rank is more banks
      row_mask_(timing.rows - 1),
      banks_(size_t{timing.bank_groups} * timing.banks_per_group * timing.ranks),
      group_activate_(timing.bank_groups, 0),
      group_write_end_(timing.bank_groups, 0),
      next_refresh_(timing.trefi) {
    const int burst = log2_of(timing.burst_bytes), columns = log2_of(timing.row_bytes / timing.burst_bytes);
    group_shift_ = timing.mapping == DramMapping::bank_group_interleaved ? burst : burst + columns;
    bank_shift_ = burst + columns + log2_of(timing.bank_groups);
    row_shift_ = bank_shift_ + bank_bits_;
}

inline DramChannel::Place DramChannel::place_of(uint64_t address) const {
    const auto group = static_cast<uint32_t>(address >> group_shift_ & group_mask_);
    const auto bank = static_cast<uint32_t>(address >> bank_shift_ & bank_mask_);
    return {group, group << bank_bits_ | bank, static_cast<uint32_t>(address >> row_shift_ & row_mask_)};
}

uint64_t DramChannel::refresh_start(uint64_t due) const {
    uint64_t start = due;
    for (size_t b = 0; b < banks_.size(); ++b) {
        const Bank& bank = banks_[b];
        if (!is_refreshed(b)) continue;
        if (bank.row != no_row)
            start = std::max(start, bank.precharge_ready + t_.trp);  // its banks are precharged first
        else
            start = std::max(start, bank.activate_ready);
    }
    return start;
}

/// Takes the refreshes due by `now`; true when there were any.
bool DramChannel::refresh_until(uint64_t now) {
    if (next_refresh_ > now) return false;
    while (next_refresh_ <= now) {
        const uint64_t start = refresh_start(next_refresh_);
        refresh_end_ = start + t_.trfc;
        for (size_t b = 0; b < banks_.size(); ++b) {
            if (!is_refreshed(b)) continue;
            Bank& bank = banks_[b];
            bank.row = no_row;
            bank.closed = {};
            bank.activate_ready = bank.refresh_end = refresh_end_;
        }
        if (t_.refresh_sets == 1) {  // else other banks go on
            refreshes_.emplace_back(start, refresh_end_);
            gaps_.clear();
        }
        refresh_set_ = (refresh_set_ + 1) % t_.refresh_sets;
        ++refresh_count_;
        next_refresh_ += t_.trefi;
    }
    return true;
}

uint64_t DramChannel::activate_time(uint64_t earliest, const Bank& bank, uint32_t group) const {
    uint64_t time = std::max(earliest, bank.activate_ready);
    const uint64_t last = last_activates_[(activate_index_ + 3) % 4];
    if (last != 0) time = std::max(time, last - 1 + t_.trrd_s);
    if (group_activate_[group] != 0) time = std::max(time, group_activate_[group] - 1 + t_.trrd_l);
    const uint64_t fourth = last_activates_[activate_index_];
    if (fourth != 0) time = std::max(time, fourth - 1 + t_.tfaw);
    return time;
}

/// Returns the first clock for the next column after the last one, which has the other direction.
uint64_t DramChannel::turn_around(uint64_t earliest, uint32_t group, bool is_write) {
    const uint64_t spacing = group == last_group_ ? group_spacing_ : spacing_;
    const uint64_t time = std::max(earliest, last_column_ + spacing), written = group_write_end_[group];
    const uint64_t turned =
        is_write ? std::max(time, last_column_ + t_.rd_to_wr)
                 : std::max({time, last_write_end_ + t_.twtr_s, written == 0 ? 0 : written + t_.twtr_l});
    use_.turned += turned - time;
    return turned;
}

/// Returns a place among the columns already given out, for a burst that is ready early enough; 0 when there
/// is none.
uint64_t DramChannel::fill_gap(uint64_t earliest, uint32_t group, bool is_write) {
    const uint64_t same_group = group_spacing_ - spacing_;
    for (size_t i = 0; i < gaps_.size(); ++i) {
        Gap& gap = gaps_[i];
        const uint64_t time = std::max(earliest, gap.from + (group == gap.group_before ? same_group : 0));
        const uint64_t latest_wait = group == gap.group_after ? same_group : 0;
        if (gap.is_write != is_write || time + latest_wait > gap.to) continue;
        const Gap rest{time + spacing_, gap.to, group, gap.group_after, is_write};
        if (time >= gap.from + spacing_) {
            gap.to = time - spacing_;
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

/// Returns the time of a column command, as early as the bus lets it.
inline uint64_t DramChannel::take_column(uint64_t request, uint64_t earliest, uint32_t group, bool is_write) {
    while (!gaps_.empty() && gaps_.front().to < request) gaps_.erase(gaps_.begin());  // nobody comes so early
    if (earliest < last_column_ && !gaps_.empty()) {
        const uint64_t time = fill_gap(earliest, group, is_write);
        if (time != 0) return time;
    }
    const Column direction = is_write ? Column::write : Column::read;
    uint64_t time = earliest;
    if (last_ == direction) {
        time = std::max(time, last_column_ + (group == last_group_ ? group_spacing_ : spacing_));
        if (time >= last_column_ + 2 * spacing_) {
            gaps_.push_back({last_column_ + spacing_, time - spacing_, last_group_, group, is_write});
            if (gaps_.size() > max_gaps) gaps_.erase(gaps_.begin());
        }
    } else if (last_ != Column::none) {
        time = turn_around(time, group, is_write);
    }
    last_ = direction;
    last_column_ = time;
    last_group_ = group;
    return time;
}

/// True if the row was open when the burst arrived, and is closed now.
bool DramChannel::hit_closed(Bank& bank, uint32_t row, uint64_t request) {
    for (ClosedRow& closed : bank.closed) {
        if (closed.row == row && request <= closed.closed && closed.streak < max_streak) {
            ++closed.streak;
            return true;
        }
    }
    return false;
}

/// Opens a row, closing another one.
DramChannel::Opening DramChannel::activate(Bank& bank, uint32_t group, uint32_t row, uint64_t request) {
    uint64_t ready = request, command = 0, wait = t_.trcd;
    const bool closes = bank.row != no_row;
    if (closes) {
        command = std::max(ready, bank.precharge_ready);
        bank.closed[bank.next_closed++ % bank.closed.size()] = {bank.row, bank.streak, command};
        wait += t_.trp;
        ready = command + t_.trp;
    }
    const uint64_t time = activate_time(ready, bank, group);
    bank.row = row;
    bank.streak = 1;
    bank.column_ready = time + t_.trcd;
    bank.precharge_ready = time + t_.tras;
    bank.activate_ready = time + t_.trc;
    group_activate_[group] = time + 1;
    last_activates_[activate_index_] = time + 1;
    activate_index_ = (activate_index_ + 1) % 4;
    ++activates_;
    return {closes ? command : time, wait};
}

[[gnu::always_inline]] inline DramService DramChannel::serve(uint64_t address, bool is_write,
                                                             uint64_t request) {
    const Place place = place_of(address);
    Bank* bank = &banks_[place.bank];
    uint64_t refresh_wait = 0, row_wait = 0, opened = ~uint64_t{0};
    bool refreshed = false;
    if (request >= last_column_) use_.begin(request);
    // Refreshes due before the burst would be served come first. A postponed burst may meet the next one.
    const uint64_t earliest = std::max(request, last_column_);
    if (earliest >= next_refresh_ || earliest < refresh_end_) {
        refreshed = refresh_until(earliest);
        refresh_wait = bank->refresh_end > earliest ? bank->refresh_end - earliest : 0;
        if (t_.refresh_sets == 1) use_.begin(std::max(earliest, refresh_end_));
    }
    if (bank->row == place.row) {
        ++bank->streak;
    } else if (hit_closed(*bank, place.row, request)) {
        bank = &closed_bank_;
    } else {
        const Opening opening = activate(*bank, place.group, place.row, request);
        opened = opening.command;
        row_wait = opening.wait;
    }
    const uint64_t ready = std::max(request, bank->column_ready);
    const uint64_t column = take_column(request, ready, place.group, is_write);
    uint64_t data = column + t_.cl, precharge = column + t_.trtp;
    if (is_write) {
        data = column + t_.cwl;
        const uint64_t data_end = data + t_.burst_nck;
        last_write_end_ = std::max(last_write_end_, data_end);
        group_write_end_[place.group] = std::max(group_write_end_[place.group], data_end);
        precharge = data_end + t_.twr;
    }
    bank->precharge_ready = std::max(bank->precharge_ready, precharge);
    use_.data += t_.burst_nck;
    uint64_t busy_wait = column - request;
    if (refresh_wait + row_wait > 0) {
        refresh_wait = std::min(refresh_wait, busy_wait);
        row_wait = std::min(row_wait, busy_wait - refresh_wait);
        busy_wait -= refresh_wait + row_wait;
    }
    const dram::Held held = busy_wait > 0 ? use_.held(last_column_) : dram::Held::bus;
    return {held, std::min(opened, column), data, refresh_wait, row_wait, busy_wait, refreshed};
}

uint64_t DramChannel::refreshes(uint64_t now) const {
    return refresh_count_ + (next_refresh_ <= now ? (now - next_refresh_) / t_.trefi + 1 : 0);
}

void DramChannel::take_refreshes(uint64_t now, std::vector<std::pair<uint64_t, uint64_t>>& into) {
    refresh_until(now);
    into.swap(refreshes_);
    refreshes_.clear();
}

DdrChannel::DdrChannel(const DramTiming& timing, const Clock& core)
    : crossing_(core, Clock(timing.clock_hz)),
      ranks_(timing.ranks),
      burst_bytes_(timing.burst_bytes),
      burst_nck_(timing.burst_nck),
      // one less: the edges of the two clocks are rounded to picoseconds
      least_time_(std::max<Cycles>(2, (uint64_t{std::min(timing.cl, timing.cwl)} + timing.burst_nck +
                                       timing.controller_nck) *
                                          (core.hz() / 1000) / (timing.clock_hz / 1000)) -
                  1),
      channel_(timing) {}

void DdrChannel::account_refreshes(Cycles now) {
    channel_.take_refreshes(crossing_.to_memory(now), refreshes_);
    for (const auto& [from, to] : refreshes_)
        account.busy.overhead(std::min(now, crossing_.to_core(from)), crossing_.to_core(from),
                              crossing_.to_core(to));
    refreshes_.clear();
}

DramCounters DdrChannel::counters(Cycles now) const {
    DramCounters counters;
    counters.reads = account.bytes_read / burst_bytes_;
    counters.writes = account.bytes_written / burst_bytes_;
    counters.activates = counters.charged_activates = channel_.activates();
    counters.row_hits = counters.reads + counters.writes - counters.activates;
    counters.refreshes = channel_.refreshes(crossing_.to_memory(now)) * ranks_;
    return counters;
}

DdrChannel::Service DdrChannel::serve(Cycles arrival, uint64_t address, uint32_t bytes, bool write) {
    const uint64_t request = crossing_.to_memory(arrival) + channel_.arrival_to_request();
    const uint64_t activates = channel_.activates();
    Cycles refresh_waits = 0, row_waits = 0, first_busy_wait = 0;
    uint64_t command = 0, data = 0, data_end = 0, last_end = 0;  // of bursts that are back to back; of all
    uint32_t bursts = 0;
    dram::Held held = dram::Held::bus;
    const auto book = [&] {
        last_end = std::max(last_end, data_end);
        const Cycles from = crossing_.to_core(data);
        account.busy.overhead(arrival, std::max(arrival, crossing_.to_core(command)), from);
        account.busy.useful(arrival, from, crossing_.to_core(data_end));
    };
    for (uint64_t at = address & ~(burst_bytes_ - 1); at < address + bytes; at += burst_bytes_, ++bursts) {
        const DramService burst = channel_.serve(at, write, request);
        if (burst.refreshed) account_refreshes(arrival);
        const Cycles busy_wait = crossing_.duration_in_core(burst.busy_wait);
        Cycles queued = busy_wait;
        if (burst.refresh_wait + burst.row_wait > 0) {
            const Cycles refresh_wait = crossing_.duration_in_core(burst.refresh_wait);
            queued += refresh_wait;
            refresh_waits += refresh_wait;
            row_waits += crossing_.duration_in_core(burst.row_wait);
        }
        if (queued > 0) queue.waits(arrival, arrival + queued);
        if (burst.data == data_end && burst.command >= command) {
            data_end += burst_nck_;
            continue;
        }
        if (bursts == 0) {
            first_busy_wait = busy_wait;  // the others wait for their own request
            held = burst.held;
        } else {
            book();
        }
        command = burst.command;
        data = burst.data;
        data_end = burst.data + burst_nck_;
    }
    book();
    (write ? account.bytes_written : account.bytes_read) += bursts * burst_bytes_;
    return {crossing_.to_core(last_end + channel_.data_to_done()),
            refresh_waits,
            row_waits,
            first_busy_wait,
            bursts,
            static_cast<uint32_t>(channel_.activates() - activates),
            held};
}

}  // namespace kpu::model
