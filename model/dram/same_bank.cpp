// Same-bank refresh, as DDR5 has it: one bank of every group of a rank at a time, while the others go on.
#include <algorithm>

#include "model/dram/bits.hpp"
#include "model/dram/channel.hpp"

namespace kpu::dram {

/// Returns the banks of a rank that take no command until they are precharged: all of them, or those of the
/// next same-bank refresh.
uint64_t Channel::drained_banks(uint32_t r) const {
    const uint64_t all = banks_of(r);
    if (t_.refresh_sets == 1 || ranks_[r].drain != Drain::refresh) return all;
    uint64_t banks = 0;
    for_each_bit(all, [&](uint32_t b) {
        if (set_of(b) == ranks_[r].refresh_set) banks |= uint64_t{1} << b;
    });
    return banks;
}

bool Channel::any_open(uint64_t banks) const {
    bool open = false;
    for_each_bit(banks, [&](uint32_t b) { open = open || banks_[b].open; });
    return open;
}

void Channel::precharge_same_bank(uint32_t r, uint64_t time) {
    Rank& rank = ranks_[r];
    for_each_bit(drained_banks(r), [&](uint32_t b) {
        if (banks_[b].open) close_row(banks_[b], b, time, t_.trp);
        banks_[b].precharged_for_row = false;
        banks_[b].activate_ready = std::max(banks_[b].activate_ready, time + t_.trp);
    });
    rank.precharge_after = time + t_.tppd;
    if (rank.open_banks == 0) rank.enter(RankState::precharged, time);
    report(time, Command::precharge_same, r, r * banks_per_rank_ + rank.refresh_set);
}

/// Refreshes the same bank of each group. The rank keeps its power state: other banks work on.
void Channel::refresh_same_bank(uint32_t r, uint64_t time) {
    Rank& rank = ranks_[r];
    SetRefresh& times = rank.refreshes[rank.refresh_set];
    times.end = time + t_.trfc_sb;
    times.sum += times.end - times.begin;
    rank.refresh_due += t_.refresh_interval();
    rank.activate_after = std::max(rank.activate_after, time + t_.trefsb_to_act);
    ++counters_.refreshes;
    for_each_bit(drained_banks(r), [&](uint32_t b) {
        banks_[b].activate_ready = times.end;
        banks_[b].precharged_for_row = false;
    });
    report(time, Command::refresh_same, r, r * banks_per_rank_ + rank.refresh_set);
    rank.refresh_set = (rank.refresh_set + 1) % t_.refresh_sets;
}

}  // namespace kpu::dram
