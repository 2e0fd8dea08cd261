#include "execution/chain_order.hpp"

namespace kpu::execution {

void ChainOrder::add(uint32_t task, const ChainClock& before, const std::vector<uint32_t>& needs) {
    if (users_[task] == 0) return;
    const uint32_t chain = chain_for(before, needs);
    tasks_[task] = {chain, ++length_[chain]};
}

void ChainOrder::used(uint32_t task) {
    if (--users_[task] == 0 && is_last(task)) ended_.push_back({tasks_[task].chain, 0});
}

/// Returns a chain whose last task is complete before the next starts; else a new one.
uint32_t ChainOrder::chain_for(const ChainClock& before, const std::vector<uint32_t>& needs) {
    for (const uint32_t need : needs)
        if (is_last(need)) return tasks_[need].chain;
    for (size_t looks = ended_.size() < most_looks ? ended_.size() : most_looks; looks > 0; --looks) {
        Ended ended = ended_.front();
        ended_.pop_front();
        if (before.at(ended.chain) >= length_[ended.chain]) return ended.chain;
        if (++ended.tried < most_tried) ended_.push_back(ended);
    }
    length_.push_back(0);
    return static_cast<uint32_t>(length_.size() - 1);
}

}  // namespace kpu::execution
