// Tokens of earlier iterations: where the controller finds them, and tasks that need one whose iteration has not
// started yet.

#include <utility>

#include "execution/controller_impl.hpp"

namespace kpu::execution {

RecentTokens::Key RecentTokens::key(uint32_t statement, const LoopValues& loops) {
    Key result{statement};
    for (size_t d = 0; d < loops.depth; ++d) result.push_back(loops[d]);
    return result;
}

void RecentTokens::add(Key key, uint32_t serial) {
    if (order_.size() == most) {
        serial_.erase(order_.front());
        order_.pop_front();
    }
    if (serial_.emplace(key, serial).second) order_.push_back(std::move(key));
}

uint32_t RecentTokens::find(const Key& key) const {
    const auto known = serial_.find(key);
    return known == serial_.end() ? none : known->second;
}

/// Returns the thread that holds the token of `need` for a statement of thread `owner`: its own iteration's,
/// or, of a carried token, that of the earlier one, down to it through loops that keep their values.
Controller::Impl::TokenPlace Controller::Impl::locate(const TokenRef& need, uint32_t owner) const {
    using State = TokenPlace::State;
    const uint32_t own = ancestor(owner, need.up);
    if (need.distance == 0) return {State::slot, own, 0};
    const uint32_t carrier = ancestor(own, need.inner);
    if (threads_[carrier].ordinal < need.distance) return {State::complete, none, 0};
    uint32_t at = iteration_before(carrier, threads_[carrier].ordinal - need.distance);
    for (uint32_t level = need.inner; at != none && level-- > 0;) {
        const Thread& same = threads_[ancestor(own, level)];
        const uint32_t statement = runs_[same.owner].statement;
        const auto index = static_cast<uint32_t>(plan_.statements[statement].watch);
        const Watch& watch = threads_[at].watches[index];
        if (watch.state == Watch::State::over) return {State::complete, none, 0};
        if (watch.state == Watch::State::ahead) return {State::ahead, at, index};
        const LoopRun& run = runs_[watch.run];
        const int64_t value = same.loops[same.loops.depth - 1u];
        const uint64_t ordinal = static_cast<uint64_t>(value) - static_cast<uint64_t>(run.first);
        if (value < run.first || ordinal >= run.trip) return {State::complete, none, 0};  // no such iteration
        if (ordinal >= run.next) return {State::ahead, at, index};
        at = run.active.tail == none ? none : iteration_before(run.active.tail, ordinal);
    }
    return at == none ? TokenPlace{State::complete, none, 0} : TokenPlace{State::slot, at, 0};
}

/// Returns the active iteration of that ordinal at or before `iteration` in its loop; none when it is over.
uint32_t Controller::Impl::iteration_before(uint32_t iteration, uint64_t ordinal) const {
    while (iteration != none && threads_[iteration].ordinal > ordinal) iteration = threads_[iteration].prev;
    return iteration != none && threads_[iteration].ordinal == ordinal ? iteration : none;
}

Controller::Impl::Watch* Controller::Impl::watch_of(uint32_t statement, uint32_t t) {
    const int32_t watch = plan_.statements[statement].watch;
    return watch == no_slot ? nullptr : &threads_[t].watches[static_cast<size_t>(watch)];
}

/// Looks again for the tokens that tasks need of a loop of which more is known.
void Controller::Impl::revisit(Watch& watch) {
    const List waiters = std::exchange(watch.waiters, {});
    for (uint32_t w = waiters.head; w != none;) {
        const Waiter waiter = waiters_[w];
        waiters_[w].next = free_waiter_;
        free_waiter_ = w;
        w = waiter.next;
        const Waiter again{waiter.index, false, none, waiter.need};
        const Node& node = nodes_[waiter.index];
        const TokenRef& need = plan_.statements[node.statement].needs[waiter.need];
        const TokenPlace place = locate(need, node.owner);
        if (place.state == TokenPlace::State::complete) {
            satisfy(again, none);
        } else if (place.state == TokenPlace::State::ahead) {
            wait_for(threads_[place.thread].watches[place.watch].waiters, again);
        } else if (Slot& slot = threads_[place.thread].slots[need.slot]; slot.remaining == 0) {
            satisfy(again, slot.serial);
        } else {
            wait_for(slot.waiters, again);
        }
    }
}

void Controller::Impl::remember(const Thread& thread) {
    const BlockPlan& block = plan_.blocks[thread.block];
    for (size_t s = 0; s < block.slots.size(); ++s) {
        if (thread.slots[s].serial != none)
            recent_.add(RecentTokens::key(block.slots[s].statement, thread.loops), thread.slots[s].serial);
    }
}

uint32_t Controller::Impl::remembered(const TokenRef& need, uint32_t owner) const {
    const uint32_t own = ancestor(owner, need.up);
    const Thread& carrier = threads_[ancestor(own, need.inner)];
    if (carrier.ordinal < need.distance) return none;
    const TokenSlot& token = plan_.blocks[threads_[own].block].slots[need.slot];
    RecentTokens::Key key = RecentTokens::key(token.statement, threads_[own].loops);
    key[carrier.loops.depth] -= need.distance;  // after the statement, the loops from the outermost on
    return recent_.find(key);
}

}  // namespace kpu::execution
