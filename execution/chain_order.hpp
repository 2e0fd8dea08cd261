#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "base/chain_clock.hpp"

namespace kpu::execution {

/// The order of tasks that run once, in the order of the text: each is the next of a chain of tasks that come one
/// before the other, and what is complete before a task is how far each chain is. So a question takes one look,
/// however long the text. Tasks that nobody waits for are in no chain: nothing says that they are complete.
class ChainOrder {
  public:
    /// `users`: by task, how often others refer to it.
    explicit ChainOrder(std::vector<uint32_t> users) : tasks_(users.size()), users_(std::move(users)) {}

    /// Adds tasks one after the other; `before`: what is complete when it starts, `needs` among it.
    void add(uint32_t task, const ChainClock& before, const std::vector<uint32_t>& needs);
    /// Notes that one task which refers to it was seen.
    void used(uint32_t task);
    /// Notes that the task itself is complete.
    void complete(uint32_t task, ChainClock& clock) const {
        if (tasks_[task].chain != none) clock.raise(tasks_[task].chain, tasks_[task].place);
    }
    /// True if all that refer to it were seen.
    bool is_done(uint32_t task) const { return users_[task] == 0; }
    bool knows(const ChainClock& clock, uint32_t task) const {
        return tasks_[task].chain != none && clock.at(tasks_[task].chain) >= tasks_[task].place;
    }
    uint32_t chain_of(uint32_t task) const { return tasks_[task].chain; }  ///< none: in no chain
    static constexpr uint32_t none = UINT32_MAX;

  private:
    struct Place {
        uint32_t chain = none, place = 0;  ///< from 1 on
    };
    /// A chain whose last task nobody refers to any more.
    struct Ended {
        uint32_t chain = 0, tried = 0;
    };
    static constexpr size_t most_looks = 16;    ///< at ended chains, for one task
    static constexpr uint32_t most_tried = 64;  ///< then few will know its last task: it is left
    bool is_last(uint32_t task) const {
        return tasks_[task].chain != none && tasks_[task].place == length_[tasks_[task].chain];
    }
    uint32_t chain_for(const ChainClock& before, const std::vector<uint32_t>& needs);

    std::vector<Place> tasks_;
    std::vector<uint32_t> users_;
    std::vector<uint32_t> length_;  ///< indexed by chain
    std::deque<Ended> ended_;
};

}  // namespace kpu::execution
