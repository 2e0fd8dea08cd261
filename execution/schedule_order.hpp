#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/number_set.hpp"
#include "execution/carried_order.hpp"
#include "execution/chain_order.hpp"
#include "execution/loop_facts.hpp"
#include "isa/bound_program.hpp"

namespace kpu::execution {

/// A condition on the iterations of two tasks, under which the earlier one is complete before the later one
/// starts: all of its parts hold.
struct Escape {
    /// The later one is so many iterations ahead in the loop of this depth, which both stand in; in loops that
    /// both stand in and that have no distance anything goes.
    struct Distance {
        size_t depth = 0;
        uint64_t iterations = 0;
        bool or_more = false;
    };
    /// Distance in this loop (an index into BoundProgram::loops): so many iterations lie between its own and
    /// the last, of the earlier one, or the first, of the later one.
    struct Margin {
        uint32_t loop = 0;
        uint64_t iterations = 0;
        bool operator==(const Margin& o) const { return loop == o.loop && iterations == o.iterations; }
    };
    std::vector<Distance> distances;
    std::vector<Margin> early, late;
};

/// Someone interrupted the work on an order.
struct OrderInterrupted : std::exception {
    const char* what() const noexcept override { return "the order of tasks was interrupted"; }
};

/// Order of task instances that holds whatever the timing: which are complete before which others start. Only
/// tokens, waits, .sync and loop windows order tasks: units, the token table and the order of the text
/// promise nothing.
///
/// Two instances in different iterations of a common loop that carries no token are ordered exactly when the
/// iterations are at least max_in_flight apart. Two instances in the same iteration of all common loops: the
/// order is that of every iteration, so tokens are followed once over the text. Loops that carry tokens have an
/// order of their own (execution/carried_order.hpp), which here is one step of the text.
/// What a task knows of the text before it is mostly what the one before knew, which is kept once; of tasks outside
/// of loops, which run once, it is how far each chain of them is (execution/chain_order.hpp).
class ScheduleOrder {
  public:
    /// Inside of loops; one that carries tokens takes two numbers.
    static constexpr size_t max_tasks = NumberSet::end / 2;
    static size_t tasks_in_loops(const BoundProgram& program);

    /// Throws UserError when there are more than max_tasks inside of loops, and OrderInterrupted.
    ScheduleOrder(const BoundProgram& program, const std::vector<LoopFacts>& facts,
                  const std::atomic<bool>* interrupt = nullptr);
    /// Called for a program without loops, in one pass: each task is visited once all before it are known, as
    /// the later one of flat_ordered(); what is known of it goes when nothing refers to it any more.
    using FlatVisit = std::function<void(const ScheduleOrder&, uint32_t statement)>;
    static void pass(const BoundProgram& program, const std::atomic<bool>* interrupt, const FlatVisit& visit);

    /// Loops around a task statement, outermost first, as indices into BoundProgram::loops.
    const std::vector<uint32_t>& loops_of(uint32_t statement) const { return order_of(statement).loops; }
    /// Loops that two task statements share.
    size_t common_loops(uint32_t a, uint32_t b) const;

    /// True if all tasks of loops from statement `first` to `last`, both such tasks, are complete before
    /// `later` starts; false if they do not stand before the outermost loop around it. False where the answer
    /// takes more than a look.
    bool all_before(uint32_t first, uint32_t last, uint32_t later) const;

    /// Compares two task statements, `earlier` first in the text, in one iteration of all their common loops:
    /// true when the earlier is always complete before the later starts; else `escapes` gives the iterations
    /// of their other loops in which it is.
    bool always_ordered(uint32_t earlier, uint32_t later, std::vector<Escape>& escapes) const;
    /// Returns, for two task statements that share iterations of their first `shared` common loops, when the
    /// later one is ahead in the next by less than max_in_flight, the iterations in which the earlier is
    /// complete before the later starts.
    std::vector<Escape> carried(uint32_t earlier, uint32_t later, size_t shared) const;

    /// True if an escape holds for two instances.
    bool holds(const Escape& escape, const LoopValues& earlier, const LoopValues& later) const;
    /// True if instance a is complete before instance b starts in every schedule.
    bool before(uint32_t a, const LoopValues& a_loops, uint32_t b, const LoopValues& b_loops) const;

    /// True for a task outside of loops: it runs once.
    bool is_flat(uint32_t statement) const { return program_.statements[statement].parent < 0; }
    /// True if the earlier of two such tasks, first in the text, is complete before the later starts.
    bool flat_ordered(uint32_t earlier, uint32_t later) const {
        return chains_.knows(flat_before_[number_[later]].flat, number_[earlier]);
    }
    /// Returns the task's chain: tasks with the same number come one before the other; ChainOrder::none:
    /// nothing comes after it.
    uint32_t chain_of(uint32_t flat) const { return chains_.chain_of(number_[flat]); }

    /// Returns a loop that carries more tokens than are followed: some orders in it are missing. Null: none.
    const uint32_t* loop_too_large() const { return too_large_ ? &*too_large_ : nullptr; }

