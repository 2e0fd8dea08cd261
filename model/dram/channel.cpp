#include "model/dram/channel.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/diagnostics.hpp"
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
        ranks_[r].refresh_due = uint64_t{t_.refresh_interval()} * (r + 1) / rank_count_;
    const uint32_t ccd_s = std::max(t_.tccd_s, t_.burst), ccd_l = std::max(t_.tccd_l, t_.burst);
    const uint32_t write_end = t_.cwl + t_.burst;
    spacing_[0][0] = {ccd_l, ccd_s, t_.burst + t_.trtrs};
    spacing_[1][1] = {std::max(t_.tccd_l_wr, t_.burst), ccd_s, t_.burst + t_.trtrs};
    spacing_[0][1] = {t_.rd_to_wr, t_.rd_to_wr, bus_spacing(t_.cl, t_.cwl, t_.burst, t_.trtrs)};
    spacing_[1][0] = {write_end + t_.twtr_l, write_end + t_.twtr_s,
                      bus_spacing(t_.cwl, t_.cl, t_.burst, t_.trtrs)};
    set_timer();
}

void Channel::push(const Request& request) {
    if (!has_room(request.is_write)) throw InternalError("DRAM request without room for it");
    post(request);
}

void Channel::post(const Request& request) {
    const uint64_t arrival = request.time + front_;
    if (arrival < now_)
        throw InternalError(fmt::format("DRAM request of clock {} after clock {}", request.time, now()));
    now_ = arrival;
    if (idle()) {
        work_since_ = request.time;
        use_.begin(now_);
    }
    std::deque<Posted>& waiting = posted_[request.is_write];
    Posted posted{request.address, open(request), request.bursts};
    if (waiting.empty()) enter(posted, request.is_write);
    if (posted.bursts == 0) return;
    waiting.push_back(posted);
    posted_bursts_ += posted.bursts;
}

uint32_t Channel::open(const Request& request) {
    const uint32_t place = open_.take();
    open_[place] = {{request.tag, request.time, 0, {0, 0, 0, ~0u}, request.is_write, request.bursts, 0},
                    request.bursts,
                    request.source};
    return place;
}

/// Bursts enter their queue while there is room.
inline void Channel::enter(Posted& posted, bool is_write) {
    for (; posted.bursts > 0 && has_room(is_write); --posted.bursts) {
        enter_burst(posted.address, posted.request, is_write);
        posted.address += config_.geometry.burst_bytes;
    }
}

/// Admits a burst: one has left its queue at `time`.
void Channel::admit(bool is_write, uint64_t time) {
    now_ = time + 1;
    for (std::deque<Posted>& waiting = posted_[is_write]; !waiting.empty(); waiting.pop_front()) {
        Posted& posted = waiting.front();
        posted_bursts_ -= posted.bursts;
        enter(posted, is_write);
        posted_bursts_ += posted.bursts;
        if (posted.bursts > 0) return;
    }
}

/// Enters a burst in its queue now, or answers it by what waits to be written.
inline void Channel::enter_burst(uint64_t address, uint32_t request, bool is_write) {
    const AddressMap::Place place = config_.map.place(address);
    const uint64_t burst = config_.map.burst_of(address);
    const bool forwarded = !is_write && !queues_[1].empty() && queues_[1].holds(place.bank, burst);
    const uint32_t whose = is_write ? open_[request].source : request;
    Completion& known = open_[request].completion;
    if (forwarded) {
        ++counters_.forwarded;
        --known.bursts;
    }
    if (is_write || forwarded)
        answer(request, now_ + back_, {0, 0, 0, static_cast<uint32_t>(now_ - front_ - known.arrival)});
    if (forwarded) return;
    const Bank& bank = banks_[place.bank];
    Rank& rank = ranks_[bank.rank];
    if (rank.waiting++ == 0) begin_work(rank, place.bank);
    RequestQueue& queue = queues_[is_write];
    queue.push(place.bank, bank.open ? bank.row : RequestQueue::no_row,
               {now_, burst, refresh_time_until(place.bank, now_), turn_around_sum_, place.row, whose});
    if (chosen_ && (direction_now() != decided_ || decided_ != writing_)) chosen_ = false;
    // after others of its bank it changes what is useful only as the first to the open row
    const RequestQueue::List& list = queue.list(place.bank);
    if (list.head != list.tail && (list.hits != 1 || list.hit != list.tail)) return;
    const Waiting before = waiting_[is_write];
    classify(place.bank, is_write);
    if (chosen_ && is_write == writing_) choose_again_with(place.bank, before);
}

