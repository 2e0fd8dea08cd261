// Why nothing goes on: follows from the oldest waiting task what it waits for, until a cycle or a root.

#include <fmt/format.h>

#include <set>

#include "base/diagnostics.hpp"
#include "execution/controller_impl.hpp"
#include "execution/describe.hpp"
#include "isa/iterations.hpp"

namespace kpu::execution {

class Controller::Impl::Explainer {
  public:
    explicit Explainer(const Impl& impl) : impl_(impl) {}

    std::string run() {
        Place place = origin();
        while (place.index != none) {
            if (!seen_.insert({place.is_thread, place.index}).second) {
                lines_.push_back(
                    fmt::format("{}: the chain is closed, none of these can go on", name(place)));
                break;
            }
            place = place.is_thread ? follow_thread(place.index) : follow_task(place.index);
        }
        return fmt::format("{}", fmt::join(lines_, "\n"));
    }

  private:
    /// A live task (node) or a control thread in the chain; index none = the chain ends.
    struct Place {
        bool is_thread = false;
        uint32_t index = none;
    };
    static constexpr bool task = false, thread = true;

    /// Returns the oldest waiting task, else the oldest live one, else the top-level thread.
    Place origin() {
        for (uint32_t n = impl_.live_list_.head; n != none; n = impl_.nodes_[n].live_next) {
            if (impl_.nodes_[n].state == TaskState::waiting) return {task, n};
        }
        if (impl_.live_list_.head != none) return {task, impl_.live_list_.head};
        if (impl_.top_ == none || impl_.finished_) {
            lines_.push_back(impl_.finished_ ? "every task is complete" : "nothing was started");
            return {};
        }
        return {thread, impl_.top_};
    }

    std::string name(uint32_t statement, const LoopValues& loops) const {
        return statement_text(impl_.program_, statement, loops);
    }
    std::string name(Place place) const {
        if (place.is_thread) return thread_name(place.index);
        return name(impl_.nodes_[place.index].statement, impl_.nodes_[place.index].loops);
    }
    std::string thread_name(uint32_t t) const {
        const Thread& th = impl_.threads_[t];
        if (th.parent == none) return "the top level";
        const uint32_t first = impl_.plan_.blocks[th.block].first;
        return fmt::format("iteration {}", kpu::iteration_text(impl_.program_, first, th.loops));
    }

    Place follow_task(uint32_t n) {
        const Node& node = impl_.nodes_[n];
        const std::string self = name(node.statement, node.loops);
        if (node.state == TaskState::ready) {
            lines_.push_back(fmt::format("{} is ready, but no {} has taken it", self,
                                         std::string(name_of(node.task->unit))));
            return {};
        }
        if (node.state == TaskState::running) {
            lines_.push_back(fmt::format("{} is running", self));
            return {};
        }
        return follow_needs(self, node.statement, node.owner);
    }

    /// Finds where to go from a statement of thread `owner` that waits for tokens.
    Place follow_needs(const std::string& self, uint32_t statement, uint32_t owner) {
        for (const TokenRef& need : impl_.plan_.statements[statement].needs) {
            const TokenPlace place = impl_.locate(need, owner);
            if (place.state == TokenPlace::State::complete) continue;
            const Thread& th = impl_.threads_[place.thread];
            if (place.state == TokenPlace::State::ahead) return follow_ahead(self, need, owner, place.thread);
            const Slot& slot = th.slots[need.slot];
            if (slot.remaining == 0) continue;
            const TokenSlot& token = impl_.plan_.blocks[th.block].slots[need.slot];
            if (token.depth > 0) return follow_loop_token(self, token, place.thread, slot.remaining);
            if (slot.serial == none) return follow_ahead(self, need, owner, place.thread);
            return go_to_producer(self, slot.serial);
        }
        throw InternalError(fmt::format("{} waits, but every token that it needs is satisfied", self));
    }

    /// Returns a token of an earlier iteration whose task is not issued yet: why its thread does not get
    /// there.
    Place follow_ahead(const std::string& self, const TokenRef& need, uint32_t owner, uint32_t late) {
        const Thread& own = impl_.threads_[impl_.ancestor(owner, need.up)];
        const uint32_t wanted = impl_.plan_.blocks[own.block].slots[need.slot].statement;
        lines_.push_back(
            fmt::format("{} waits for `{}` of an earlier iteration ({} before); in {} it is not issued", self,
                        impl_.program_.tasks[impl_.program_.statements[wanted].index].name, need.distance,
                        thread_name(late)));
        return {thread, late};
    }

    Place go_to_producer(const std::string& self, uint32_t serial) {
        const auto* producer = static_cast<const Node*>(impl_.find(serial));
        if (producer == nullptr) throw InternalError(fmt::format("{} waits for a task that is gone", self));
        lines_.push_back(fmt::format("{} waits for {}", self, name({task, producer->self})));
        return {task, producer->self};
    }

    /// Returns a token that stands for all iterations of a loop. An instance that is not issued yet comes
    /// first: while all that is issued waits, only a missing issue can be the reason.
    Place follow_loop_token(const std::string& self, const TokenSlot& token, uint32_t holder,
                            uint64_t remaining) {
        const auto& names = impl_.program_;
        const BoundTask& wanted = names.tasks[names.statements[token.statement].index];
        const uint32_t late = late_thread(token, holder);
        if (late != none) {
            lines_.push_back(
                fmt::format("{} waits for `{}` of every iteration, {} not complete; in {} it is not issued",
                            self, wanted.name, remaining, thread_name(late)));
            return {thread, late};
        }
        Place next;
        impl_.for_each_live(token, holder, [&](const Node& producer) {
            next = {task, producer.self};
            return false;
        });
        if (next.index == none)
            throw InternalError(fmt::format("{} waits for iterations that are gone", self));
        lines_.push_back(fmt::format("{} waits for `{}` of every iteration, {} not complete; among them {}",
                                     self, wanted.name, remaining, name(next)));
        return next;
    }