  private:
    static constexpr uint32_t none = UINT32_MAX;
    ScheduleOrder(const BoundProgram& program, const std::vector<LoopFacts>& facts,
                  const std::atomic<bool>* interrupt, const FlatVisit* visit);

    /// Tasks complete in all instances that share an iteration of the common loops; loops all of whose
    /// iterations up to last - max_in_flight are complete.
    struct Known {
        ChainClock flat;
        NumberSet tasks, tails;  ///< tasks and tails of loops
        bool empty() const { return flat.empty() && tasks.empty() && tails.empty(); }
        void add(const Known& other) {
            flat.add(other.flat);
            tasks.add(other.tasks);
            tails.add(other.tails);
        }
    };
    /// Knowledge that holds so many iterations after the first of some loops.
    struct View {
        std::vector<Escape::Margin> late;
        Known known;
    };
    struct TaskOrder {
        uint32_t statement = 0;
        std::vector<uint32_t> loops;
        size_t outer = 0;         ///< number of those around a loop that carries tokens and that it stands in
        uint32_t carried = none;  ///< that loop's index into carried_
        Known before;
        Known token;              ///< carried: what is known when all its instances are complete, outside
        std::vector<View> views;  ///< carried
    };
    struct LoopOrder {
        uint32_t statement = 0;
        uint32_t first_task = 0, end_task = 0;  ///< numbers of the tasks inside
        uint32_t loops_end = 0;                 ///< indices of the loops inside: (own index, loops_end)
        uint32_t carried = none;                ///< index of a loop that carries tokens, or stands in one
        Known completed;  ///< outside of it: what a completed iteration implies and its start does not
    };

    std::vector<uint32_t> users_of_flat_tasks() const;
    void find_carriers();
    void number_tasks();
    void block(uint32_t first, uint32_t end, Known& known);
    void chain(uint32_t statement, const BoundTask& task, const ChainClock& before);
    void loop(uint32_t index, Known& known);
    void carrying_loop(uint32_t index, Known& known);
    Known outside(const CarriedOrder& carried, uint32_t statement, const Known& at_begin);
    bool all_of(const CarriedOrder& carried, uint32_t later, const CarriedOrder::Before& before) const;
    void add_before(const CarriedOrder& carried, const std::vector<Known>& outside, TaskOrder& task) const;
    void add_token(uint32_t dep, uint32_t user, Known& known) const;
    void seen(uint32_t dep) {
        if (!is_flat(dep)) return;
        chains_.used(number_[dep]);
        if (visit_ != nullptr) forget(number_[dep]);
    }
    void forget(uint32_t flat) {
        if (chains_.is_done(flat)) flat_before_[flat] = {};
    }
    const TaskOrder& order_of(uint32_t statement) const {
        return is_flat(statement) ? flat_order_ : tasks_[number_[statement]];
    }
    const Known& before_of(uint32_t statement) const {
        return is_flat(statement) ? flat_before_[number_[statement]] : tasks_[number_[statement]].before;
    }
    bool knows(const Known& known, uint32_t statement) const {
        return is_flat(statement) ? chains_.knows(known.flat, number_[statement])
                                  : known.tasks.contains(number_[statement]);
    }
    bool runs_in(uint32_t loop, uint32_t outer) const;
    Known completed_iteration(uint32_t loop_index, const Known& body_end) const;

    bool same_carrier(const TaskOrder& a, const TaskOrder& b) const {
        return a.carried != none && a.carried == b.carried;
    }
    template <class Visit>
    void for_each_clause(uint32_t carried, uint32_t earlier, uint32_t later, Visit visit) const;
    Escape escape_of(const OrderClause& clause, const TaskOrder& earlier, const TaskOrder* later) const;
    void add_escapes(uint32_t earlier, size_t common, const std::vector<Escape::Margin>& late,
                     const Known& known, std::vector<Escape>& escapes) const;
    void add_escapes_by_clauses(const TaskOrder& earlier, const std::vector<Escape::Margin>& late,
                                const Known& known, std::vector<Escape>& escapes) const;

    const BoundProgram& program_;
    const std::vector<LoopFacts> facts_;
    const std::atomic<bool>* interrupt_;  ///< while it is made
    const FlatVisit* visit_;              ///< the same
    /// Indexed by statement: index of a task outside of loops, of one inside.
    std::vector<uint32_t> number_;
    std::vector<Known> flat_before_;  ///< knowledge of tasks outside of loops
    ChainOrder chains_;               ///< their chains
    const TaskOrder flat_order_;      ///< order that holds for all of them
    /// Order of tasks inside of loops; after those of a loop that carries tokens: one for what follows it.
    std::vector<TaskOrder> tasks_;
    std::vector<LoopOrder> loops_;
    std::vector<std::unique_ptr<CarriedOrder>> carried_;
    std::vector<uint32_t> end_number_;  ///< indexed as carried_: what follows the loop, in tasks_
    std::optional<uint32_t> too_large_;
};

}  // namespace kpu::execution
