#pragma once
// Copies of a tile kernel on their way, and the semaphores that count them.
#include <deque>
#include <map>
#include <memory>
#include <set>

#include "values/kernel/races.hpp"
#include "values/kernel/tiles/tile_unwritten.hpp"

namespace kpu::values::kernel {

struct TileCopy {
    uint64_t number = 0;  ///< counted from 0 as they start
    uint32_t statement = 0;
    uint32_t semaphore = 0;  ///< buffer
    int64_t index = 0;       ///< in it
    ByteWindow source, destination;
    ByteWindow whole;                    ///< destination before it was cut: what lies outside becomes zeros
    uint64_t counts = 0;                 ///< bytes that the semaphore gets
    std::unique_ptr<uint8_t[]> payload;  ///< the source as it was at the start; null: nothing of it is inside
    std::shared_ptr<const Unwritten> unwritten;  ///< state of the payload
};

/// Counts of semaphores, and copies between their start and the wait that lets them arrive.
class TileCopies {
  public:
    /// `unwritten`: null: nobody looks for it.
    TileCopies(const Code& code, UnwrittenMap* unwritten) : code_(code), unwritten_(unwritten) {}

    /// `storage`: of every buffer. Reads the source.
    const TileCopy& start(TileCopy copy, const std::vector<Bytes>& storage);
    void signal(uint32_t statement, uint32_t semaphore, int64_t index, int64_t amount);
    /// Returns its count plus those of its copies on their way.
    int64_t count(uint32_t semaphore, int64_t index) const;
    /// Copies that have to arrive, oldest first, until the count is `amount`. Throws TileFault where it never is.
    std::vector<uint64_t> needed(uint32_t semaphore, int64_t index, int64_t amount) const;
    /// Lets these arrive and takes `amount`.
    void wait(uint32_t semaphore, int64_t index, int64_t amount, const std::vector<Bytes>& storage);
    /// Throws TileFault: copies that nobody waited for, semaphores that are not 0; `statement`: that it is about.
    void check_end(uint32_t& statement) const;

    /// Whether what a statement touches is the target of a copy on its way, or is written and a source of one.
    void touch(uint32_t statement, const ByteWindow& window, bool writes);
    bool any() const { return !on_their_way_.empty(); }
    void watch_races() { watches_ = true; }
    /// Notes what depends on memory that nobody wrote, where a statement uses it.
    /// Outputs of which a part is left.
    void report_outputs();
    void report_unwritten(KernelRace::Kind kind, uint32_t statement, const Unwritten& part);
    const std::vector<KernelRace>& races() const { return races_; }

  private:
    void report(const KernelRace& race);
    void arrive(const TileCopy& copy, const std::vector<Bytes>& storage);
    std::string who_counts_elsewhere(uint32_t semaphore, int64_t index) const;

    const Code& code_;
    UnwrittenMap* const unwritten_;
    std::deque<TileCopy> on_their_way_;
    uint64_t started_ = 0;
    struct Semaphore {
        int64_t count = 0;
        uint32_t statement = 0;         ///< that last added to it
        std::set<uint32_t> statements;  ///< that did since it was 0
    };
    std::map<std::pair<uint32_t, int64_t>, Semaphore> semaphores_;  ///< indexed by buffer and index
    std::vector<KernelRace> races_;
    bool watches_ = false;
};

}  // namespace kpu::values::kernel
