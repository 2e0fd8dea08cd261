// Refresh, power-down and self-refresh of the ranks of a channel.
#include <algorithm>

#include "model/dram/bits.hpp"
#include "model/dram/channel.hpp"

namespace kpu::dram {

uint64_t Channel::timer_of(const Rank& rank) const {
    if (rank.drain != Drain::nothing || rank.state == RankState::self_refresh) return never;
    uint64_t time = rank.refresh_due;
    if (rank.waiting > 0) return time;
    if (config_.policy.power_down_nck > 0 && !rank.asleep())
        time = std::min(time, std::max(rank.idle_since + config_.policy.power_down_nck, rank.refresh_end));
    if (config_.policy.self_refresh_nck > 0)
        time = std::min(time, std::max(rank.idle_since + config_.policy.self_refresh_nck, rank.refresh_end));
    return time;
}

void Channel::set_timer() {
    next_timer_ = never;
    for (const Rank& rank : ranks_) next_timer_ = std::min(next_timer_, timer_of(rank));
}

void Channel::hold(uint32_t r, Drain drain) {
    ranks_[r].drain = drain;
    held_ |= banks_of(r);
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
        rank.refresh_begin = std::max(rank.refresh_due, rank.refresh_end);
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
    uint64_t time = std::max({now_, row_slot_, rank.open_banks > 0 ? rank.precharge_after : 0});
    for_each_bit(banks_of(r), [&](uint32_t b) {
        if (rank.open_banks == 0)
            time = std::max(time, banks_[b].activate_ready);
        else if (banks_[b].open)
            time = std::max(time, banks_[b].precharge_ready);
    });
    return time;
}

/// The next step of a rank whose banks are to be precharged.
void Channel::drain(uint32_t r, uint64_t time) {
    Rank& rank = ranks_[r];
    take_slot(time, false);
    if (rank.open_banks > 0) {
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
    if (rank.drain == Drain::refresh) {
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
    rank.refresh_end = time + t_.trfc;
    rank.refresh_sum += rank.refresh_end - rank.refresh_begin;
    rank.refresh_due += t_.trefi;
    ++counters_.refreshes;
    for_each_bit(banks_of(r), [&](uint32_t b) {
        banks_[b].activate_ready = rank.refresh_end;
        banks_[b].precharged_for_row = false;
    });
    if (activities_ != nullptr) {
        end_move();
        activities_->push_back({idle() ? time : work_since_, rank.refresh_end, rank.refresh_end, time});
    }
    report(time, Command::refresh, r);
}

/// A burst has come to a rank without any.
void Channel::begin_work(Rank& rank, uint32_t b) {
    const uint32_t r = banks_[b].rank;
    if (rank.drain == Drain::self_refresh) release(r);
    if (rank.asleep()) {
        wake(r, now_);
        rank.refresh_begin = now_;
        rank.refresh_end = std::max(banks_[b].activate_ready, now_);
        rank.refresh_sum += rank.refresh_end - now_;
    }
    set_timer();
    chosen_ = false;
}

void Channel::wake(uint32_t r, uint64_t time) {
    Rank& rank = ranks_[r];
    const bool self_refresh = rank.state == RankState::self_refresh;
    const uint64_t exit = std::max(time, rank.state_since + t_.tcke);
    const uint64_t resume = exit + (self_refresh ? t_.txs : t_.txp);
    if (self_refresh) rank.refresh_due = exit + t_.trefi;
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