/// Notes that one more burst of a request has been answered.
inline void Channel::answer(uint32_t request, uint64_t done, const Waits& waits) {
    Open& open = open_[request];
    if (--open.left > 0) return add(open.completion, done, waits);
    completions_.push_back(open.completion);  // first: a copy of what was just written would wait for that
    add(completions_.back(), done, waits);
    completions_.back().held = use_.held(last_column_);
    open_.give_back(request);
}

inline void Channel::add(Completion& known, uint64_t done, const Waits& waits) {
    known.done = std::max(known.done, done);
    known.waits.row = std::max(known.waits.row, waits.row);
    known.waits.refresh = std::max(known.waits.refresh, waits.refresh);
    if (waits.busy + waits.turn_around < known.waits.busy + known.waits.turn_around) {
        known.waits.busy = waits.busy;
        known.waits.turn_around = waits.turn_around;
    }
}

/// Notes that a burst is the first of its activate.
void Channel::open_first(const Entry& entry, bool is_write) {
    ++first_columns_;
    if (!is_write) ++open_[entry.request].completion.activates;
}

/// True if writes are served now.
inline bool Channel::direction_now() const {
    const uint32_t writes = queues_[1].size();
    if (writes == 0) return false;
    if (queues_[0].empty() || writes >= config_.policy.write_high) return true;
    return decided_ && writes > config_.policy.write_low;
}

/// Decides which direction is served. Rows that were opened for the old one, and would be closed unused,
/// serve it first, while those for the new one open.
inline void Channel::decide_direction() {
    decided_ = direction_now();
    if (unserved() == 0) writing_ = decided_;
}

void Channel::advance(uint64_t until) { run(Stop::at_limit, until + front_); }

void Channel::advance_to_completion(uint64_t until) { run(Stop::at_completion, until + front_); }

void Channel::advance_to_room(bool is_write, uint64_t until) {
    if (has_room(is_write)) return;
    run(is_write ? Stop::at_room_to_write : Stop::at_room_to_read, until + front_);
}

void Channel::advance_to_idle(uint64_t until) {
    if (!idle()) run(Stop::at_idle, until + front_);
}

/// Issues the chosen column command. When that was for the oldest burst, and nothing else can come between,
/// those of the next ones, too.
[[gnu::always_inline]] inline void Channel::issue_columns(Choice choice, uint64_t limit, bool go_on) {
    const bool write = writing_;
    const uint32_t to_data = write ? t_.cwl : t_.cl, to_close = write ? t_.cwl + t_.burst + t_.twr : t_.trtp;
    const uint32_t spacing = spacing_[write][write][1];
    RequestQueue& queue = queues_[write];
    Rank& rank = ranks_[banks_[choice.target].rank];
    if (write != last_was_write_) turn_around(choice);
    for (;;) {
        Bank& bank = banks_[choice.target];
        const Entry& entry = queue.hit(choice.target);
        const uint32_t source = observer_ == nullptr ? 0 : source_of(entry, write);
        if (bank.served++ == 0) open_first(entry, write);
        if (!write) complete(entry, choice.target, choice.time);
        bank.precharge_ready = std::max(bank.precharge_ready, choice.time + to_close);
        rank.idle_since = std::max(rank.idle_since, choice.time + (write ? to_close : to_data + t_.burst));
        const RequestQueue::List& list = queue.pop_hit(choice.target);
        if (list.hits == 0 || bank.served >= turn_cap) fresh_ &= ~(uint64_t{1} << choice.target);
        if (--rank.waiting == 0) set_timer();
        // while the oldest of the bank is to the open row, the next one's command is the same
        if (list.hits == 0 || list.hit != list.head) classify(choice.target, write);
        if (bank.served == config_.policy.row_hit_cap) classify(choice.target, !write);
        space_group(groups_[bank.group], choice.time);
        ++columns_[write];
        use_.data += t_.burst;
        if (activities_ != nullptr) move_data(choice.time + to_data, choice.time);
        report(choice.time, write ? Command::write : Command::read, bank.rank, choice.target, 0, source);
        if (posted_bursts_ > 0) admit(write, choice.time);
        if (!go_on || choice.time + spacing >= limit || direction_now() != write) break;
        const uint32_t next = oldest_that_goes(choice.time + spacing);
        if (next == none) break;
        choice = {choice.time + spacing, next, Kind::column};
    }
    space_ranks(rank, choice.time);
    if (write) counters_.last_write = choice.time + 1;
    last_column_ = choice.time;
    last_was_write_ = write;
    take_slot(choice.time, true, t_.column_clocks);
}

