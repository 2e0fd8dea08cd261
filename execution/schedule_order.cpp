#include "execution/schedule_order.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/diagnostics.hpp"
#include "isa/expr.hpp"
#include "isa/iterations.hpp"

namespace kpu::execution {
namespace {

using Kind = BoundStatement::Kind;

constexpr uint64_t evaluation_budget = 1 << 14;  ///< evaluations of loop bounds, for all loops together

/// Whether every execution of the loop has at least `wanted` iterations.
bool has_iterations(const BoundProgram& program, uint32_t statement, uint64_t wanted, uint64_t& budget) {
    const BoundLoop& loop = program.loops[program.statements[statement].index];
    if (wanted > static_cast<uint64_t>(INT64_MAX)) return false;
    const auto enough = [&](int64_t first, int64_t last) {
        return last >= first && static_cast<uint64_t>(last) - static_cast<uint64_t>(first) >= wanted - 1;
    };
    const auto ranges = loop_ranges(program, statement);
    if (ranges) {
        const auto first = bound_of(loop.first, *ranges), last = bound_of(loop.last, *ranges);
        if (first && last && enough(first->hi, last->lo)) return true;
        if (first && last && loop.first.is_constant() && loop.last.is_constant()) return false;
    }
    try {
        return for_each_iteration(program, statement, budget, [&](const LoopValues& outer) {
                   return enough(loop.first.eval(outer), loop.last.eval(outer));
               }) == Visited::all;
    } catch (const UserError&) {
        return false;  // the run says so when it gets there
    }
}

}  // namespace

std::vector<LoopFacts> loop_facts(const BoundProgram& program) {
    std::vector<LoopFacts> facts(program.loops.size());
    uint64_t budget = evaluation_budget;
    for (uint32_t s = 0; s < program.statements.size(); ++s) {
        if (program.statements[s].kind != Kind::loop) continue;
        const uint32_t index = program.statements[s].index;
        const uint64_t window = program.loops[index].max_in_flight;
        facts[index].never_empty = has_iterations(program, s, 1, budget);
        facts[index].longer_than_window =
            facts[index].never_empty && has_iterations(program, s, window + 1, budget);
    }
    return facts;
}

void NumberSet::insert(uint32_t n) {
    if (n / 64 >= words_.size()) words_.resize(n / 64 + 1);
    words_[n / 64] |= uint64_t{1} << n % 64;
}

void NumberSet::add(const NumberSet& other, uint32_t first, uint32_t end) {
    if (first >= end) return;
    const size_t last_word = std::min<size_t>(other.words_.size(), (size_t{end} + 63) / 64);
    if (words_.size() < last_word) words_.resize(last_word);
    for (size_t w = first / 64; w < last_word; ++w) {
        uint64_t bits = other.words_[w];
        if (w == first / 64) bits &= ~uint64_t{0} << first % 64;
        if (w == end / 64) bits &= (uint64_t{1} << end % 64) - 1;
        words_[w] |= bits;
    }
}

void NumberSet::remove(const NumberSet& other) {
    for (size_t w = 0; w < std::min(words_.size(), other.words_.size()); ++w) words_[w] &= ~other.words_[w];
}

ScheduleOrder::ScheduleOrder(const BoundProgram& program, const std::vector<LoopFacts>& facts)
    : program_(program), facts_(facts) {
    if (program.tasks.size() > max_tasks) {
        throw UserError(
            fmt::format("the order of more than {} tasks is not followed; the program has {}. Fix: write the "
                        "repetition as loops.",
                        max_tasks, program.tasks.size()));
    }
    number_tasks();
    Known known;
    block(0, static_cast<uint32_t>(program_.statements.size()), known);
}

void ScheduleOrder::number_tasks() {
    const auto count = static_cast<uint32_t>(program_.statements.size());
    number_.resize(count);
    loops_.resize(program_.loops.size());
    std::vector<uint32_t> around;
    uint32_t loops_seen = 0;
    for (uint32_t s = 0; s <= count; ++s) {
        while (!around.empty() && s >= program_.loops[around.back()].body_end) {
            loops_[around.back()].end_task = static_cast<uint32_t>(tasks_.size());
            loops_[around.back()].loops_end = loops_seen;
            around.pop_back();
        }
        if (s == count) break;
        const BoundStatement& statement = program_.statements[s];
        number_[s] = static_cast<uint32_t>(tasks_.size());
        if (statement.kind == Kind::loop) {
            around.push_back(statement.index);
            loops_[statement.index].statement = s;
            loops_[statement.index].first_task = static_cast<uint32_t>(tasks_.size());
            loops_seen = statement.index + 1;  // they stand in the order of the text
        } else if (statement.kind == Kind::task) {
            tasks_.push_back({s, around, {}});
        }
    }
}

void ScheduleOrder::block(uint32_t first, uint32_t end, Known& known) {
    for (uint32_t s = first; s < end; ++s) {
        const BoundStatement& statement = program_.statements[s];
        if (statement.kind == Kind::task) {
            const BoundTask& task = program_.tasks[statement.index];
            Known& before = tasks_[number_[s]].before;
            before = known;
            for (const uint32_t dep : task.deps) add_token(dep, s, before);
            if (task.sync) add_token(s, s, known);
        } else if (statement.kind == Kind::wait) {
            for (const uint32_t dep : program_.waits[statement.index]) add_token(dep, s, known);
        } else if (statement.kind == Kind::loop) {
            loop(statement.index, known);
            s = program_.loops[statement.index].body_end - 1;
        }
    }
}

/// The thread goes on once the last iteration has started: those up to last - max_in_flight are complete.
void ScheduleOrder::loop(uint32_t index, Known& known) {
    LoopOrder& order = loops_[index];
    Known thread = known;
    block(order.statement + 1, program_.loops[index].body_end, thread);
    order.completed = completed_iteration(index, thread);
    order.completed.tasks.remove(known.tasks);
    order.completed.tails.remove(known.tails);
    known.tails.insert(index);
    if (!facts_[index].longer_than_window) return;
    known.tasks.add(order.completed.tasks);
    known.tails.add(order.completed.tails);
}

/// What an iteration of a loop that is complete says of tasks outside the loop.
ScheduleOrder::Known ScheduleOrder::completed_iteration(uint32_t loop_index, const Known& body_end) const {
    const LoopOrder& order = loops_[loop_index];
    const size_t depth = program_.loops[loop_index].depth;
    Known result;
    const auto add = [&](const Known& known) {
        result.tasks.add(known.tasks, 0, order.first_task);
        result.tails.add(known.tails, 0, loop_index);
    };
    add(body_end);
    for (uint32_t t = order.first_task; t < order.end_task; ++t) {
        const std::vector<uint32_t>& loops = tasks_[t].loops;
        const bool runs = std::all_of(loops.begin() + static_cast<std::ptrdiff_t>(depth) + 1, loops.end(),
                                      [&](uint32_t l) { return facts_[l].never_empty; });
        if (!runs) continue;
        add(tasks_[t].before);
        for (size_t d = depth + 1; d < loops.size(); ++d) {
            if (facts_[loops[d]].longer_than_window) add(loops_[loops[d]].completed);
        }
    }
    return result;
}

/// Adds what the token of task `dep` implies where statement `user` needs it: all instances of the task in
/// the innermost common iteration, and what was complete before each of them.
void ScheduleOrder::add_token(uint32_t dep, uint32_t user, Known& known) const {
    const TaskOrder& task = tasks_[number_[dep]];
    known.tasks.insert(number_[dep]);
    size_t common = 0;
    while (common < task.loops.size() && user < program_.loops[task.loops[common]].body_end) ++common;
    size_t sure = common;  // loops from here on run for certain
    for (size_t d = common; d < task.loops.size(); ++d) {
        if (!facts_[task.loops[d]].never_empty) sure = d + 1;
    }
    if (sure == common) {
        known.tasks.add(task.before.tasks);
        known.tails.add(task.before.tails);
    } else {  // without iterations the token says nothing of what stands before its loop
        const LoopOrder& outer = loops_[task.loops[sure - 1]];
        known.tasks.add(task.before.tasks, outer.first_task, outer.end_task);
        known.tails.add(task.before.tails, task.loops[sure - 1] + 1, outer.loops_end);
    }
    for (size_t d = common; d < task.loops.size(); ++d) {
        const uint32_t index = task.loops[d];
        if (d + 1 >= sure) known.tails.insert(index);
        if (sure == common && facts_[index].longer_than_window) {
            known.tasks.add(loops_[index].completed.tasks);
            known.tails.add(loops_[index].completed.tails);
        }
    }
}

size_t ScheduleOrder::common_loops(uint32_t a, uint32_t b) const {
    const std::vector<uint32_t>&x = loops_of(a), &y = loops_of(b);
    return static_cast<size_t>(
        std::mismatch(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(std::min(x.size(), y.size())),
                      y.begin())
            .first -
        x.begin());
}

bool ScheduleOrder::always_ordered(uint32_t earlier, uint32_t later, std::vector<Escape>& escapes) const {
    escapes.clear();
    const uint32_t number = number_[earlier];
    const TaskOrder &a = tasks_[number], &b = tasks_[number_[later]];
    if (b.before.tasks.contains(number)) return true;
    const size_t common = common_loops(earlier, later);
    for (size_t d = common; d < a.loops.size(); ++d) {
        if (b.before.tails.contains(a.loops[d])) escapes.push_back({a.loops[d], no_loop});
    }
    for (size_t e = common; e < b.loops.size(); ++e) {
        const Known& completed = loops_[b.loops[e]].completed;
        if (completed.tasks.contains(number)) escapes.push_back({no_loop, b.loops[e]});
        for (size_t d = common; d < a.loops.size(); ++d) {
            if (completed.tails.contains(a.loops[d])) escapes.push_back({a.loops[d], b.loops[e]});
        }
    }
    return false;
}

bool ScheduleOrder::holds(const Escape& escape, const LoopValues& earlier, const LoopValues& later) const {
    const auto reaches = [&](int64_t low, int64_t high, uint32_t loop_index) {
        return high > low && static_cast<uint64_t>(high) - static_cast<uint64_t>(low) >=
                                 program_.loops[loop_index].max_in_flight;
    };
    if (escape.early != no_loop) {
        const BoundLoop& loop = program_.loops[escape.early];
        if (!reaches(earlier[loop.depth], loop.last.eval(earlier), escape.early)) return false;
    }
    if (escape.late == no_loop) return true;
    const BoundLoop& loop = program_.loops[escape.late];
    return reaches(loop.first.eval(later), later[loop.depth], escape.late);
}

bool ScheduleOrder::before(uint32_t a, const LoopValues& a_loops, uint32_t b,
                           const LoopValues& b_loops) const {
    const size_t common = common_loops(a, b);
    for (size_t d = 0; d < common; ++d) {
        if (a_loops[d] == b_loops[d]) continue;
        if (a_loops[d] > b_loops[d]) return false;
        return static_cast<uint64_t>(b_loops[d]) - static_cast<uint64_t>(a_loops[d]) >=
               program_.loops[loops_of(a)[d]].max_in_flight;
    }
    if (a >= b) return false;
    std::vector<Escape> escapes;
    if (always_ordered(a, b, escapes)) return true;
    return std::any_of(escapes.begin(), escapes.end(),
                       [&](const Escape& escape) { return holds(escape, a_loops, b_loops); });
}

}  // namespace kpu::execution
