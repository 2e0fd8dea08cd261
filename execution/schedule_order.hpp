#pragma once

#include <cstdint>
#include <vector>

#include "isa/bound_program.hpp"

namespace kpu::execution {

/// What the order of a program's tasks needs to know of one of its loops.
struct LoopFacts {
    bool never_empty = false;         ///< has an iteration each time it is reached
    bool longer_than_window = false;  ///< has more iterations than max_in_flight each time
};
/// Of every loop, parallel to BoundProgram::loops, by interval arithmetic and, where that does not decide, a
/// bounded number of evaluations. False where it is not known.
std::vector<LoopFacts> loop_facts(const BoundProgram& program);

/// A growing set of small numbers.
class NumberSet {
  public:
    void insert(uint32_t n);
    bool contains(uint32_t n) const { return n / 64 < words_.size() && (words_[n / 64] >> n % 64 & 1) != 0; }
    /// Adds the numbers of `other` that lie in [first, end).
    void add(const NumberSet& other, uint32_t first = 0, uint32_t end = UINT32_MAX);
    void remove(const NumberSet& other);

  private:
    std::vector<uint64_t> words_;
};

/// A condition on the iterations of two tasks, under which the earlier one is complete before the later one
/// starts: the earlier one's iteration of loop `early` is at most last - max_in_flight, and the later one's
/// iteration of loop `late` is at least first + max_in_flight. no_loop: there is no condition on that task.
struct Escape {
    uint32_t early, late;  ///< indices into BoundProgram::loops
};
constexpr uint32_t no_loop = UINT32_MAX;

/// Which task instances are complete before which others start, whatever the timing. Only tokens, waits, .sync
/// and loop windows order tasks: units, the token table and the order of the text promise nothing.
///
/// Two instances in different iterations of a common loop: no token crosses iterations, so they are ordered
/// exactly when the iterations are at least max_in_flight apart. Two instances in the same iteration of all
/// common loops: the order is that of every iteration, so tokens are followed once over the text.
/// Takes a bit and a step for each pair of tasks in the text, which is why there are at most `max_tasks`.
class ScheduleOrder {
  public:
    static constexpr size_t max_tasks = size_t{1} << 15;

    /// Throws UserError when there are more than max_tasks.
    ScheduleOrder(const BoundProgram& program, const std::vector<LoopFacts>& facts);

    /// Loops around a task statement, outermost first, as indices into BoundProgram::loops.
    const std::vector<uint32_t>& loops_of(uint32_t statement) const {
        return tasks_[number_[statement]].loops;
    }
    /// Loops that two task statements share.
    size_t common_loops(uint32_t a, uint32_t b) const;

    /// Of two task statements, `earlier` first in the text, in one iteration of all their common loops: true
    /// when the earlier is always complete before the later starts; else `escapes` gives the iterations of
    /// their other loops in which it is.
    bool always_ordered(uint32_t earlier, uint32_t later, std::vector<Escape>& escapes) const;

    /// Whether an escape of always_ordered() holds for two instances.
    bool holds(const Escape& escape, const LoopValues& earlier, const LoopValues& later) const;
    /// Whether instance a is complete before instance b starts in every schedule.
    bool before(uint32_t a, const LoopValues& a_loops, uint32_t b, const LoopValues& b_loops) const;

  private:
    /// Tasks complete in all instances that share an iteration of the common loops; loops all of whose
    /// iterations up to last - max_in_flight are complete.
    struct Known {
        NumberSet tasks, tails;
    };
    struct TaskOrder {
        uint32_t statement = 0;
        std::vector<uint32_t> loops;
        Known before;
    };
    struct LoopOrder {
        uint32_t statement = 0;
        uint32_t first_task = 0, end_task = 0;  ///< numbers of the tasks inside
        uint32_t loops_end = 0;                 ///< indices of the loops inside: (own index, loops_end)
        Known completed;  ///< outside of it: what a completed iteration implies and its start does not
    };

    void number_tasks();
    void block(uint32_t first, uint32_t end, Known& known);
    void loop(uint32_t index, Known& known);
    void add_token(uint32_t dep, uint32_t user, Known& known) const;
    void add_outside(const Known& from, const LoopOrder& inside, Known& to) const;
    Known completed_iteration(uint32_t loop_index, const Known& body_end) const;

    const BoundProgram& program_;
    const std::vector<LoopFacts> facts_;
    std::vector<uint32_t> number_;  ///< of the tasks among the statements
    std::vector<TaskOrder> tasks_;
    std::vector<LoopOrder> loops_;
};

}  // namespace kpu::execution