/// Changes the direction of the bus. What it costs the burst is the time that it waits for nothing else.
void Channel::turn_around(const Choice& choice) {
    if (columns_[0] + columns_[1] == 0) return;
    const uint64_t otherwise =
        std::max({banks_[choice.target].column_ready[writing_], queues_[writing_].hit(choice.target).arrival,
                  last_column_ + spacing_[0][0][1]});
    if (choice.time <= otherwise) return;
    turn_around_sum_ += choice.time - otherwise;
    use_.turned += choice.time - otherwise;
}

inline void Channel::space_group(Group& group, uint64_t time) const {
    const auto& [to_read, to_write] = spacing_[writing_];
    group.column_after[0] = std::max(group.column_after[0], time + to_read[0]);
    group.column_after[1] = std::max(group.column_after[1], time + to_write[0]);
}

void Channel::space_ranks(const Rank& rank, uint64_t time) {
    for (Rank& other : ranks_) {
        const size_t which = &other == &rank ? 1 : 2;
        for (const size_t second : {0, 1})
            other.column_after[second] =
                std::max(other.column_after[second], time + spacing_[writing_][second][which]);
    }
}

/// Moves the data of a column command at `command`.
inline void Channel::move_data(uint64_t from, uint64_t command) {
    if (moving_.from == moving_.to || from != moving_.to) {  // else back to back
        end_move();
        moving_.since = work_since_;
        moving_.from = from;
    }
    moving_.to = from + t_.burst;
    moving_.last_command = command;
}

void Channel::end_move() {
    if (moving_.from != moving_.to) activities_->push_back(moving_);
    moving_.from = moving_.to;
}

void Channel::record_activities(std::vector<Activity>* into) {
    if (activities_ != nullptr) end_move();
    activities_ = into;
}

/// Completes the burst's share of the waits. They add up to what it took longer than a row hit of an idle
/// channel.
inline void Channel::complete(const Entry& entry, uint32_t index, uint64_t time) {
    const Bank& bank = banks_[index];
    const uint64_t done = time + t_.cl + t_.burst + back_;
    const auto waited = static_cast<uint32_t>(time - front_ - open_[entry.request].completion.arrival);
    const uint64_t refreshed = ranks_[bank.rank].refreshes[set_of(index)].sum - entry.refresh_before;
    const uint64_t turned = turn_around_sum_ - entry.turn_around_before;
    const uint64_t from = std::max(entry.arrival, bank.opening), to = std::min(time, bank.column_ready[0]);
    if ((refreshed | turned) == 0 && to <= from) return answer(entry.request, done, {0, 0, 0, waited});
    auto left = static_cast<uint32_t>(time - entry.arrival);
    const auto take = [&left](uint64_t clocks) {
        const auto part = static_cast<uint32_t>(std::min<uint64_t>(clocks, left));
        left -= part;
        return part;
    };
    Waits waits;
    waits.refresh = take(refreshed);
    waits.row = take(to > from ? to - from : 0);
    waits.turn_around = take(turned);
    waits.busy = waited - waits.refresh - waits.row - waits.turn_around;
    answer(entry.request, done, waits);
}