    /// Returns a blocked thread below `holder` that has not yet come to the task (or the loop around it);
    /// lowest id first.
    uint32_t late_thread(const TokenSlot& token, uint32_t holder) const {
        uint32_t found = none;
        for (uint32_t t = 0; t < impl_.threads_.size(); ++t) {
            const Thread& th = impl_.threads_[t];
            const BlockPlan& block = impl_.plan_.blocks[th.block];
            const bool blocked = th.state != Block::running && th.state != Block::ended;
            if (!blocked || token.statement < th.at || token.statement >= block.end) continue;
            const bool past = token.statement < th.pc && th.pc != th.at;
            if (past || block.depth <= impl_.plan_.blocks[impl_.threads_[holder].block].depth) continue;
            const uint32_t up = block.depth - impl_.plan_.blocks[impl_.threads_[holder].block].depth;
            if (impl_.ancestor(t, up) != holder) continue;
            if (found == none || th.id < impl_.threads_[found].id) found = t;
        }
        return found;
    }

    Place follow_thread(uint32_t t) {
        const Thread& th = impl_.threads_[t];
        const std::string self = fmt::format("{}, in {},", name(th.at, th.loops), thread_name(t));
        switch (th.state) {
            case Block::token:
                return follow_blocked_on_token(self, t);
            case Block::table:
                return follow_table(self, t);
            case Block::window:
                return follow_window(self, t);
            case Block::limit:
                lines_.push_back(
                    fmt::format("{} is paused: {} tasks are live, the limit", self, impl_.live_));
                return {task, impl_.live_list_.head};
            case Block::running:
                lines_.push_back(fmt::format("{} goes on", self));
                return {};
            case Block::ended:
                break;
        }
        return first_open_work(t);
    }

    Place follow_blocked_on_token(const std::string& self, uint32_t t) {
        const Thread& th = impl_.threads_[t];
        if (impl_.program_.statements[th.at].kind == BoundStatement::Kind::wait) {
            return follow_needs(self, th.at, t);
        }
        const auto own = static_cast<uint32_t>(impl_.plan_.statements[th.at].slot);
        const auto* node = static_cast<const Node*>(impl_.find(th.slots[own].serial));
        lines_.push_back(fmt::format("{} holds up its thread until it is complete (.sync)", self));
        return {task, node->self};
    }

    Place follow_table(const std::string& self, uint32_t t) {
        const Thread& th = impl_.threads_[t];
        const BoundTask& wanted = impl_.program_.tasks[impl_.program_.statements[th.at].index];
        const auto table = static_cast<uint32_t>(wanted.engine >= 0 ? wanted.engine : wanted.token_engine);
        for (uint32_t n = impl_.live_list_.head; n != none; n = impl_.nodes_[n].live_next) {
            if (impl_.nodes_[n].table != table) continue;
            lines_.push_back(fmt::format(
                "{} cannot be issued: the token table of engine {} is full ({} of {}), held "
                "first by {}",
                self, table, impl_.tables_[table].used, impl_.options_.max_active_tokens, name({task, n})));
            return {task, n};
        }
        throw InternalError(fmt::format("{} waits for a token table that no task holds", self));
    }

    Place follow_window(const std::string& self, uint32_t t) {
        const LoopRun& loop_run = impl_.runs_[impl_.threads_[t].run];
        const BoundLoop& loop = impl_.program_.loops[impl_.program_.statements[loop_run.statement].index];
        lines_.push_back(
            fmt::format("{} cannot start its next iteration: max_in_flight is {} and {} is not complete",
                        self, loop.max_in_flight, thread_name(loop_run.active.head)));
        return {thread, loop_run.active.head};
    }

    /// An ended thread is complete once its tasks and loops are: the oldest live task in it.
    Place first_open_work(uint32_t t) {
        const uint32_t depth = impl_.plan_.blocks[impl_.threads_[t].block].depth;
        for (uint32_t n = impl_.live_list_.head; n != none; n = impl_.nodes_[n].live_next) {
            const Node& node = impl_.nodes_[n];
            const uint32_t own = impl_.plan_.blocks[impl_.threads_[node.owner].block].depth;
            if (own < depth || impl_.ancestor(node.owner, own - depth) != t) continue;
            lines_.push_back(
                fmt::format("{} is not complete because of {}", thread_name(t), name({task, n})));
            return {task, n};
        }
        for (uint32_t child = 0; child < impl_.threads_.size(); ++child) {
            const Thread& th = impl_.threads_[child];
            if (th.parent == t && th.state != Block::ended) {
                lines_.push_back(
                    fmt::format("{} is not complete because of {}", thread_name(t), thread_name(child)));
                return {thread, child};
            }
        }
        throw InternalError(fmt::format("{} is open without any work", thread_name(t)));
    }

    const Impl& impl_;
    std::vector<std::string> lines_;
    std::set<std::pair<bool, uint32_t>> seen_;
};

std::string Controller::Impl::explain_block() const { return Explainer(*this).run(); }

}  // namespace kpu::execution
