#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/pool.hpp"
#include "model/dram/command.hpp"
#include "model/dram/config.hpp"
#include "model/dram/held.hpp"
#include "model/dram/rank.hpp"
#include "model/dram/request_queue.hpp"

namespace kpu::dram {

/// Bursts, one after the other in memory. Times are clocks of the DRAM (nCK).
struct Request {
    uint64_t time;     ///< arrival at the channel; never before that of an earlier request
    uint64_t address;  ///< channel-local; the first is the burst that holds this byte
    bool is_write;
    uint64_t tag;  ///< given back with the completion
    uint32_t bursts = 1;
    uint32_t source = 0;  ///< for a CommandObserver: who asks
};

/// Waits of a read: where its time went beside the least that a row hit of an idle channel takes. Among
/// several bursts the longest waits for row and refresh count, and of the other two those of the burst for
/// which they are shortest together: the other bursts wait for their own request.
struct Waits {
    uint32_t row;          ///< precharge and activate of its row
    uint32_t refresh;      ///< a refresh, or waking up from power-down or self-refresh
    uint32_t turn_around;  ///< the bus changed direction
    uint32_t busy;         ///< bank or bus served others, or the queue was full
};

/// A request of which every burst is answered.
struct Completion {
    uint64_t tag;
    uint64_t arrival;
    uint64_t done;  ///< read: data is with the requester; write: taken, later reads see it
    Waits waits;
    bool is_write;
    uint32_t bursts;        ///< on the bus: not the reads that a waiting write answered
    uint32_t activates;     ///< activates of its reads: rows that were opened for them
    Held held = Held::bus;  ///< cause of turn_around and busy, or of its full queue
};

/// Activity of a channel between two moments without work or data: commands from `since` on, then data back
/// to back on the bus. A refresh has no data.
struct Activity {
    uint64_t since;     ///< there has been work since; or the refresh began
    uint64_t from, to;  ///< times of the data; of a refresh both are its end
    uint64_t last_command;
};

struct Counters {
    uint64_t reads = 0, writes = 0;  ///< bursts on the bus
    uint64_t forwarded = 0;          ///< reads that a waiting write answered
    uint64_t activates = 0, precharges = 0, refreshes = 0;
    uint64_t row_hits = 0;     ///< bursts that were not the first of their activate
    uint64_t data_clocks = 0;  ///< the data bus carried data
    uint64_t last_write = 0;   ///< clock after the last write command
    RankTimes rank_times{};    ///< clocks in each power state, summed over the ranks
};

constexpr uint64_t never = ~uint64_t{0} >> 1;

/// A DRAM channel with its controller: see dram.md. Nothing is undone: what advance() reports is certain.
///
///     channel.advance(t);                                   // everything before t has happened
///     channel.post({t, address, false, tag, bursts});
///     for (const Completion& c : channel.completions()) ... // certain by now; `done` may lie ahead
///     channel.completions().clear();
class Channel {
  public:
    explicit Channel(const Config& config);

    /// Returns the first clock at which a request can still arrive.
    uint64_t now() const { return now_ > front_ ? now_ - front_ : 0; }
    bool has_room(bool is_write) const { return !queues_[is_write].full(); }
    /// Posts a request. What finds no room waits in front of its queue and enters, in order, as soon as there
    /// is some. Throws InternalError when the time has passed.
    void post(const Request& request);
    /// Does the same as post(), but throws InternalError when there is no room for the first burst.
    void push(const Request& request);

    /// Issues every command that can be issued before requests of clock `until` are seen.
    void advance(uint64_t until);
    /// Does the same, but stops when a read's completion has become certain.
    void advance_to_completion(uint64_t until);
    /// Does the same, but stops when there is room.
    void advance_to_room(bool is_write, uint64_t until);
    /// Does the same, but stops when no request waits.
    void advance_to_idle(uint64_t until);

    /// Completions that became certain, in that order; the caller takes them out.
    std::vector<Completion>& completions() { return completions_; }
    /// Returns a clock before which no read that is not among completions() is done, unless a waiting write
    /// answers it.
    uint64_t next_completion_bound() const;
    /// Bursts in the queues and in front of them.
    size_t waiting() const { return size_t{queues_[0].size()} + queues_[1].size() + posted_bursts_; }
    /// True if no request waits, of either direction.
    bool idle() const { return queues_[0].empty() && queues_[1].empty(); }