void Channel::run(Stop stop, uint64_t limit) {
    for (;;) {
        if (!chosen_) choose();
        const Choice choice = choice_;
        if (choice.time >= limit) break;
        if (choice.kind == Kind::timer && idle() && skip_idle(limit)) continue;
        chosen_ = false;
        if (choice.kind != Kind::column) {
            execute(choice);
            continue;
        }
        issue_columns(choice, limit, stop == Stop::at_limit || stop == Stop::at_idle);
        if (now_ >= limit) return;  // what arrives now is seen before the next decision
        if (stop == Stop::at_limit || (stop == Stop::at_idle && !idle())) continue;
        if (stop != Stop::at_idle && writing_ != (stop == Stop::at_room_to_write)) continue;
        now_ = last_column_ + 1;
        return;
    }
    now_ = std::max(now_, limit);
}

/// Most often the oldest burst of all can go as soon as the bus can, at `soonest`, and no row can be opened
/// or closed by then. Its bank, or `none`.
inline uint32_t Channel::oldest_that_goes(uint64_t soonest) const {
    const Waiting& waiting = waiting_[writing_];
    if ((waiting.activate | waiting.precharge | held_) != 0 || rank_count_ > 1) return none;
    const RequestQueue& queue = queues_[writing_];
    if (queue.empty()) return none;
    const uint64_t oldest = queue.oldest();
    const uint32_t bank = queue.bank_of(oldest);
    if (queue.list(bank).hit != oldest || (waiting.column >> bank & 1) == 0) return none;
    return column_time(banks_[bank]) > soonest || next_timer_ <= soonest ? none : bank;
}

inline void Channel::choose() {
    chosen_ = true;
    decide_direction();
    const uint64_t soonest = std::max({now_, column_slot_, ranks_.front().column_after[writing_]});
    const uint32_t oldest = decided_ == writing_ ? oldest_that_goes(soonest) : none;
    if (oldest != none) {
        choice_ = {soonest, oldest, Kind::column};
        return;
    }
    Candidate best;
    choose_column(best);
    choose_row(best);
    Choice choice;
    if (best.key != ~uint64_t{0}) choice = {now_ + best.clocks(), best.bank, best.kind};
    choose_maintenance(choice);
    choice_ = choice;
}

inline uint64_t Channel::key_of(uint64_t time, uint64_t number, bool is_write) const {
    return (time - now_) << 32 | static_cast<uint32_t>(number - queues_[is_write].oldest());
}

inline uint64_t Channel::column_time(const Bank& bank) const {
    return std::max(bank.column_ready[writing_], groups_[bank.group].column_after[writing_]);
}

inline uint64_t Channel::activate_time(const Bank& bank) const {
    // by value: of references the compiler makes a branch, which random traffic mispredicts
    const uint64_t ready = bank.activate_ready, after = groups_[bank.group].activate_after;
    return ready > after ? ready : after;
}

/// Chooses the oldest of those bursts that can go first.
inline void Channel::choose_column(Candidate& best) const {
    const RequestQueue& queue = queues_[writing_];
    const uint64_t waiting = decided_ == writing_ ? waiting_[writing_].column & ~held_ : unserved();
    for (uint32_t r = 0; r < rank_count_; ++r) {
        const uint64_t floor = std::max({now_, column_slot_, ranks_[r].column_after[writing_]});
        for_each_bit(waiting & banks_of(r), [&](uint32_t b) {
            best.consider(key_of(std::max(floor, column_time(banks_[b])), queue.list(b).hit, writing_), b);
        });
    }
}

