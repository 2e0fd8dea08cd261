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
        block(0, static_cast<uint32_t>(program_.statements.size()), loops, known);
    }

    bool complete() const { return instances_.size() < most_; }
    const std::vector<Instance>& instances() const { return instances_; }
    /// Instances that are complete whenever instance `i` starts.
    const Set& before(size_t i) const { return before_[i]; }

  private:
    bool full() const { return instances_.size() >= most_; }

    /// `known`: what is complete when the next statement of this thread is issued.
    void block(uint32_t first, uint32_t last, const LoopValues& loops, Set& known) {
        for (uint32_t i = first; i < last && !full();) {
            const BoundStatement& statement = program_.statements[i];
            if (statement.kind == BoundStatement::Kind::loop) {
                loop(i, program_.loops[statement.index], loops, known);
                i = program_.loops[statement.index].body_end;
                continue;
            }
            if (statement.kind == BoundStatement::Kind::task)
                task(i, program_.tasks[statement.index], loops, known);
            if (statement.kind == BoundStatement::Kind::wait)
                for (const uint32_t dep : program_.waits[statement.index]) add_tokens(dep, known);
            ++i;
        }
    }

    void task(uint32_t index, const BoundTask& task, const LoopValues& loops, Set& known) {
        const size_t number = instances_.size();
        instances_.push_back({index, loops});
        Set before = known;
        for (const uint32_t dep : task.deps) add_tokens(dep, before);
        before_.push_back(before);
        current_[index].push_back(number);
        if (task.sync) add_complete(number, known);
    }

    void add_complete(size_t instance, Set& set) const {
        set |= before_[instance];
        set.set(instance);
    }

    /// The token of a statement: all its instances in the innermost common iteration.
    void add_tokens(uint32_t statement, Set& set) const {
        for (const size_t instance : current_[statement]) add_complete(instance, set);
    }

    /// Iteration i starts when all iterations up to i - N are complete, and with them every wait of their
    /// threads; the thread goes on when the last has started.
    void loop(uint32_t index, const BoundLoop& loop, const LoopValues& outer, Set& known) {
        const int64_t first = loop.first.eval(outer), last = loop.last.eval(outer);
        const uint32_t body = index + 1;
        std::vector<std::vector<size_t>> all(loop.body_end - body);
        std::vector<size_t> starts;  // first instance of each iteration
        std::vector<Set> ends;       // known at the end of each iteration's thread
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
            Set thread = known;
            block(body, loop.body_end, values, thread);
            ends.push_back(thread);
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
