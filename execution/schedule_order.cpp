#include "execution/schedule_order.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/diagnostics.hpp"

namespace kpu::execution {
namespace {

using Kind = BoundStatement::Kind;

std::vector<uint32_t> numbers_of_flat_tasks(const BoundProgram& program) {
    std::vector<uint32_t> numbers(program.statements.size());
    uint32_t next = 0;
    for (size_t s = 0; s < numbers.size(); ++s)
        if (program.statements[s].kind == Kind::task && program.statements[s].parent < 0) numbers[s] = next++;
    return numbers;
}

}  // namespace

size_t ScheduleOrder::tasks_in_loops(const BoundProgram& program) {
    return static_cast<size_t>(
        std::count_if(program.statements.begin(), program.statements.end(),
                      [](const BoundStatement& s) { return s.kind == Kind::task && s.parent >= 0; }));
}

/// Counts how often statements refer to each flat task.
std::vector<uint32_t> ScheduleOrder::users_of_flat_tasks() const {
    std::vector<uint32_t> users(program_.tasks.size() - tasks_in_loops(program_));
    const auto count = [&](uint32_t dep) {
        if (is_flat(dep)) ++users[number_[dep]];
    };
    for (uint32_t s = 0; s < program_.statements.size(); ++s) {
        const BoundStatement& statement = program_.statements[s];
        if (statement.kind == Kind::task) {
            const BoundTask& task = program_.tasks[statement.index];
            std::for_each(task.deps.begin(), task.deps.end(), count);
            if (task.sync) count(s);
        } else if (statement.kind == Kind::wait) {
            const std::vector<uint32_t>& waits = program_.waits[statement.index];
            std::for_each(waits.begin(), waits.end(), count);
        }
    }
    return users;
}

ScheduleOrder::ScheduleOrder(const BoundProgram& program, const std::vector<LoopFacts>& facts,
                             const std::atomic<bool>* interrupt)
    : ScheduleOrder(program, facts, interrupt, nullptr) {}

void ScheduleOrder::pass(const BoundProgram& program, const std::atomic<bool>* interrupt,
                         const FlatVisit& visit) {
    if (tasks_in_loops(program) > 0) throw InternalError("one pass is for programs without loops");
    ScheduleOrder(program, loop_facts(program), interrupt, &visit);
}

ScheduleOrder::ScheduleOrder(const BoundProgram& program, const std::vector<LoopFacts>& facts,
                             const std::atomic<bool>* interrupt, const FlatVisit* visit)
    : program_(program),
      facts_(facts),
      interrupt_(interrupt),
      visit_(visit),
      number_(numbers_of_flat_tasks(program)),
      chains_(users_of_flat_tasks()) {
    if (const size_t tasks = tasks_in_loops(program); tasks > max_tasks) {
        throw UserError(fmt::format(
            "the order of more than {} tasks in loops is not followed; the program has {}. Fix: write the "
            "repetition as loops.",
            max_tasks, tasks));
    }
    loops_.resize(program_.loops.size());
    find_carriers();
    number_tasks();
    flat_before_.resize(program_.tasks.size() - tasks_in_loops(program));
    Known known;
    block(0, static_cast<uint32_t>(program_.statements.size()), known);
}

/// Finds the outermost loops that carry tokens, and those inside them.
void ScheduleOrder::find_carriers() {
    std::vector<bool> carries(program_.statements.size(), false);
    for (const BoundTask& task : program_.tasks)
        for (const CarriedDep& dep : task.carried) carries[dep.loop] = true;
    for (uint32_t s = 0, end = 0; s < program_.statements.size(); ++s) {
        if (program_.statements[s].kind != Kind::loop) continue;
        const uint32_t index = program_.statements[s].index;
        if (s >= end && !carries[s]) continue;
        if (s >= end) {
            end = program_.loops[index].body_end;
            carried_.emplace_back();
            end_number_.push_back(none);
        }
        loops_[index].carried = static_cast<uint32_t>(carried_.size() - 1);
    }
}

void ScheduleOrder::number_tasks() {
    const auto count = static_cast<uint32_t>(program_.statements.size());
    std::vector<uint32_t> around;
    uint32_t loops_seen = 0;
    for (uint32_t s = 0; s <= count; ++s) {
        while (!around.empty() && s >= program_.loops[around.back()].body_end) {
            LoopOrder& ended = loops_[around.back()];
            ended.end_task = static_cast<uint32_t>(tasks_.size());
            ended.loops_end = loops_seen;
            around.pop_back();
            if (ended.carried == none || (!around.empty() && loops_[around.back()].carried != none)) continue;
            end_number_[ended.carried] = static_cast<uint32_t>(tasks_.size());
            tasks_.push_back({ended.statement, around, around.size(), none, {}, {}, {}});
        }
        if (s == count) break;
        const BoundStatement& statement = program_.statements[s];
        if (statement.kind == Kind::loop) {
            around.push_back(statement.index);
            loops_[statement.index].statement = s;
            loops_[statement.index].first_task = static_cast<uint32_t>(tasks_.size());
            loops_seen = statement.index + 1;  // they stand in the order of the text
        } else if (statement.kind == Kind::task && !around.empty()) {
            number_[s] = static_cast<uint32_t>(tasks_.size());
            const auto outer =
                static_cast<size_t>(std::find_if(around.begin(), around.end(),
                                                 [&](uint32_t l) { return loops_[l].carried != none; }) -
                                    around.begin());
            const uint32_t carried = outer < around.size() ? loops_[around[outer]].carried : none;
            tasks_.push_back({s, around, outer, carried, {}, {}, {}});
        }
    }
}

void ScheduleOrder::block(uint32_t first, uint32_t end, Known& known) {
    for (uint32_t s = first; s < end; ++s) {
        if (interrupt_ != nullptr && interrupt_->load(std::memory_order_relaxed)) throw OrderInterrupted();
        const BoundStatement& statement = program_.statements[s];
        if (statement.kind == Kind::task) {
            const BoundTask& task = program_.tasks[statement.index];
            Known& before = is_flat(s) ? flat_before_[number_[s]] : tasks_[number_[s]].before;
            before = known;
            for (const uint32_t dep : task.deps) add_token(dep, s, before);
            if (is_flat(s)) chain(s, task, before.flat);
            if (task.sync) add_token(s, s, known);
            if (visit_ != nullptr) (*visit_)(*this, s);
            for (const uint32_t dep : task.deps) seen(dep);
            if (task.sync) seen(s);
            if (visit_ != nullptr) forget(number_[s]);
        } else if (statement.kind == Kind::wait) {
            for (const uint32_t dep : program_.waits[statement.index]) {
                add_token(dep, s, known);
                seen(dep);
            }
        } else if (statement.kind == Kind::loop) {
            const LoopOrder& order = loops_[statement.index];
            order.carried == none ? loop(statement.index, known) : carrying_loop(statement.index, known);
            s = program_.loops[statement.index].body_end - 1;
        }
    }
}

void ScheduleOrder::chain(uint32_t s, const BoundTask& task, const ChainClock& before) {
    std::vector<uint32_t> needs;
    for (const uint32_t dep : task.deps)
        if (is_flat(dep)) needs.push_back(number_[dep]);
    chains_.add(number_[s], before, needs);
}

/// The thread goes on once the last iteration has started: those up to last - max_in_flight are complete.
void ScheduleOrder::loop(uint32_t index, Known& known) {
    LoopOrder& order = loops_[index];
    Known thread = known;
    block(order.statement + 1, program_.loops[index].body_end, thread);
    order.completed = completed_iteration(index, thread);
    order.completed.tasks.remove(known.tasks);  // what is known of others costs nothing
    order.completed.tails.remove(known.tails);
    known.tails.insert(index);
    if (facts_[index].longer_than_window) known.add(order.completed);
}

/// Gives a carrying loop's tasks what they know of the text before the loop; who follows it asks its own
/// order.
void ScheduleOrder::carrying_loop(uint32_t index, Known& known) {
    const LoopOrder& order = loops_[index];
    carried_[order.carried] = std::make_unique<CarriedOrder>(program_, facts_, order.statement);
    const CarriedOrder& carried = *carried_[order.carried];
    if (carried.full() && !too_large_) too_large_ = order.statement;
    std::vector<Known> known_of;
    for (uint32_t s = order.statement; s < carried.end(); ++s) known_of.push_back(outside(carried, s, known));
    for (uint32_t t = order.first_task; t < order.end_task; ++t) add_before(carried, known_of, tasks_[t]);
    const auto learn = [&](uint32_t at, Known& to) {
        for (const CarriedOrder::Before& before : carried.before(at)) {
            if (all_of(carried, at, before)) to.tasks.insert(number_[before.statement]);
            const Known& from = known_of[before.statement - order.statement];
            if (!from.empty() && carried.sure_of_all(at, before)) to.add(from);
        }
    };
    learn(CarriedOrder::ended, tasks_[end_number_[order.carried]].before);
    learn(CarriedOrder::passed, known);
    known.tasks.insert(end_number_[order.carried]);
}

/// Returns what a statement of a loop waits for outside of it.
ScheduleOrder::Known ScheduleOrder::outside(const CarriedOrder& carried, uint32_t s, const Known& at_begin) {
    const BoundStatement& statement = program_.statements[s];
    Known known;
    if (s == carried.loop_statement()) return at_begin;
    const bool task = statement.kind == Kind::task;
    if (!task && statement.kind != Kind::wait) return known;
    for (const uint32_t dep : task ? program_.tasks[statement.index].deps : program_.waits[statement.index])
        if (!carried.contains(dep)) {
            add_token(dep, s, known);
            seen(dep);
        }
    return known;
}

/// True if all instances of a task come before some instance of what follows it, for certain.
bool ScheduleOrder::all_of(const CarriedOrder& carried, uint32_t later, const CarriedOrder::Before& b) const {
    const auto zero = [](uint64_t iterations) { return iterations == 0; };
    return program_.statements[b.statement].kind == Kind::task &&
           std::all_of(b.clause.early.begin(), b.clause.early.end(), zero) &&
           std::all_of(b.clause.steps.begin(), b.clause.steps.end(),
                       [&](const OrderClause::Step& step) { return zero(step.iterations); }) &&
           carried.sure_of_later(later, b);
}

/// Adds what a task of a loop that carries tokens knows of the text before the loop, from all that comes
/// before it.
void ScheduleOrder::add_before(const CarriedOrder& carried, const std::vector<Known>& known_of,
                               TaskOrder& task) const {
    const auto at = [&](uint32_t s) -> const Known& { return known_of[s - carried.loop_statement()]; };
    task.before = at(task.statement);
    const auto first = task.loops.begin() + static_cast<std::ptrdiff_t>(task.outer);
    if (std::all_of(first, task.loops.end(), [&](uint32_t l) { return facts_[l].never_empty(); }))
        task.token = task.before;
    for (const CarriedOrder::Before& b : carried.before(task.statement)) {
        if (all_of(carried, task.statement, b)) task.token.tasks.insert(number_[b.statement]);
        const Known& known = at(b.statement);
        if (known.empty()) continue;
        if (carried.sure_of_all(task.statement, b)) task.token.add(known);
        if (!carried.sure_of_one(b)) continue;
        std::vector<Escape::Margin> late;
        const size_t shared = b.clause.steps.size();
        for (size_t d = 0; task.outer + d < task.loops.size(); ++d) {
            const uint64_t behind = d < shared ? b.clause.steps[d].iterations : b.clause.late[d - shared];
            if (behind > 0) late.push_back({task.loops[task.outer + d], behind});
        }
        const auto view =
            std::find_if(task.views.begin(), task.views.end(), [&](const View& v) { return v.late == late; });
        if (late.empty()) {
            task.before.add(known);
        } else if (view != task.views.end()) {
            view->known.add(known);
        } else {
            task.views.push_back({std::move(late), known});
        }
    }
}

/// True if a loop has an iteration in each iteration of a loop around it.
bool ScheduleOrder::runs_in(uint32_t loop, uint32_t outer) const {
    for (uint32_t s = loops_[loop].statement; s != loops_[outer].statement;
         s = static_cast<uint32_t>(program_.statements[s].parent))
        if (!facts_[program_.statements[s].index].never_empty()) return false;
    return true;
}

/// Returns what a complete iteration of a loop says of tasks outside the loop.
ScheduleOrder::Known ScheduleOrder::completed_iteration(uint32_t loop_index, const Known& body_end) const {
    const LoopOrder& order = loops_[loop_index];
    const size_t depth = program_.loops[loop_index].depth;
    Known result;
    const auto add = [&](const Known& known) {
        result.flat.add(known.flat);
        result.tasks.add(known.tasks, 0, order.first_task);
        result.tails.add(known.tails, 0, loop_index);
    };
    add(body_end);
    for (uint32_t t = order.first_task; t < order.end_task; ++t) {
        const TaskOrder& task = tasks_[t];
        const auto first = task.loops.begin(), inner = first + static_cast<std::ptrdiff_t>(depth) + 1;
        const bool runs = std::all_of(inner, first + static_cast<std::ptrdiff_t>(task.outer),
                                      [&](uint32_t l) { return facts_[l].never_empty(); });
        if (!runs) continue;
        add(task.carried == none ? task.before : task.token);
    }
    for (uint32_t l = loop_index + 1; l < order.loops_end; ++l)
        if (loops_[l].carried == none && runs_in(l, loop_index)) add(loops_[l].completed);
    return result;
}

/// Adds what the token of task `dep` implies where statement `user` needs it: all instances of the task in
/// the innermost common iteration, and what was complete before each of them.
void ScheduleOrder::add_token(uint32_t dep, uint32_t user, Known& known) const {
    const TaskOrder& task = order_of(dep);
    const Known& before = task.carried == none ? before_of(dep) : task.token;
    is_flat(dep) ? chains_.complete(number_[dep], known.flat) : known.tasks.insert(number_[dep]);
    size_t common = 0;
    while (common < task.outer && user < program_.loops[task.loops[common]].body_end) ++common;
    size_t sure = common;  // loops from here on run for certain
    for (size_t d = common; d < task.outer; ++d) {
        if (!facts_[task.loops[d]].never_empty()) sure = d + 1;
    }
    if (sure == common) {
        known.add(before);
    } else {  // without iterations the token says nothing of what stands before its loop
        const LoopOrder& outer = loops_[task.loops[sure - 1]];
        known.tasks.add(before.tasks, outer.first_task, outer.end_task);
        known.tails.add(before.tails, task.loops[sure - 1] + 1, outer.loops_end);
    }
    for (size_t d = common; d < task.outer; ++d) {
        const uint32_t index = task.loops[d];
        if (d + 1 >= sure) known.tails.insert(index);
        if (sure == common && facts_[index].longer_than_window) known.add(loops_[index].completed);
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

bool ScheduleOrder::all_before(uint32_t first, uint32_t last, uint32_t later) const {
    const std::vector<uint32_t>& around = loops_of(later);
    const uint32_t outermost = around.empty() ? later : loops_[around[0]].statement;
    return last < outermost && before_of(later).tasks.contains_all(number_[first], number_[last] + 1);
}

/// Visits the clauses of what comes before `later` until `visit` returns false.
template <class Visit>
void ScheduleOrder::for_each_clause(uint32_t carried, uint32_t earlier, uint32_t later, Visit visit) const {
    const std::vector<CarriedOrder::Before>& list = carried_[carried]->before(later);
    auto at = std::lower_bound(list.begin(), list.end(), earlier,
                               [](const CarriedOrder::Before& b, uint32_t s) { return b.statement < s; });
    for (; at != list.end() && at->statement == earlier; ++at)
        if (!visit(*at)) return;
}

/// `later` null: what follows the loop.
Escape ScheduleOrder::escape_of(const OrderClause& clause, const TaskOrder& earlier,
                                const TaskOrder* later) const {
    Escape escape;
    const size_t base = earlier.outer, shared = clause.steps.size();
    for (size_t d = 0; d < shared; ++d)
        escape.distances.push_back({base + d, clause.steps[d].iterations, clause.steps[d].or_more});
    for (size_t d = 0; d < clause.early.size(); ++d)
        if (clause.early[d] > 0) escape.early.push_back({earlier.loops[base + shared + d], clause.early[d]});
    for (size_t d = 0; d < clause.late.size(); ++d)
        if (clause.late[d] > 0) escape.late.push_back({later->loops[base + shared + d], clause.late[d]});
    return escape;
}

bool ScheduleOrder::always_ordered(uint32_t earlier, uint32_t later, std::vector<Escape>& escapes) const {
    escapes.clear();
    const TaskOrder &a = order_of(earlier), &b = order_of(later);
    const size_t common = common_loops(earlier, later);
    const Known& known = before_of(later);
    if (same_carrier(a, b)) {
        for_each_clause(a.carried, earlier, later, [&](const CarriedOrder::Before& before) {
            Escape escape = escape_of(before.clause, a, &b);
            const bool stays = std::all_of(escape.distances.begin(), escape.distances.end(),
                                           [](const Escape::Distance& d) { return d.iterations == 0; });
            escape.distances.clear();
            if (stays) escapes.push_back(std::move(escape));
            return true;
        });
    } else if (knows(known, earlier)) {
        return true;
    } else {
        add_escapes(earlier, common, {}, known, escapes);
        for (const View& view : b.views) add_escapes(earlier, common, view.late, view.known, escapes);
        for (size_t e = common; e < b.outer; ++e) {
            const uint32_t index = b.loops[e];
            add_escapes(earlier, common, {{index, program_.loops[index].max_in_flight}},
                        loops_[index].completed, escapes);
        }
    }
    return std::any_of(escapes.begin(), escapes.end(),
                       [](const Escape& escape) { return escape.early.empty() && escape.late.empty(); });
}

/// Adds what `known`, which holds `late` iterations after the first of the later task, says of the earlier
/// one.
void ScheduleOrder::add_escapes(uint32_t statement, size_t common, const std::vector<Escape::Margin>& late,
                                const Known& known, std::vector<Escape>& escapes) const {
    if (knows(known, statement)) escapes.push_back({{}, {}, late});
    const TaskOrder& earlier = order_of(statement);
    for (size_t d = common; d < earlier.outer; ++d) {
        const uint32_t index = earlier.loops[d];
        if (known.tails.contains(index))
            escapes.push_back({{}, {{index, program_.loops[index].max_in_flight}}, late});
    }
    if (earlier.carried != none) add_escapes_by_clauses(earlier, late, known, escapes);
}

/// Adds escapes of an earlier task in a loop that carries tokens: it is before what is known of that loop.
void ScheduleOrder::add_escapes_by_clauses(const TaskOrder& earlier, const std::vector<Escape::Margin>& late,
                                           const Known& known, std::vector<Escape>& escapes) const {
    const CarriedOrder& carried = *carried_[earlier.carried];
    const auto add = [&](uint32_t via) {
        for_each_clause(earlier.carried, earlier.statement, via, [&](const CarriedOrder::Before& before) {
            if (!carried.sure_of_later(via, before)) return true;
            const OrderClause& clause = before.clause;
            Escape escape{{}, {}, late};
            for (size_t d = 0; earlier.outer + d < earlier.loops.size(); ++d) {
                const size_t shared = clause.steps.size();
                const uint64_t ahead = d < shared ? clause.steps[d].iterations : clause.early[d - shared];
                if (ahead > 0) escape.early.push_back({earlier.loops[earlier.outer + d], ahead});
            }
            escapes.push_back(std::move(escape));
            return true;
        });
    };
    const LoopOrder& loop = loops_[program_.statements[carried.loop_statement()].index];
    for (uint32_t t = loop.first_task; t < loop.end_task; ++t)
        if (known.tasks.contains(t)) add(tasks_[t].statement);
    if (known.tasks.contains(end_number_[earlier.carried])) add(CarriedOrder::passed);
}

std::vector<Escape> ScheduleOrder::carried(uint32_t earlier, uint32_t later, size_t shared) const {
    std::vector<Escape> escapes;
    const TaskOrder &a = order_of(earlier), &b = order_of(later);
    if (!same_carrier(a, b) || shared < a.outer) return escapes;
    for_each_clause(a.carried, earlier, later, [&](const CarriedOrder::Before& before) {
        Escape escape = escape_of(before.clause, a, &b);
        const bool stays = std::all_of(escape.distances.begin(), escape.distances.end(),
                                       [&](const auto& d) { return d.depth >= shared || d.iterations == 0; });
        const auto same = [&](const Escape::Distance& d) { return d.depth < shared; };
        escape.distances.erase(std::remove_if(escape.distances.begin(), escape.distances.end(), same),
                               escape.distances.end());
        if (stays) escapes.push_back(std::move(escape));
        return true;
    });
    return escapes;
}

bool ScheduleOrder::holds(const Escape& escape, const LoopValues& earlier, const LoopValues& later) const {
    const auto apart = [](int64_t low, int64_t high) {
        return high < low ? 0 : static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
    };
    for (const Escape::Distance& distance : escape.distances) {
        const int64_t low = earlier[distance.depth], high = later[distance.depth];
        const uint64_t ahead = apart(low, high);
        if (high < low || ahead < distance.iterations) return false;
        if (!distance.or_more && ahead != distance.iterations) return false;
    }
    for (const Escape::Margin& margin : escape.early) {
        const BoundLoop& loop = program_.loops[margin.loop];
        if (apart(earlier[loop.depth], loop.last.eval(earlier)) < margin.iterations) return false;
    }
    for (const Escape::Margin& margin : escape.late) {
        const BoundLoop& loop = program_.loops[margin.loop];
        if (apart(loop.first.eval(later), later[loop.depth]) < margin.iterations) return false;
    }
    return true;
}

bool ScheduleOrder::before(uint32_t a, const LoopValues& a_loops, uint32_t b,
                           const LoopValues& b_loops) const {
    if (is_flat(a) && is_flat(b)) return a < b && flat_ordered(a, b);
    const size_t common = common_loops(a, b);
    const auto any_holds = [&](const std::vector<Escape>& escapes) {
        return std::any_of(escapes.begin(), escapes.end(),
                           [&](const Escape& escape) { return holds(escape, a_loops, b_loops); });
    };
    for (size_t d = 0; d < common; ++d) {
        if (a_loops[d] == b_loops[d]) continue;
        if (a_loops[d] > b_loops[d]) return false;
        return static_cast<uint64_t>(b_loops[d]) - static_cast<uint64_t>(a_loops[d]) >=
                   program_.loops[loops_of(a)[d]].max_in_flight ||
               any_holds(carried(a, b, d));
    }
    if (a >= b) return false;
    std::vector<Escape> escapes;
    return always_ordered(a, b, escapes) || any_holds(escapes);
}

}  // namespace kpu::execution
