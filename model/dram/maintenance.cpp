// Refresh, power-down and self-refresh of the ranks of a channel.
#include <algorithm>

#include "model/dram/bits.hpp"
#include "model/dram/channel.hpp"

namespace kpu::dram {
namespace {

/// Returns the time in which every bank is refreshed once.
uint64_t full_refresh(const Timing& t) { return uint64_t{t.refresh_interval()} * t.refresh_sets; }

/// True for a time that goes along from one period to the next, or one that is before both and no longer
/// matters.
bool moves(uint64_t before, uint64_t after, uint64_t period, uint64_t since) {
    return after == before + period || (after == before && after <= since);
}

}  // namespace

/// Skips idle time. Without work, refreshes and the power-down between them come to the same in every tREFI:
/// once two periods were equal, the others are counted. Whoever listens to commands gets every one. True if
/// time went on.
bool Channel::skip_idle(uint64_t limit) {
    constexpr int attempts = 4;
    constexpr uint64_t settling = 4;  // periods, in which rows close and ranks go to sleep
    const uint64_t period = full_refresh(t_), begin = now_;
    if (limit <= begin + far_periods * period || limit >= never / 2) return false;
    if (observer_ != nullptr || activities_ != nullptr || posted_bursts_ > 0) return false;
    for (int i = 0; i < attempts && next_timer_ != never && limit > now_ + far_periods * period; ++i) {
        run(Stop::at_limit, now_ + settling * period);
        const std::vector<Rank> ranks = ranks_;
        const std::array<Bank, max_banks> banks = banks_;
        const uint64_t refreshes = counters_.refreshes, since = now_, row = row_slot_, column = column_slot_;
        run(Stop::at_limit, now_ + period);
        const uint64_t periods = idle_periods(limit);
        const bool same = moves(row, row_slot_, period, since) &&
                          moves(column, column_slot_, period, since) && repeats(ranks, banks, since);
        if (periods == 0 || !same) continue;
        const auto move = [&](uint64_t before, uint64_t& after) {
            if (after != before) after += periods * period;
        };
        for (size_t r = 0; r < ranks_.size(); ++r) {
            const Rank& before = ranks[r];
            Rank& rank = ranks_[r];
            for (size_t s = 0; s < rank_state_count; ++s)
                rank.times[s] += periods * (rank.times[s] - before.times[s]);
            move(before.state_since, rank.state_since);
            move(before.refresh_due, rank.refresh_due);
            for (size_t s = 0; s < t_.refresh_sets; ++s) {
                rank.refreshes[s].sum += periods * (rank.refreshes[s].sum - before.refreshes[s].sum);
                move(before.refreshes[s].begin, rank.refreshes[s].begin);
                move(before.refreshes[s].end, rank.refreshes[s].end);
            }
        }
        for (size_t b = 0; b < banks_.size(); ++b) {
            move(banks[b].activate_ready, banks_[b].activate_ready);
            move(banks[b].precharge_ready, banks_[b].precharge_ready);
            for (const size_t w : {0, 1}) move(banks[b].column_ready[w], banks_[b].column_ready[w]);
        }
        move(row, row_slot_);
        move(column, column_slot_);
        counters_.refreshes += periods * (counters_.refreshes - refreshes);
        now_ += periods * period;
        set_timer();
        chosen_ = false;
    }
    return now_ > begin;
}

/// Returns the whole periods from now on in which no rank comes to power-down or self-refresh for being idle
/// so long.
uint64_t Channel::idle_periods(uint64_t limit) const {
    uint64_t end = limit;
    for (const Rank& rank : ranks_) {
        for (const uint64_t wait : {config_.policy.power_down_nck, config_.policy.self_refresh_nck}) {
            const uint64_t due = rank.idle_since + wait;
            if (wait > 0 && due > now_ && rank.state != RankState::self_refresh) end = std::min(end, due);
        }
    }
    return (end - now_) / full_refresh(t_);
}

/// True if everything that decides what comes next is as it was a period ago, at `since`.
bool Channel::repeats(const std::vector<Rank>& ranks, const std::array<Bank, max_banks>& banks,
                      uint64_t since) const {
    const uint64_t period = full_refresh(t_);
    for (size_t r = 0; r < ranks.size(); ++r) {
        const Rank &a = ranks[r], &b = ranks_[r];
        const bool same = a.state == b.state && a.drain == b.drain && a.open_banks == 0 &&
                          b.open_banks == 0 && a.refresh_set == b.refresh_set;
        if (!same || !moves(a.state_since, b.state_since, period, since) ||
            b.refresh_due != a.refresh_due + period)
            return false;
        for (size_t s = 0; s < t_.refresh_sets; ++s) {
            if (b.refreshes[s].begin != a.refreshes[s].begin + period ||
                b.refreshes[s].end != a.refreshes[s].end + period)
                return false;
        }
    }
    for (size_t i = 0; i < banks.size(); ++i) {
        const Bank &a = banks[i], &b = banks_[i];
        const bool same = a.open == b.open && a.precharged_for_row == b.precharged_for_row;
        if (!same || !moves(a.activate_ready, b.activate_ready, period, since) ||
            !moves(a.precharge_ready, b.precharge_ready, period, since) ||
            !moves(a.column_ready[0], b.column_ready[0], period, since) ||
            !moves(a.column_ready[1], b.column_ready[1], period, since))
            return false;
    }
    return true;
}

/// Returns the end of the last refresh of any of its banks.
uint64_t Channel::refreshed_until(const Rank& rank) const {
    uint64_t end = 0;
    for (size_t s = 0; s < t_.refresh_sets; ++s) end = std::max(end, rank.refreshes[s].end);
    return end;
}

uint64_t Channel::timer_of(const Rank& rank) const {
    if (rank.drain != Drain::nothing || rank.state == RankState::self_refresh) return never;
    uint64_t time = rank.refresh_due;
    if (rank.waiting > 0) return time;
    if (config_.policy.power_down_nck > 0 && !rank.asleep())
        time =
            std::min(time, std::max(rank.idle_since + config_.policy.power_down_nck, refreshed_until(rank)));
    if (config_.policy.self_refresh_nck > 0)
        time = std::min(time,
                        std::max(rank.idle_since + config_.policy.self_refresh_nck, refreshed_until(rank)));
    return time;
}

void Channel::set_timer() {
    next_timer_ = never;
    for (const Rank& rank : ranks_) next_timer_ = std::min(next_timer_, timer_of(rank));
}

void Channel::hold(uint32_t r, Drain drain) {
    ranks_[r].drain = drain;
    held_ |= drained_banks(r);
}

void Channel::release(uint32_t r) {
    ranks_[r].drain = Drain::nothing;
    held_ &= ~banks_of(r);
}

void Channel::on_timer(uint32_t r, uint64_t time) {
    Rank& rank = ranks_[r];
    now_ = time;
    if (time >= rank.refresh_due) {
        if (rank.asleep()) wake(r, time);
        SetRefresh& times = rank.refreshes[rank.refresh_set];
        times.begin = std::max(rank.refresh_due, times.end);
        hold(r, Drain::refresh);
    } else if (config_.policy.self_refresh_nck > 0 &&
               time >= rank.idle_since + config_.policy.self_refresh_nck) {
        if (rank.asleep()) wake(r, time);
        hold(r, Drain::self_refresh);
    } else {
        const bool open = rank.open_banks > 0;
        rank.enter(open ? RankState::active_power_down : RankState::precharge_power_down, time);
        report(time, Command::enter_power_down, r);
    }
    set_timer();
}

uint64_t Channel::drain_time(const Rank& rank) const {
    const auto r = static_cast<uint32_t>(&rank - ranks_.data());
    const uint64_t banks = drained_banks(r);
    const bool open = any_open(banks);
    uint64_t time = std::max({now_, row_slot_, open ? rank.precharge_after : 0});
    for_each_bit(banks, [&](uint32_t b) {
        if (!open)
            time = std::max(time, banks_[b].activate_ready);
        else if (banks_[b].open)
            time = std::max(time, banks_[b].precharge_ready);
    });
    return time;
}

/// Takes the next step of a rank whose banks are to be precharged.
void Channel::drain(uint32_t r, uint64_t time) {
    Rank& rank = ranks_[r];
    take_slot(time, false, t_.precharge_clocks);
    const bool same_bank = t_.refresh_sets > 1 && rank.drain == Drain::refresh;
    if (any_open(drained_banks(r))) {
        if (same_bank) return precharge_same_bank(r, time);
        for_each_bit(banks_of(r), [&](uint32_t b) {
            if (banks_[b].open) close_row(banks_[b], b, time, t_.trp_ab);
        });
        for_each_bit(banks_of(r), [&](uint32_t b) {
            banks_[b].precharged_for_row = false;
            banks_[b].activate_ready = std::max(banks_[b].activate_ready, time + t_.trp_ab);
        });
        rank.enter(RankState::precharged, time);
        report(time, Command::precharge_all, r);
        return;
    }
    if (same_bank) {
        refresh_same_bank(r, time);
    } else if (rank.drain == Drain::refresh) {
        refresh(r, time);
    } else {
        rank.enter(RankState::self_refresh, time);
        report(time, Command::enter_self_refresh, r);
    }
    release(r);
    set_timer();
}

void Channel::refresh(uint32_t r, uint64_t time) {
    Rank& rank = ranks_[r];
    rank.enter(RankState::refreshing, time);
    SetRefresh& times = rank.refreshes[0];
    times.end = time + t_.trfc;
    times.sum += times.end - times.begin;
    rank.refresh_due += t_.trefi;
    ++counters_.refreshes;
    use_.begin(times.end);
    for_each_bit(banks_of(r), [&](uint32_t b) {
        banks_[b].activate_ready = times.end;
        banks_[b].precharged_for_row = false;
    });
    if (activities_ != nullptr) {
        end_move();
        activities_->push_back({idle() ? time : work_since_, times.end, times.end, time});
    }
    report(time, Command::refresh, r);
}

/// Begins work: a burst has come to a rank without any.
void Channel::begin_work(Rank& rank, uint32_t b) {
    const uint32_t r = banks_[b].rank;
    if (rank.drain == Drain::self_refresh) release(r);
    if (rank.asleep()) {
        wake(r, now_);
        SetRefresh& times = rank.refreshes[set_of(b)];
        times.begin = now_;
        times.end = std::max(banks_[b].activate_ready, now_);
        times.sum += times.end - now_;
    }
    set_timer();
    chosen_ = false;
}

void Channel::wake(uint32_t r, uint64_t time) {
    Rank& rank = ranks_[r];
    const bool self_refresh = rank.state == RankState::self_refresh;
    const uint64_t exit = std::max(time, rank.state_since + t_.tcke);
    const uint64_t resume = exit + (self_refresh ? t_.txs : t_.txp);
    if (self_refresh) rank.refresh_due = exit + t_.refresh_interval();
    for_each_bit(banks_of(r), [&](uint32_t b) {
        Bank& bank = banks_[b];
        for (uint64_t* ready :
             {&bank.activate_ready, &bank.precharge_ready, &bank.column_ready[0], &bank.column_ready[1]})
            *ready = std::max(*ready, resume);
    });
    rank.enter(rank.open_banks > 0 ? RankState::active : RankState::precharged, exit);
    report(exit, self_refresh ? Command::exit_self_refresh : Command::exit_power_down, r);
}

}  // namespace kpu::dram
