#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <vector>

#include "execution/loop_facts.hpp"
#include "isa/bound_program.hpp"

namespace kpu::execution {

/// Condition under which an instance of one statement is complete before one of another starts. Level l
/// stands for the l-th loop around both, counted from the loop that carries: in the first levels the later
/// instance is a number of iterations ahead; of the others the earlier one is a number of iterations before
/// the last, the later one after the first.
struct OrderClause {
    struct Step {
        uint64_t iterations = 0;
        bool or_more = false;
    };
    using Margins = boost::container::small_vector<uint64_t, 3>;
    boost::container::small_vector<Step, 3> steps;
    Margins early;  ///< levels of the earlier statement from steps.size() on
    Margins late;   ///< margins of the later one
};

/// The order of the instances of a loop that carries tokens, within one iteration of the loops around it. What
/// happens in one iteration, and what iterations give to later ones, is written as edges between statements;
/// following them backwards from a statement gives the clauses of all that comes before it.
///
/// Where it is not known how many iterations a loop has, some orders go unseen; none is ever made up.
class CarriedOrder {
  public:
    static constexpr size_t max_clauses = size_t{1} << 20;  ///< kept for one loop
    static constexpr size_t max_work = size_t{1} << 22;     ///< clauses looked at for one loop
    static constexpr uint32_t passed = UINT32_MAX;     ///< stands for what follows the loop in its thread
    static constexpr uint32_t ended = UINT32_MAX - 1;  ///< for the end of all its iterations

    /// A statement that comes before another: a task, a wait, or the loop itself for what its thread knows.
    struct Before {
        uint32_t statement = 0;
        OrderClause clause;
    };

    CarriedOrder(const BoundProgram& program, const std::vector<LoopFacts>& facts, uint32_t loop_statement);

    uint32_t loop_statement() const { return loop_; }
    uint32_t end() const { return end_; }  ///< the statement after the loop
    bool contains(uint32_t statement) const { return statement > loop_ && statement < end_; }
    /// Returns what is complete before a task in the loop, `passed` or `ended`; ascending by statement.
    const std::vector<Before>& before(uint32_t statement) const;
    /// True if the earlier statement has an instance under the clause for each later one that is as many
    /// iterations after the first as the clause says.
    bool sure_of_one(const Before& before) const;
    /// The same for the later statement: each earlier one that is as far before the last iterations has one.
    bool sure_of_later(uint32_t later, const Before& before) const;
    /// True if there is a pair of instances under the clause.
    bool sure_of_all(uint32_t later, const Before& before) const;
    /// True if some orders are missing: there were too many clauses.
    bool full() const { return full_; }

  private:
    struct Node {
        uint32_t statement = 0;       ///< task or wait; begin, finish and passing of a loop: the loop
        std::vector<uint32_t> loops;  ///< from loop_ on, as indices into BoundProgram::loops
        /// For each level: a task that needs its own token of the iteration before.
        std::vector<bool> steps;
        struct Edge {
            uint32_t from = 0;
            OrderClause clause;
        };
        std::vector<Edge> in;
    };

    uint32_t add_node(uint32_t statement, const std::vector<uint32_t>& loops);
    void add_edge(uint32_t from, uint32_t to, OrderClause clause);
    OrderClause same(uint32_t from, uint32_t to) const;
    uint32_t lay_out(uint32_t loop_statement, const std::vector<uint32_t>& loops, uint32_t thread,
                     uint32_t after);
    uint32_t lay_out_inner(uint32_t loop_statement, std::vector<uint32_t> loops, uint32_t thread,
                           uint32_t finish);
    void add_tokens();
    void follow(uint32_t target);
    void keep(uint32_t target, std::vector<std::vector<OrderClause>>& found);
    bool compose(const OrderClause& first, uint32_t via, const OrderClause& second, OrderClause& out) const;
    bool exists_between(const OrderClause& first, uint32_t via, const OrderClause& second) const;
    void widen(uint32_t from, uint32_t to, OrderClause& clause) const;
    bool covers(uint32_t from, const OrderClause& wide, const OrderClause& narrow) const;
    bool has_iterations(uint32_t loop, uint64_t count) const;
    bool keeps_ranges(const Before& before) const;
    const std::vector<uint32_t>& loops_of(uint32_t statement) const;

    const BoundProgram& program_;
    const std::vector<LoopFacts>& facts_;
    const uint32_t loop_, end_;
    std::vector<Node> nodes_;
    std::vector<uint32_t> task_node_;          ///< indexed by statement from loop_ on, which has its begin
    std::vector<bool> varies_;                 ///< indexed by loop: its bounds follow loops from loop_ on
    std::vector<std::vector<Before>> before_;  ///< indexed by statement from loop_ on; then passed, ended
    uint32_t passed_ = 0, ended_ = 0;          ///< their nodes
    size_t clauses_ = 0, work_ = 0;
    bool full_ = false;
};

}  // namespace kpu::execution
