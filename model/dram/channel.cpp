#include "model/dram/channel.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "isa/diagnostics.hpp"
#include "model/dram/bits.hpp"

// Private functions are inline here: in position-independent code the compiler may not inline others, and a
// burst passes most of them.
namespace kpu::dram {
namespace {

/// Clocks between the commands of two column accesses, so that the second one's data, `gap` clocks after the
/// first one's, find the bus free.
uint32_t bus_spacing(uint32_t first_latency, uint32_t second_latency, uint32_t burst, uint32_t gap) {
    const int64_t clocks = int64_t{first_latency} + burst + gap - second_latency;
    return static_cast<uint32_t>(std::max<int64_t>(1, clocks));
}

}  // namespace

Channel::Channel(const Config& config)
    : config_(config),
      t_(config.timing),
      front_(config.policy.request_nck),
      back_(config.policy.response_nck),
      banks_per_rank_(config.geometry.banks_per_rank()),
      rank_count_(config.geometry.ranks),
      rank_banks_(banks_per_rank_ == 64 ? ~uint64_t{0} : (uint64_t{1} << banks_per_rank_) - 1),
      queues_{RequestQueue(config.policy.read_queue), RequestQueue(config.policy.write_queue)},
      ranks_(config.geometry.ranks),
      now_(config.policy.request_nck) {
    for (uint32_t b = 0; b < config.geometry.banks(); ++b) {
        banks_[b].rank = static_cast<uint16_t>(b / banks_per_rank_);
        banks_[b].group = static_cast<uint16_t>(b / config.geometry.banks_per_group);
    }
    // staggered, so that several ranks do not pause together
    for (uint32_t r = 0; r < rank_count_; ++r)
        ranks_[r].refresh_due = uint64_t{t_.trefi} * (r + 1) / rank_count_;
    const uint32_t ccd_s = std::max(t_.tccd_s, t_.burst), ccd_l = std::max(t_.tccd_l, t_.burst);
    const uint32_t write_end = t_.cwl + t_.burst;
    spacing_[0][0] = {ccd_l, ccd_s, t_.burst + t_.trtrs};
    spacing_[1][1] = spacing_[0][0];
    spacing_[0][1] = {t_.rd_to_wr, t_.rd_to_wr, bus_spacing(t_.cl, t_.cwl, t_.burst, t_.trtrs)};
    spacing_[1][0] = {write_end + t_.twtr_l, write_end + t_.twtr_s,
                      bus_spacing(t_.cwl, t_.cl, t_.burst, t_.trtrs)};
    set_timer();
}

void Channel::push(const Request& request) {
    const uint64_t arrival = request.time + front_;
    if (arrival < now_)
        throw InternalError(fmt::format("DRAM request of clock {} after clock {}", request.time, now()));
    RequestQueue& queue = queues_[request.is_write];
    if (queue.full()) throw InternalError("DRAM request without room for it");
    now_ = arrival;
    const AddressMap::Place place = config_.map.place(request.address);
    const uint64_t burst = config_.map.burst_of(request.address);
    if (request.is_write) {
        completions_.push_back({request.tag, request.time, arrival + back_, {}, true, false, false});
    } else if (!queues_[1].empty() && queues_[1].holds(place.bank, burst)) {
        ++counters_.forwarded;
        completions_.push_back({request.tag, request.time, arrival + back_, {}, false, true, true});
        return;
    }
    const Bank& bank = banks_[place.bank];
    Rank& rank = ranks_[bank.rank];
    if (rank.waiting++ == 0) {
        if (rank.drain == Drain::self_refresh) release(bank.rank);
        if (rank.asleep()) {
            wake(bank.rank, arrival);
            rank.refresh_begin = arrival;
            rank.refresh_end = std::max(activate_ready_[place.bank], arrival);
            rank.refresh_sum += rank.refresh_end - arrival;
        }
        set_timer();
        chosen_ = false;
    }
    const Waiting before = waiting_[request.is_write];
    queue.push(place.bank, bank.open ? bank.row : ~0u,
               {arrival, arrivals_++, burst, request.tag, refresh_time_until(rank, arrival), turn_around_sum_,
                place.row, 0, 0, 0, 0});
    // behind others of its bank it changes what is useful only as the first to the open row
    const RequestQueue::List& list = queue.list(place.bank);
    if (list.head == list.tail || (list.hits == 1 && list.hit == list.tail))
        classify(place.bank, request.is_write);
    add_candidate(request.is_write, place.bank, before);
}

void Channel::post(const Request& request) {
    std::deque<Posted>& posted = posted_[request.is_write];
    if (posted.empty() && has_room(request.is_write))
        push(request);
    else
        posted.push_back({request.address, request.tag});
}

/// A burst has left its queue at `time`.
void Channel::admit(bool is_write, uint64_t time) {
    now_ = time + 1;
    std::deque<Posted>& posted = posted_[is_write];
    for (; !posted.empty() && has_room(is_write); posted.pop_front())
        push({now(), posted.front().address, is_write, posted.front().tag});
}

inline void Channel::classify(uint32_t bank, bool is_write) {
    const uint64_t bit = uint64_t{1} << bank;
    Waiting& waiting = waiting_[is_write];
    waiting.column &= ~bit;
    waiting.activate &= ~bit;
    waiting.precharge &= ~bit;
    const RequestQueue::List& list = queues_[is_write].list(bank);
    if (list.head == RequestQueue::none) return;
    const Bank& state = banks_[bank];
    if (!state.open) {
        waiting.activate |= bit;
        return;
    }
    const bool conflict = list.hit != list.head;  // of the oldest burst
    if (conflict) waiting.precharge |= bit;
    if (list.hits > 0 && !(conflict && state.served >= config_.policy.row_hit_cap)) waiting.column |= bit;
}

/// Whether writes are served now.
inline bool Channel::direction_now() const {
    const uint32_t writes = queues_[1].size();
    if (writes == 0) return false;
    if (queues_[0].empty() || writes >= config_.policy.write_high) return true;
    return writing_ && writes > config_.policy.write_low;
}

void Channel::advance(uint64_t until) { run<Stop::at_limit>(until + front_); }

void Channel::advance_to_completion(uint64_t until) { run<Stop::at_completion>(until + front_); }

void Channel::advance_to_room(bool is_write, uint64_t until) {
    if (has_room(is_write)) return;
    if (is_write)
        run<Stop::at_room_to_write>(until + front_);
    else
        run<Stop::at_room_to_read>(until + front_);
}

void Channel::advance_to_idle(uint64_t until) {
    if (!idle()) run<Stop::at_idle>(until + front_);
}

template <Channel::Stop stop>
void Channel::run(uint64_t limit) {
    for (;;) {
        if (!chosen_) choose();
        const Choice choice = choice_;
        if (choice.time >= limit) break;
        chosen_ = false;
        execute(choice);
        if (choice.kind != Kind::column) continue;
        if (!posted_[0].empty() || !posted_[1].empty()) {
            admit(writing_, choice.time);
            if (now_ >= limit) return;  // what arrives now is seen before the next decision
        }
        if (stop == Stop::at_limit || (stop == Stop::at_idle && !idle())) continue;
        if (stop != Stop::at_idle && writing_ != (stop == Stop::at_room_to_write)) continue;
        now_ = choice.time + 1;
        return;
    }
    now_ = std::max(now_, limit);
}

/// Most often the oldest burst of all can go as soon as the bus can, and there is no row to open or close.
inline bool Channel::choose_oldest() {
    const Waiting& waiting = waiting_[writing_];
    if ((waiting.activate | waiting.precharge | held_) != 0 || rank_count_ > 1) return false;
    const Entry* oldest = queues_[writing_].oldest_hit();
    if (oldest == nullptr || (waiting.column >> oldest->bank & 1) == 0) return false;
    const uint64_t soonest = std::max({now_, column_slot_, ranks_.front().column_after[writing_]});
    if (column_time(oldest->bank) > soonest || next_timer_ <= soonest) return false;
    choice_ = {soonest, oldest->bank, Kind::column};
    return true;
}

inline void Channel::choose() {
    chosen_ = true;
    writing_ = direction_now();
    if (choose_oldest()) return;
    Candidate best;
    choose_column(best);
    choose_row(best);
    Choice choice;
    if (best.key != ~uint64_t{0}) choice = {now_ + best.clocks(), best.bank, best.kind};
    choose_maintenance(choice);
    choice_ = choice;
}

/// No burst waits for 2^31 others.
inline uint64_t Channel::key_of(uint64_t time, uint64_t number) const {
    return (time - now_) << 32 | static_cast<uint32_t>(number - arrivals_ + 0x80000000u);
}

inline uint64_t Channel::column_time(uint32_t b) const {
    return std::max(column_ready_[writing_][b], column_after_[writing_][banks_[b].group]);
}

inline uint64_t Channel::activate_time(uint32_t b) const {
    return std::max(activate_ready_[b], activate_after_[banks_[b].group]);
}

inline uint64_t Channel::precharge_time(uint32_t b) const { return precharge_ready_[b]; }

/// The oldest of those bursts that can go first.
inline void Channel::choose_column(Candidate& best) const {
    const RequestQueue& queue = queues_[writing_];
    const uint64_t waiting = waiting_[writing_].column & ~held_;
    for (uint32_t r = 0; r < rank_count_; ++r) {
        const uint64_t floor = std::max({now_, column_slot_, ranks_[r].column_after[writing_]});
        for_each_bit(waiting & banks_of(r), [&](uint32_t b) {
            best.consider(key_of(std::max(floor, column_time(b)), queue.hit_number(b)), b);
        });
    }
}

/// A row command, unless a column command can go no later. Of a precharge and a column command that can go at
/// the same time, the one for the older burst goes first: else hits would keep a row open that an older burst
/// waits to see closed.
inline void Channel::choose_row(Candidate& best) const {
    const Waiting& waiting = waiting_[writing_];
    if (((waiting.activate | waiting.precharge) & ~held_) == 0) return;
    const RequestQueue& queue = queues_[writing_];
    const uint64_t column_clocks = best.clocks();
    const uint64_t slot = std::max(now_, row_slot_);
    Candidate precharge{best.key, best.bank, best.kind};
    for (uint32_t r = 0; r < rank_count_; ++r) {
        // precharges first: they can often go at once, and then no activate can go sooner
        const uint64_t banks = banks_of(r) & ~held_;
        const uint64_t close_floor = std::max(slot, ranks_[r].precharge_after);
        for_each_bit(waiting.precharge & banks, [&](uint32_t b) {
            precharge.consider(key_of(std::max(close_floor, precharge_time(b)), queue.head_number(b)), b);
        });
        if (precharge.key < best.key) best = {precharge.key, precharge.bank, Kind::precharge};
        const uint64_t open_floor = std::max(slot, ranks_[r].activate_after);
        const uint64_t clocks = open_floor - now_;
        if (clocks > best.clocks() || clocks >= column_clocks) continue;
        Candidate activate;
        for_each_bit(waiting.activate & banks, [&](uint32_t b) {
            activate.consider(key_of(std::max(open_floor, activate_time(b)), queue.head_number(b)), b);
        });
        if (activate.clocks() < column_clocks && activate.key < best.key)
            best = {activate.key, activate.bank, Kind::activate};
        precharge.key = std::min(precharge.key, best.key);
    }
}

/// A burst has come: what was to be done next still is, unless the new burst can go sooner.
inline void Channel::add_candidate(bool is_write, uint32_t b, const Waiting& before) {
    if (!chosen_) return;
    if (direction_now() != writing_) {
        chosen_ = false;
        return;
    }
    const uint64_t bit = uint64_t{1} << b;
    const Waiting& waiting = waiting_[is_write];
    const auto added = [bit](uint64_t now, uint64_t then) { return (now & ~then & bit) != 0; };
    if (is_write != writing_) return;
    uint64_t time =
        never;  // an older burst of the bank goes first, unless this is the first to want its command
    if (added(waiting.column, before.column))
        time = std::max({column_slot_, column_time(b), ranks_[banks_[b].rank].column_after[writing_]});
    if (added(waiting.activate, before.activate)) time = std::max(row_slot_, activate_time(b));
    if (added(waiting.precharge, before.precharge))
        time = std::min(time, std::max(row_slot_, precharge_time(b)));
    if (std::max(now_, time) <= choice_.time) chosen_ = false;
}

/// Refresh and power states go first.
inline void Channel::choose_maintenance(Choice& best) const {
    for_each_bit(held_ == 0 ? 0 : (uint64_t{1} << rank_count_) - 1, [&](uint32_t r) {
        if (ranks_[r].drain == Drain::nothing) return;
        const uint64_t time = drain_time(ranks_[r]);
        if (time <= best.time) best = {time, r, Kind::drain};
    });
    if (next_timer_ > best.time) return;
    for (uint32_t r = 0; r < rank_count_; ++r) {
        if (timer_of(ranks_[r]) != next_timer_) continue;
        best = {std::max(now_, next_timer_), r, Kind::timer};
        return;
    }
}

inline void Channel::execute(const Choice& choice) {
    switch (choice.kind) {
        case Kind::column:
            issue_column(choice.target, choice.time);
            break;
        case Kind::activate:
            issue_activate(choice.target, choice.time);
            break;
        case Kind::precharge:
            issue_precharge(choice.target, choice.time);
            break;
        case Kind::timer:
            on_timer(choice.target, choice.time);
            break;
        case Kind::drain:
            drain(choice.target, choice.time);
            break;
    }
}

inline void Channel::issue_column(uint32_t b, uint64_t time) {
    const bool write = writing_;
    Bank& bank = banks_[b];
    Rank& rank = ranks_[bank.rank];
    RequestQueue& queue = queues_[write];
    const Entry& entry = queue.hit(b);
    if (any_column_ && write != last_was_write_) {
        const uint64_t otherwise =
            std::max({column_ready_[write][b], entry.arrival, last_column_ + spacing_[0][0][1]});
        if (time > otherwise) turn_around_sum_ += time - otherwise;
    }
    if (bank.served++ > 0) ++counters_.row_hits;
    if (write) {
        ++counters_.writes;
        counters_.last_write = time + 1;
    } else {
        ++counters_.reads;
        complete(entry, b, time);
    }
    counters_.data_clocks += t_.burst;
    const uint64_t data_end = time + (write ? t_.cwl : t_.cl) + t_.burst;
    const uint64_t close = write ? data_end + t_.twr : time + t_.trtp;
    precharge_ready_[b] = std::max(precharge_ready_[b], close);
    rank.idle_since = std::max(rank.idle_since, write ? close : data_end);
    queue.pop_hit(b);
    if (--rank.waiting == 0) set_timer();
    // while the oldest of the bank is to the open row, the next one's command is the same
    const RequestQueue::List& list = queue.list(b);
    if (list.hits == 0 || list.hit != list.head) classify(b, write);
    if (bank.served == config_.policy.row_hit_cap) classify(b, !write);
    space_columns(bank, time);
    last_column_ = time;
    last_was_write_ = write;
    any_column_ = true;
    take_slot(time, true);
    report(time, write ? Command::write : Command::read, bank.rank, b);
}

inline void Channel::space_columns(const Bank& bank, uint64_t time) {
    const auto later = [time](uint64_t& after, uint32_t spacing) { after = std::max(after, time + spacing); };
    for (int second = 0; second < 2; ++second) {
        const auto& spacing = spacing_[writing_][second];
        later(column_after_[second][bank.group], spacing[0]);
        later(ranks_[bank.rank].column_after[second], spacing[1]);
        if (rank_count_ == 1) continue;
        for (uint32_t r = 0; r < rank_count_; ++r) {
            if (r != bank.rank) later(ranks_[r].column_after[second], spacing[2]);
        }
    }
}

inline void Channel::complete(const Entry& entry, uint32_t b, uint64_t time) {
    const Bank& bank = banks_[b];
    auto left = static_cast<uint32_t>(time - entry.arrival);
    const auto take = [&left](uint64_t clocks) {
        const auto part = static_cast<uint32_t>(std::min<uint64_t>(clocks, left));
        left -= part;
        return part;
    };
    Waits waits;
    const uint64_t from = std::max(entry.arrival, bank.opening), to = std::min(time, column_ready_[0][b]);
    waits.refresh = take(ranks_[bank.rank].refresh_sum - entry.refresh_before);
    waits.row = take(to > from ? to - from : 0);
    waits.turn_around = take(turn_around_sum_ - entry.turn_around_before);
    waits.busy = left;
    completions_.push_back({entry.tag, entry.arrival - front_, time + t_.cl + t_.burst + back_, waits, false,
                            bank.served > 1, false});
}

inline void Channel::issue_activate(uint32_t b, uint64_t time) {
    Bank& bank = banks_[b];
    Rank& rank = ranks_[bank.rank];
    bank.row = queues_[writing_].head(b).row;
    bank.open = true;
    bank.served = 0;
    if (!bank.precharged_for_row) bank.opening = time;
    bank.precharged_for_row = false;
    column_ready_[0][b] = time + t_.trcd_rd;
    column_ready_[1][b] = time + t_.trcd_wr;
    precharge_ready_[b] = time + t_.tras;
    activate_ready_[b] = time + t_.trc;
    activate_after_[bank.group] = time + t_.trrd_l;
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
    take_slot(time, false);
    report(time, Command::activate, bank.rank, b, bank.row);
}

void Channel::close_row(Bank& bank, uint32_t b, uint64_t time, uint64_t trp) {
    bank.open = false;
    activate_ready_[b] = std::max(activate_ready_[b], time + trp);
    --ranks_[bank.rank].open_banks;
    ++counters_.precharges;
    for (const bool is_write : {false, true}) {
        queues_[is_write].close(b);
        classify(b, is_write);
    }
}

inline void Channel::issue_precharge(uint32_t b, uint64_t time) {
    Bank& bank = banks_[b];
    Rank& rank = ranks_[bank.rank];
    close_row(bank, b, time, t_.trp);
    bank.opening = time;
    bank.precharged_for_row = true;
    rank.precharge_after = time + t_.tppd;
    if (rank.open_banks == 0) rank.enter(RankState::precharged, time);
    take_slot(time, false);
    report(time, Command::precharge, bank.rank, b);
}

inline uint64_t Channel::refresh_time_until(const Rank& rank, uint64_t time) {
    if (rank.drain == Drain::refresh) return rank.refresh_sum + time - std::min(time, rank.refresh_begin);
    return rank.refresh_sum - (rank.refresh_end > time ? rank.refresh_end - time : 0);
}

uint64_t Channel::next_completion_bound() const {
    // what is posted enters behind the next column command at the earliest, and is then answered at once if
    // it is a write, or reads what waits to be written
    if (!posted_[1].empty() || (!posted_[0].empty() && !queues_[1].empty())) return now_ + 1 + back_;
    if (queues_[0].empty()) return never;
    return std::max(now_, column_slot_) + t_.cl + t_.burst + back_;
}

Counters Channel::counters(uint64_t until) const {
    Counters counters = counters_;
    for (Rank rank : ranks_) {
        rank.enter(rank.state, until);
        for (size_t s = 0; s < rank_state_count; ++s) counters.rank_times[s] += rank.times[s];
    }
    return counters;
}

}  // namespace kpu::dram