    /// Returns the counters up to clock `until`, which the channel must have been advanced to.
    Counters counters(uint64_t until) const;
    void observe(CommandObserver* observer) { observer_ = observer; }
    /// Adds what the channel does to a list, in order; null: no longer, after what it does at present.
    void record_activities(std::vector<Activity>* into);

  private:
    enum class Kind : uint8_t { column, activate, precharge, timer, drain };
    struct Choice {
        uint64_t time = never;
        uint32_t target = 0;  ///< bank, or rank
        Kind kind = Kind::timer;
    };
    /// The best command of a kind so far, as one number so that comparing needs no branch: clocks from now_
    /// in the upper half, age of the burst that it serves in the lower.
    struct Candidate {
        uint64_t key = ~uint64_t{0};
        uint32_t bank = 0;
        Kind kind = Kind::column;
        uint64_t clocks() const { return key >> 32; }
        void consider(uint64_t other, uint32_t other_bank) {
            bank = other < key ? other_bank : bank;
            key = other < key ? other : key;
        }
    };
    enum class Stop : uint8_t { at_limit, at_completion, at_room_to_read, at_room_to_write, at_idle };
    struct alignas(64) Bank {
        std::array<uint64_t, 2> column_ready{};  ///< to read, to write: tRCD after the activate
        uint64_t precharge_ready = 0, activate_ready = 0;
        uint64_t opening = 0;  ///< precharge or activate that began to open its row
        uint32_t row = 0;
        uint32_t served = 0;  ///< bursts since the activate
        uint16_t group = 0;   ///< index among all groups of the channel
        uint16_t rank = 0;
        bool open = false, precharged_for_row = false;
    };
    struct Group {
        std::array<uint64_t, 2> column_after{};  ///< reads, writes
        uint64_t activate_after = 0;
    };
    static constexpr uint32_t max_groups = max_banks, none = ~0u;
    static constexpr uint32_t turn_cap = 2;  ///< bursts of a row that was just opened, before the bus turns
    static constexpr uint64_t far_periods = 64;  ///< number of tREFI worth not stepping
    /// Banks with a burst waiting, by what their oldest useful command is.
    struct Waiting {
        uint64_t column = 0, activate = 0, precharge = 0;
    };

    /// A request with bursts that are not answered.
    struct Open {
        Completion completion;  ///< as far as it is known
        uint32_t left;          ///< bursts
        uint32_t source;
    };
    /// Bursts of a request in front of a full queue.
    struct Posted {
        uint64_t address;  ///< address of the first
        uint32_t request, bursts;
    };

    void run(Stop stop, uint64_t limit);
    void enter(Posted& posted, bool is_write);
    void enter_burst(uint64_t address, uint32_t request, bool is_write);
    void admit(bool is_write, uint64_t time);
    uint32_t open(const Request& request);
    void answer(uint32_t request, uint64_t done, const Waits& waits);
    static void add(Completion& known, uint64_t done, const Waits& waits);
    void choose();
    uint32_t oldest_that_goes(uint64_t soonest) const;
    void choose_column(Candidate& best) const;
    void choose_row(Candidate& best) const;
    uint64_t key_of(uint64_t time, uint64_t number, bool is_write) const;
    void choose_again_with(uint32_t bank, const Waiting& before);
    uint64_t column_time(const Bank& bank) const;
    uint64_t activate_time(const Bank& bank) const;
    void choose_maintenance(Choice& best) const;
    void execute(const Choice& choice);
    uint64_t timer_of(const Rank& rank) const;
    void close_row(Bank& bank, uint32_t index, uint64_t time, uint64_t trp);
    uint64_t banks_of(uint32_t rank) const { return rank_banks_ << (rank * banks_per_rank_); }
    // same_bank.cpp
    uint32_t set_of(uint32_t bank) const { return t_.refresh_sets == 1 ? 0 : bank % t_.refresh_sets; }
    uint64_t drained_banks(uint32_t rank) const;
    bool any_open(uint64_t banks) const;
    void refresh_same_bank(uint32_t rank, uint64_t time);
    void precharge_same_bank(uint32_t rank, uint64_t time);
    bool direction_now() const;
    void decide_direction();
    /// Banks whose row was just opened for the direction that was served before, and has bursts of it.
    uint64_t unserved() const {
        return decided_ == writing_ ? 0 : waiting_[writing_].column & fresh_ & ~held_;
    }

