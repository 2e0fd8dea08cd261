#pragma once
// The order of a program's task instances by unrolling it: an independent, naive answer to what ScheduleOrder
// says in closed form.

#include <boost/dynamic_bitset.hpp>
#include <vector>

#include "isa/bound_program.hpp"

namespace kpu::analysis::test {

struct Instance {
    uint32_t statement;
    LoopValues loops;
};

/// Follows the text, one iteration after the other.
class Unroller {
  public:
    using Set = boost::dynamic_bitset<>;

    Unroller(const BoundProgram& program, size_t most)
        : program_(program), most_(most), current_(program.statements.size()) {
        Set known(most);
        LoopValues loops;
        Set ended(most);
        block(0, static_cast<uint32_t>(program_.statements.size()), loops, known, ended);
    }

    bool complete() const { return instances_.size() < most_; }
    const std::vector<Instance>& instances() const { return instances_; }
    /// Instances that are complete whenever instance `i` starts.
    const Set& before(size_t i) const { return before_[i]; }

  private:
    bool full() const { return instances_.size() >= most_; }

    /// `known`: what is complete when the next statement of this thread is issued. Adds to `ended` what is when
    /// this thread and those of its loops have ended.
    void block(uint32_t first, uint32_t last, const LoopValues& loops, Set& known, Set& ended) {
        for (uint32_t i = first; i < last && !full();) {
            const BoundStatement& statement = program_.statements[i];
            if (statement.kind == BoundStatement::Kind::loop) {
                loop(i, program_.loops[statement.index], loops, known, ended);
                i = program_.loops[statement.index].body_end;
                continue;
            }
            if (statement.kind == BoundStatement::Kind::task)
                task(i, program_.tasks[statement.index], loops, known);
            if (statement.kind == BoundStatement::Kind::wait)
                for (const uint32_t dep : program_.waits[statement.index]) add_tokens(dep, known);
            ++i;
        }
        ended |= known;
    }

    void task(uint32_t index, const BoundTask& task, const LoopValues& loops, Set& known) {
        const size_t number = instances_.size();
        Set before = known;
        for (const uint32_t dep : task.deps) add_tokens(dep, before);
        for (const CarriedDep& carried : task.carried) add_carried(carried, index, loops, before);
        instances_.push_back({index, loops});
        before_.push_back(before);
        current_[index].push_back(number);
        if (task.sync) add_complete(number, known);
    }

    void add_complete(size_t instance, Set& set) const {
        set |= before_[instance];
        set.set(instance);
    }

    /// Adds the token of a statement: all its instances in the innermost common iteration.
    void add_tokens(uint32_t statement, Set& set) const {
        for (const size_t instance : current_[statement]) add_complete(instance, set);
    }

    /// Instances that share the loops around both tasks, but for the carrying one, which is earlier.
    void add_carried(const CarriedDep& carried, uint32_t user, const LoopValues& loops, Set& set) const {
        for (size_t i = 0; i < instances_.size(); ++i) {
            const Instance& other = instances_[i];
            if (other.statement != carried.task) continue;
            bool same = true;
            for (int32_t l = program_.statements[user].parent; l >= 0;
                 l = program_.statements[static_cast<size_t>(l)].parent) {
                const BoundLoop& loop = program_.loops[program_.statements[static_cast<size_t>(l)].index];
                if (carried.task < static_cast<uint32_t>(l) || carried.task >= loop.body_end) continue;
                const int64_t back = static_cast<uint32_t>(l) == carried.loop ? carried.distance : 0;
                same = same && other.loops[loop.depth] == loops[loop.depth] - back;
            }
            if (same) add_complete(i, set);
        }
    }

    /// Iteration i starts when all iterations up to i - N are complete, and with them every wait of their
    /// threads; the thread goes on when the last has started.
    void loop(uint32_t index, const BoundLoop& loop, const LoopValues& outer, Set& known, Set& ended) {
        const int64_t first = loop.first.eval(outer), last = loop.last.eval(outer);
        const uint32_t body = index + 1;
        std::vector<std::vector<size_t>> all(loop.body_end - body);
        std::vector<size_t> starts;  // first instance of each iteration
        std::vector<Set> ends;       // known when each iteration is complete
        for (int64_t i = first; i <= last && !full(); ++i) {
            const size_t number = starts.size();
            starts.push_back(instances_.size());
            if (number >= loop.max_in_flight) {
                const size_t done = number - loop.max_in_flight;
                for (size_t k = starts[done]; k < starts[done + 1]; ++k) add_complete(k, known);
                known |= ends[done];
            }
            for (uint32_t s = body; s < loop.body_end; ++s) current_[s].clear();
            LoopValues values = outer;
            values.push(i);
            Set thread = known, end = known;
            block(body, loop.body_end, values, thread, end);
            ends.push_back(end);
            ended |= end;
            for (uint32_t s = body; s < loop.body_end; ++s) {
                all[s - body].insert(all[s - body].end(), current_[s].begin(), current_[s].end());
            }
        }
        for (uint32_t s = body; s < loop.body_end; ++s) current_[s] = std::move(all[s - body]);
    }

    const BoundProgram& program_;
    const size_t most_;
    std::vector<Instance> instances_;
    std::vector<Set> before_;
    std::vector<std::vector<size_t>>
        current_;  ///< per statement: instances that a token of it stands for now
};

}  // namespace kpu::analysis::test
