#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <utility>
#include <vector>

namespace kpu::tile_schedule {

/// Slots of equal size, given out oldest first, so that what was in a slot has had time to finish.
class SlotQueue {
  public:
    SlotQueue(uint64_t first_address, uint64_t slot_bytes, uint64_t count) {
        for (uint64_t i = 0; i < count; ++i)
            free_.push_back(static_cast<uint32_t>(first_address + i * slot_bytes));
    }
    uint32_t take() {
        const uint32_t slot = free_.front();
        free_.pop_front();
        return slot;
    }
    void give(uint32_t slot) { free_.push_back(slot); }

  private:
    std::deque<uint32_t> free_;
};

/// Set of operand tiles in the arena while a sequence of accesses, known beforehand, goes by: room is made by
/// dropping the tile whose next use is the latest (Belady 1966), which loads the least.
class TileCache {
  public:
    /// `accesses`: tile numbers below `tiles`, two for each EXECUTE. `capacity` >= 2.
    TileCache(const std::vector<uint32_t>& accesses, uint32_t tiles, uint64_t capacity)
        : accesses_(accesses), capacity_(capacity), next_(accesses.size()), cached_until_(tiles, absent) {
        std::vector<uint32_t> later(tiles, never);
        for (size_t at = accesses.size(); at-- > 0;) {
            next_[at] = later[accesses[at]];
            later[accesses[at]] = static_cast<uint32_t>(at);
        }
    }

    /// Handles the next access. `drop(tile)` is called for the tile that makes room, then `load(tile)` if the
    /// tile is not there. The two tiles of one EXECUTE are never dropped for each other.
    template <class Drop, class Load>
    void access(const Drop& drop, const Load& load) {
        const uint32_t tile = accesses_[at_];
        const uint32_t until = cached_until_[tile];
        if (until == absent) {
            if (order_.size() >= capacity_) make_room(drop);
            load(tile);
        } else {
            order_.erase({until, tile});
        }
        cached_until_[tile] = next_[at_];
        order_.insert({next_[at_], tile});
        ++at_;
    }

    /// Gives up, after an EXECUTE, the tiles that are not used again.
    template <class Drop>
    void drop_dead(const Drop& drop) {
        while (!order_.empty() && order_.rbegin()->first == never) remove(std::prev(order_.end()), drop);
    }

  private:
    static constexpr uint32_t never = UINT32_MAX - 1, absent = UINT32_MAX;
    using Order = std::set<std::pair<uint32_t, uint32_t>>;  ///< next use, tile

    template <class Drop>
    void make_room(const Drop& drop) {
        auto victim = std::prev(order_.end());
        const bool second = at_ % 2 == 1;
        if (second && victim->second == accesses_[at_ - 1]) --victim;
        remove(victim, drop);
    }
    template <class Drop>
    void remove(Order::iterator victim, const Drop& drop) {
        const uint32_t tile = victim->second;
        order_.erase(victim);
        cached_until_[tile] = absent;
        drop(tile);
    }

    const std::vector<uint32_t>& accesses_;
    uint64_t capacity_;
    std::vector<uint32_t> next_;          ///< position of the next access to the same tile
    std::vector<uint32_t> cached_until_;  ///< for each tile: its next use, while it is in the arena
    Order order_;
    size_t at_ = 0;
};

}  // namespace kpu::tile_schedule
