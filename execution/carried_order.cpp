#include "execution/carried_order.hpp"

#include <algorithm>
#include <deque>

namespace kpu::execution {
namespace {

using Kind = BoundStatement::Kind;

/// Longer distances and windows stand for this one: no loop that ends is that long.
constexpr uint64_t longest = uint64_t{1} << 62;

uint64_t add(uint64_t a, uint64_t b) {
    return std::min(longest, std::min(a, longest) + std::min(b, longest));
}

bool is_same(const OrderClause::Step& step) { return step.iterations == 0 && !step.or_more; }

/// True if the first `levels` steps of a clause stay in one iteration.
bool stays(const OrderClause& clause, size_t levels) {
    return std::all_of(clause.steps.begin(), clause.steps.begin() + static_cast<std::ptrdiff_t>(levels),
                       is_same);
}

bool follows_loops_from(const BoundExpr& expr, int64_t depth) {
    for (size_t t = 0; t < expr.kinds.size(); ++t)
        if (expr.kinds[t] == proto::ExprToken::LOOP && expr.values[t] >= depth) return true;
    return false;
}

constexpr uint32_t none = UINT32_MAX;

}  // namespace

CarriedOrder::CarriedOrder(const BoundProgram& program, const std::vector<LoopFacts>& facts,
                           uint32_t loop_statement)
    : program_(program),
      facts_(facts),
      loop_(loop_statement),
      end_(program.loops[program.statements[loop_statement].index].body_end),
      task_node_(end_ - loop_, none),
      varies_(program.loops.size(), false),
      before_(end_ - loop_ + 2) {
    passed_ = add_node(loop_, {});
    ended_ = add_node(loop_, {});
    const uint32_t finish = lay_out(loop_, {program.statements[loop_].index}, none, passed_);
    add_edge(finish, ended_, same(finish, ended_));
    add_tokens();
    for (uint32_t s = loop_ + 1; s < end_ && !full_; ++s)
        if (program_.statements[s].kind == Kind::task) follow(task_node_[s - loop_]);
    for (const uint32_t node : {passed_, ended_})
        if (!full_) follow(node);
}

uint32_t CarriedOrder::add_node(uint32_t statement, const std::vector<uint32_t>& loops) {
    nodes_.push_back({statement, loops, std::vector<bool>(loops.size(), false), {}});
    return static_cast<uint32_t>(nodes_.size() - 1);
}

void CarriedOrder::add_edge(uint32_t from, uint32_t to, OrderClause clause) {
    nodes_[to].in.push_back({from, std::move(clause)});
}

/// Returns the clause for all instances of two nodes in the same iteration of their common loops.
OrderClause CarriedOrder::same(uint32_t from, uint32_t to) const {
    const std::vector<uint32_t>&a = nodes_[from].loops, &b = nodes_[to].loops;
    size_t shared = 0;
    while (shared < a.size() && shared < b.size() && a[shared] == b[shared]) ++shared;
    OrderClause clause;
    clause.steps.resize(shared);
    clause.early.resize(a.size() - shared, 0);
    clause.late.resize(b.size() - shared, 0);
    return clause;
}

/// Returns the nodes of a loop: the begin and the finish of an iteration, and what stands in it. `thread`:
/// what the thread that comes to the loop had to wait for last. `after`: the node of what follows the loop in
/// that thread. Gives the finish.
uint32_t CarriedOrder::lay_out(uint32_t loop_statement, const std::vector<uint32_t>& loops, uint32_t thread,
                               uint32_t after) {
    const BoundLoop& loop = program_.loops[loops.back()];
    const uint32_t begin = add_node(loop_statement, loops), finish = add_node(loop_statement, loops);
    if (loop_statement == loop_) task_node_[0] = begin;
    if (thread != none) add_edge(thread, begin, same(thread, begin));
    const uint64_t window = std::min(loop.max_in_flight, longest);
    OrderClause next = same(finish, begin);
    next.steps.back() = {window, true};
    add_edge(finish, begin, std::move(next));
    OrderClause left = same(finish, after);
    left.early.back() = window;
    add_edge(finish, after, std::move(left));
    uint32_t last = begin;
    for (uint32_t s = loop_statement + 1; s < loop.body_end; ++s) {
        const BoundStatement& statement = program_.statements[s];
        if (statement.kind == Kind::loop) {
            last = lay_out_inner(s, loops, last, finish);
            s = program_.loops[statement.index].body_end - 1;
        } else if (statement.kind == Kind::task || statement.kind == Kind::wait) {
            const uint32_t node = task_node_[s - loop_] = add_node(s, loops);
            add_edge(last, node, same(last, node));
            add_edge(node, finish, same(node, finish));
            if (statement.kind == Kind::wait || program_.tasks[statement.index].sync) last = node;
        }
    }
    return finish;
}

/// Returns a loop in the body of another, whose iteration has the node `finish`. Gives what follows it.
uint32_t CarriedOrder::lay_out_inner(uint32_t loop_statement, std::vector<uint32_t> loops, uint32_t thread,
                                     uint32_t finish) {
    const uint32_t after = add_node(loop_statement, loops);
    add_edge(thread, after, same(thread, after));
    const uint32_t index = program_.statements[loop_statement].index;
    const BoundLoop& loop = program_.loops[index];
    const int64_t base = program_.loops[program_.statements[loop_].index].depth;
    varies_[index] = follows_loops_from(loop.first, base) || follows_loops_from(loop.last, base);
    loops.push_back(index);
    const uint32_t inner = lay_out(loop_statement, loops, thread, after);
    add_edge(inner, finish, same(inner, finish));
    return after;
}

void CarriedOrder::add_tokens() {
    for (uint32_t s = loop_ + 1; s < end_; ++s) {
        const uint32_t node = task_node_[s - loop_];
        if (node == none) continue;
        const BoundStatement& statement = program_.statements[s];
        const bool waits = statement.kind == Kind::wait;
        for (const uint32_t dep :
             waits ? program_.waits[statement.index] : program_.tasks[statement.index].deps)
            if (contains(dep)) add_edge(task_node_[dep - loop_], node, same(task_node_[dep - loop_], node));
        if (waits) continue;
        for (const CarriedDep& carried : program_.tasks[statement.index].carried) {
            const uint32_t from = task_node_[carried.task - loop_];
            const size_t level = program_.loops[program_.statements[carried.loop].index].depth -
                                 program_.loops[program_.statements[loop_].index].depth;
            OrderClause clause = same(from, node);
            clause.steps[level].iterations = carried.distance;
            add_edge(from, node, std::move(clause));
            if (from == node && carried.distance == 1) nodes_[node].steps[level] = true;
        }
    }
}

bool CarriedOrder::has_iterations(uint32_t loop, uint64_t count) const {
    return facts_[loop].least_iterations >= count;
}

/// True if an instance between the two of the clauses exists, wherever those two do.
bool CarriedOrder::exists_between(const OrderClause& first, uint32_t via, const OrderClause& second) const {
    const size_t a = first.steps.size(), b = second.steps.size();
    const std::vector<uint32_t>& loops = nodes_[via].loops;
    for (size_t d = 0; d < loops.size(); ++d) {
        if (d >= std::max(a, b)) {
            if (!has_iterations(loops[d], add(add(first.late[d - a], second.early[d - b]), 1))) return false;
        } else if (varies_[loops[d]]) {  // its range is that of one of the two if nothing before it moves
            const bool as_first = d < a && stays(first, d), as_second = d < b && stays(second, d);
            const bool between = d < a && d < b &&
                                 ((as_first && is_same(first.steps[d])) ||
                                  (as_second && is_same(second.steps[d])) || (as_first && as_second));
            if (d < a && d < b ? !between : !(as_first || as_second)) return false;
        }
    }
    return true;
}

/// Finds the clause of going through `via`; false when there is none for certain.
bool CarriedOrder::compose(const OrderClause& first, uint32_t via, const OrderClause& second,
                           OrderClause& out) const {
    if (!exists_between(first, via, second)) return false;
    const size_t a = first.steps.size(), b = second.steps.size();
    out = {};
    for (size_t d = 0; d < std::min(a, b); ++d)
        out.steps.push_back({add(first.steps[d].iterations, second.steps[d].iterations),
                             first.steps[d].or_more || second.steps[d].or_more});
    for (size_t d = b; d < a; ++d) out.early.push_back(add(first.steps[d].iterations, second.early[d - b]));
    out.early.insert(out.early.end(), first.early.begin(), first.early.end());
    for (size_t d = a; d < b; ++d) out.late.push_back(add(second.steps[d].iterations, first.late[d - a]));
    out.late.insert(out.late.end(), second.late.begin(), second.late.end());
    return true;
}

/// A task that needs its own token of the iteration before is in order over any number of iterations, if all
/// those between exist.
void CarriedOrder::widen(uint32_t from, uint32_t to, OrderClause& clause) const {
    for (const uint32_t node : {from, to}) {
        const Node& n = nodes_[node];
        for (size_t d = 0; d < clause.steps.size(); ++d) {
            const auto inner = n.loops.begin() + static_cast<std::ptrdiff_t>(d) + 1;
            const bool exist =
                (!varies_[n.loops[d]] || stays(clause, d)) &&
                std::none_of(inner, n.loops.end(), [&](uint32_t loop) { return varies_[loop]; });
            if (n.steps[d] && exist) clause.steps[d].or_more = true;
        }
    }
}

/// True if `wide` holds wherever `narrow` does; both start at `from`.
bool CarriedOrder::covers(uint32_t from, const OrderClause& wide, const OrderClause& narrow) const {
    const size_t a = wide.steps.size(), b = narrow.steps.size();
    if (a > b) return false;
    for (size_t d = 0; d < a; ++d) {
        const OrderClause::Step &x = wide.steps[d], &y = narrow.steps[d];
        if (x.or_more ? y.iterations < x.iterations : y.or_more || y.iterations != x.iterations) return false;
    }
    for (size_t d = a; d < b; ++d) {  // so far ahead in a common loop, they are as far from its ends
        const uint64_t ahead = varies_[nodes_[from].loops[d]] ? 0 : narrow.steps[d].iterations;
        if (wide.early[d - a] > ahead || wide.late[d - a] > ahead) return false;
    }
    for (size_t m = 0; m < narrow.early.size(); ++m)
        if (wide.early[b - a + m] > narrow.early[m]) return false;
    for (size_t m = 0; m < narrow.late.size(); ++m)
        if (wide.late[b - a + m] > narrow.late[m]) return false;
    return true;
}

/// Finds everything that comes before a node.
void CarriedOrder::follow(uint32_t target) {
    std::vector<std::vector<OrderClause>> found(nodes_.size());
    std::deque<std::pair<uint32_t, OrderClause>> open;
    OrderClause itself = same(target, target);
    open.emplace_back(target, itself);
    widen(target, target, itself);
    open.emplace_back(target, std::move(itself));
    OrderClause clause;
    while (!open.empty()) {
        const auto [via, rest] = std::move(open.front());
        open.pop_front();
        for (const Node::Edge& edge : nodes_[via].in) {
            if (!compose(edge.clause, via, rest, clause)) continue;
            widen(edge.from, target, clause);
            std::vector<OrderClause>& known = found[edge.from];
            const auto wider = [&](const OrderClause& other) { return covers(edge.from, other, clause); };
            if (std::any_of(known.begin(), known.end(), wider)) continue;
            if (++work_ > max_work) full_ = true;
            if (full_) return;
            const auto narrower = [&](const OrderClause& other) { return covers(edge.from, clause, other); };
            known.erase(std::remove_if(known.begin(), known.end(), narrower), known.end());
            known.push_back(clause);
            open.emplace_back(edge.from, clause);
        }
    }
    keep(target, found);
}

void CarriedOrder::keep(uint32_t target, std::vector<std::vector<OrderClause>>& found) {
    const size_t count = end_ - loop_;
    std::vector<Before>& list = before_[target == passed_  ? count
                                        : target == ended_ ? count + 1
                                                           : nodes_[target].statement - loop_];
    const auto take = [&](uint32_t statement, uint32_t node) {
        for (OrderClause& known : found[node]) list.push_back({statement, std::move(known)});
    };
    for (uint32_t s = loop_; s < end_; ++s)
        if (task_node_[s - loop_] != none) take(s, task_node_[s - loop_]);
    clauses_ += list.size();
    full_ = full_ || clauses_ > max_clauses;
}

const std::vector<CarriedOrder::Before>& CarriedOrder::before(uint32_t statement) const {
    const size_t count = end_ - loop_;
    return before_[statement == passed ? count : statement == ended ? count + 1 : statement - loop_];
}

/// Returns the loops around a statement, from loop_ on.
const std::vector<uint32_t>& CarriedOrder::loops_of(uint32_t statement) const {
    const bool behind = statement == passed || statement == ended;
    return nodes_[behind ? passed_ : task_node_[statement - loop_]].loops;
}

/// True if no range of the loops around the earlier task moves with the steps of the clause.
bool CarriedOrder::keeps_ranges(const Before& b) const {
    const std::vector<uint32_t>& loops = loops_of(b.statement);
    return stays(b.clause, b.clause.steps.size()) ||
           std::none_of(loops.begin(), loops.end(), [&](uint32_t loop) { return varies_[loop]; });
}

bool CarriedOrder::sure_of_one(const Before& b) const {
    const std::vector<uint32_t>& loops = loops_of(b.statement);
    const size_t shared = b.clause.steps.size();
    for (size_t d = shared; d < loops.size(); ++d)
        if (!has_iterations(loops[d], add(b.clause.early[d - shared], 1))) return false;
    return keeps_ranges(b);
}

bool CarriedOrder::sure_of_later(uint32_t later, const Before& b) const {
    const std::vector<uint32_t>& loops = loops_of(later);
    const size_t shared = b.clause.steps.size();
    for (size_t d = shared; d < loops.size(); ++d)
        if (!has_iterations(loops[d], add(b.clause.late[d - shared], 1))) return false;
    return keeps_ranges(b);
}

bool CarriedOrder::sure_of_all(uint32_t later, const Before& b) const {
    const std::vector<uint32_t>& loops = loops_of(later);
    for (size_t d = 0; d < b.clause.steps.size(); ++d)
        if (!has_iterations(loops[d], add(b.clause.steps[d].iterations, 1))) return false;
    return sure_of_one(b) && sure_of_later(later, b);
}

}  // namespace kpu::execution