    void issue_columns(Choice choice, uint64_t limit, bool go_on);
    void turn_around(const Choice& choice);
    void open_first(const Entry& entry, bool is_write);
    void space_group(Group& group, uint64_t time) const;
    void space_ranks(const Rank& rank, uint64_t time);
    void complete(const Entry& entry, uint32_t bank, uint64_t time);
    void move_data(uint64_t from, uint64_t command);
    void end_move();
    void issue_activate(uint32_t bank, uint64_t time);
    void issue_precharge(uint32_t bank, uint64_t time);
    void begin_work(Rank& rank, uint32_t bank);
    void on_timer(uint32_t rank, uint64_t time);
    void drain(uint32_t rank, uint64_t time);
    uint64_t drain_time(const Rank& rank) const;
    void refresh(uint32_t rank, uint64_t time);
    void wake(uint32_t rank, uint64_t time);
    uint64_t refreshed_until(const Rank& rank) const;
    bool skip_idle(uint64_t limit);
    uint64_t idle_periods(uint64_t limit) const;
    bool repeats(const std::vector<Rank>& ranks, const std::array<Bank, max_banks>& banks,
                 uint64_t since) const;
    /// Classifies what the waiting bursts of a bank need next.
    void classify(uint32_t bank, bool is_write);
    void hold(uint32_t rank, Drain drain);
    void release(uint32_t rank);
    void set_timer();
    void report(uint64_t time, Command command, uint32_t rank, uint32_t bank = 0, uint32_t row = 0,
                uint32_t source = 0);
    /// Returns the source of a burst that waits. Only while it is not answered.
    uint32_t source_of(const Entry& entry, bool is_write) const {
        return is_write ? entry.request : open_[entry.request].source;
    }
    static uint64_t refresh_time_until(const Rank& rank, uint64_t time);
    void take_slot(uint64_t time, bool column, uint32_t clocks);
    uint64_t refresh_time_until(uint32_t bank, uint64_t time) const;
    void take_slot(uint64_t time, bool column);

    Config config_;
    Timing t_;
    uint32_t front_, back_;
    uint32_t banks_per_rank_, rank_count_;
    uint64_t rank_banks_;  ///< the banks of rank 0, a bit each
    /// Clocks from a column command to a later one: [first is a write][second is][same group, same rank,
    /// other rank]
    std::array<std::array<std::array<uint32_t, 3>, 2>, 2> spacing_{};
    std::array<RequestQueue, 2> queues_;        ///< reads, writes
    std::array<std::deque<Posted>, 2> posted_;  ///< oldest first
    size_t posted_bursts_ = 0;
    Pool<Open> open_;
    std::array<Bank, max_banks> banks_{};
    std::array<Group, max_groups> groups_{};
    std::vector<Rank> ranks_;

    std::array<Waiting, 2> waiting_{};
    uint64_t held_ = 0;  ///< banks of ranks that are being drained

    uint64_t now_ = 0;
    uint64_t column_slot_ = 0, row_slot_ = 0;  ///< next free clock of the command buses
    bool decided_ = false;                     ///< writes are to be served: rows are opened for them
    bool writing_ =
        false;  ///< columns of writes are issued; changes late while rows opened for reads serve them
    uint64_t fresh_ = 0;  ///< banks whose row was just opened and may serve before the bus turns
    bool last_was_write_ = false;
    uint64_t last_column_ = 0;
    uint64_t turn_around_sum_ = 0;
    uint64_t next_timer_ = never;
    bool chosen_ = false;
    Choice choice_;
    std::vector<Completion> completions_;
    Counters counters_;                  ///< but what follows from others
    std::array<uint64_t, 2> columns_{};  ///< reads, writes
    uint64_t first_columns_ = 0;         ///< bursts that were the first of their activate
    CommandObserver* observer_ = nullptr;
    std::vector<Activity>* activities_ = nullptr;
    uint64_t work_since_ = 0;  ///< arrival at the idle channel
    BusUse use_;               ///< since then, or since the last refresh
    Activity moving_{};        ///< goes on, unless it has no data
};

inline void Channel::report(uint64_t time, Command command, uint32_t rank, uint32_t bank, uint32_t row,
                            uint32_t source) {
    if (observer_ != nullptr) observer_->on_command({time, command, rank, bank, row, source});
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

inline void Channel::take_slot(uint64_t time, bool column, uint32_t clocks) {
    const bool both = !t_.separate_row_commands;
    if (column || both) column_slot_ = time + clocks;
    if (!column || both) row_slot_ = time + clocks;
}

}  // namespace kpu::dram