/// Chooses a row command, unless a column command can go no later. Of a precharge and a column command that
/// can go at the same time, the one for the older burst goes first: else hits would keep a row open that an
/// older burst waits to see closed.
inline void Channel::choose_row(Candidate& best) const {
    const Waiting& waiting = waiting_[decided_];
    const uint64_t keep = held_ | unserved();
    if (((waiting.activate | waiting.precharge) & ~keep) == 0) return;
    const RequestQueue& queue = queues_[decided_];
    const uint64_t column_clocks = best.clocks();
    const uint64_t slot = std::max(now_, row_slot_);
    Candidate precharge{best.key, best.bank, best.kind};
    for (uint32_t r = 0; r < rank_count_; ++r) {
        // precharges first: they can often go at once, and then no activate can go sooner
        const uint64_t banks = banks_of(r) & ~keep;
        const uint64_t close_floor = std::max(slot, ranks_[r].precharge_after);
        for_each_bit(waiting.precharge & banks, [&](uint32_t b) {
            const uint64_t time = std::max(close_floor, banks_[b].precharge_ready);
            precharge.consider(key_of(time, queue.list(b).head, decided_), b);
        });
        if (precharge.key < best.key) best = {precharge.key, precharge.bank, Kind::precharge};
        const uint64_t open_floor = std::max(slot, ranks_[r].activate_after);
        const uint64_t clocks = open_floor - now_;
        if (clocks > best.clocks() || clocks >= column_clocks) continue;
        Candidate activate;
        for_each_bit(waiting.activate & banks, [&](uint32_t b) {
            const uint64_t time = std::max(open_floor, activate_time(banks_[b]));
            activate.consider(key_of(time, queue.list(b).head, decided_), b);
        });
        if (activate.clocks() < column_clocks && activate.key < best.key)
            best = {activate.key, activate.bank, Kind::activate};
        precharge.key = std::min(precharge.key, best.key);
    }
}

/// Chooses again when a burst of the present direction has come: what was to be done next still is, unless
/// the new one can go sooner.
inline void Channel::choose_again_with(uint32_t b, const Waiting& before) {
    const uint64_t bit = uint64_t{1} << b;
    const Waiting& waiting = waiting_[writing_];
    const auto added = [bit](uint64_t now, uint64_t then) { return (now & ~then & bit) != 0; };
    const Bank& bank = banks_[b];
    uint64_t time =
        never;  // an older burst of the bank goes first, unless this is the first to want its command
    if (added(waiting.column, before.column))
        time = std::max({column_slot_, column_time(bank), ranks_[bank.rank].column_after[writing_]});
    if (added(waiting.activate, before.activate)) time = std::max(row_slot_, activate_time(bank));
    if (added(waiting.precharge, before.precharge))
        time = std::min(time, std::max(row_slot_, bank.precharge_ready));
    if (std::max(now_, time) <= choice_.time) chosen_ = false;
}

/// Chooses maintenance: refresh and power states go first.
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
        case Kind::column:  // run() issues these itself
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

inline uint64_t Channel::refresh_time_until(uint32_t bank, uint64_t time) const {
    const Rank& rank = ranks_[banks_[bank].rank];
    const uint32_t set = set_of(bank);
    const SetRefresh& times = rank.refreshes[set];
    if (rank.drain == Drain::refresh && rank.refresh_set == set)
        return times.sum + time - std::min(time, times.begin);
    return times.sum - (times.end > time ? times.end - time : 0);
}

uint64_t Channel::next_completion_bound() const {
    // what is posted enters after the next column command at the earliest, and is then answered at once if it
    // is a write, or reads what waits to be written
    if (!posted_[1].empty() || (!posted_[0].empty() && !queues_[1].empty())) return now_ + 1 + back_;
    if (queues_[0].empty()) return never;
    return std::max(now_, column_slot_) + t_.cl + t_.burst + back_;
}

Counters Channel::counters(uint64_t until) const {
    Counters counters = counters_;
    counters.reads = columns_[0];
    counters.writes = columns_[1];
    counters.row_hits = counters.reads + counters.writes - first_columns_;
    counters.data_clocks = (counters.reads + counters.writes) * t_.burst;
    for (Rank rank : ranks_) {
        rank.enter(rank.state, until);
        for (size_t s = 0; s < rank_state_count; ++s) counters.rank_times[s] += rank.times[s];
    }
    return counters;
}

}  // namespace kpu::dram
