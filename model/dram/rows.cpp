// Rows of a channel's banks: opened for the oldest burst of a bank, closed for another row.
#include <algorithm>

#include "model/dram/channel.hpp"

namespace kpu::dram {

void Channel::issue_activate(uint32_t b, uint64_t time) {
    Bank& bank = banks_[b];
    Rank& rank = ranks_[bank.rank];
    const Entry& oldest = queues_[decided_].head(b);
    bank.row = oldest.row;
    fresh_ |= uint64_t{1} << b;
    bank.open = true;
    bank.served = 0;
    if (!bank.precharged_for_row) bank.opening = time;
    bank.precharged_for_row = false;
    bank.column_ready = {time + t_.trcd_rd, time + t_.trcd_wr};
    bank.precharge_ready = time + t_.tras;
    bank.activate_ready = time + t_.trc;
    groups_[bank.group].activate_after = time + t_.trrd_l;
    rank.activates[rank.next_activate] = time + 1;
    rank.next_activate = (rank.next_activate + 1) % 4;
    const uint64_t fourth = rank.activates[rank.next_activate];
    rank.activate_after = std::max(time + t_.trrd_s, fourth == 0 ? 0 : fourth - 1 + t_.tfaw);
    if (rank.open_banks++ == 0) rank.enter(RankState::active, time);
    ++counters_.activates;
    for (const bool is_write : {false, true}) {
        queues_[is_write].open(b, bank.row);
        classify(b, is_write);
    }
    take_slot(time, false, t_.activate_clocks);
    if (observer_ != nullptr)
        report(time, Command::activate, bank.rank, b, bank.row, source_of(oldest, decided_));
}

void Channel::issue_precharge(uint32_t b, uint64_t time) {
    Bank& bank = banks_[b];
    Rank& rank = ranks_[bank.rank];
    close_row(bank, b, time, t_.trp);
    bank.opening = time;
    bank.precharged_for_row = true;
    rank.precharge_after = time + t_.tppd;
    if (rank.open_banks == 0) rank.enter(RankState::precharged, time);
    take_slot(time, false, t_.precharge_clocks);
    report(time, Command::precharge, bank.rank, b);
}

void Channel::close_row(Bank& bank, uint32_t b, uint64_t time, uint64_t trp) {
    bank.open = false;
    fresh_ &= ~(uint64_t{1} << b);
    bank.activate_ready = std::max(bank.activate_ready, time + trp);
    --ranks_[bank.rank].open_banks;
    ++counters_.precharges;
    for (const bool is_write : {false, true}) {
        queues_[is_write].close(b);
        classify(b, is_write);
    }
}

}  // namespace kpu::dram
