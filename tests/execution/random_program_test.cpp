// Random programs under random completion orders against an independent oracle: which task instances are
// issued is a function of which are complete, written here as a naive recursive walk over the fully expanded
// program.

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tests/execution/program_maker.hpp"
#include "tests/execution/stepper.hpp"

namespace kpu::execution::test {
namespace {

using Values = std::vector<int64_t>;
using Instance = std::pair<uint32_t, Values>;  ///< statement, loop values

class Oracle {
  public:
    explicit Oracle(const BoundProgram& program) : program_(program) {}

    std::set<Instance> issued(const std::set<Instance>& complete) {
        complete_ = &complete;
        std::set<Instance> result;
        walk(0, static_cast<uint32_t>(program_.statements.size()), {}, result);
        return result;
    }

    bool tokens_satisfied(uint32_t s, const Values& values, const std::vector<uint32_t>& deps) {
        for (const uint32_t target : deps) {
            const std::vector<uint32_t> own = loops_around(s), theirs = loops_around(target);
            size_t common = 0;
            while (common < own.size() && common < theirs.size() && own[common] == theirs[common]) ++common;
            const Values prefix(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(common));
            if (!all_complete(target, theirs, prefix)) return false;
        }
        return true;
    }

    /// True if a task has its tokens of the same iteration and of earlier ones.
    bool startable(const Instance& instance) {
        const BoundTask& task = program_.tasks[program_.statements[instance.first].index];
        return tokens_satisfied(instance.first, instance.second, task.deps) &&
               std::all_of(task.carried.begin(), task.carried.end(), [&](const CarriedDep& carried) {
                   return carried_satisfied(instance.first, instance.second, carried);
               });
    }

  private:
    bool carried_satisfied(uint32_t s, const Values& values, const CarriedDep& carried) const {
        const std::vector<uint32_t> own = loops_around(s), theirs = loops_around(carried.task);
        Values prefix;
        for (size_t d = 0; d < own.size() && d < theirs.size() && own[d] == theirs[d]; ++d) {
            prefix.push_back(values[d] - (own[d] == carried.loop ? carried.distance : 0));
        }
        for (size_t d = 0; d < prefix.size(); ++d) {
            const Values outer(prefix.begin(), prefix.begin() + static_cast<std::ptrdiff_t>(d));
            const auto [first, last] = range(own[d], outer);
            if (prefix[d] >= first && prefix[d] <= last) continue;
            return own[d] == carried.loop || entered_.count({own[d], outer}) > 0;
        }
        return all_complete(carried.task, theirs, prefix);
    }

    std::vector<uint32_t> loops_around(uint32_t s) const {
        std::vector<uint32_t> result;
        for (int32_t p = program_.statements[s].parent; p >= 0;
             p = program_.statements[static_cast<size_t>(p)].parent) {
            result.insert(result.begin(), static_cast<uint32_t>(p));
        }
        return result;
    }
    std::pair<int64_t, int64_t> range(uint32_t loop, const Values& values) const {
        LoopValues loops;
        for (const int64_t value : values) loops.push(value);
        const BoundLoop& l = program_.loops[program_.statements[loop].index];
        return {l.first.eval(loops), l.last.eval(loops)};
    }
    bool all_complete(uint32_t target, const std::vector<uint32_t>& loops, const Values& prefix) const {
        if (prefix.size() == loops.size()) return complete_->count({target, prefix}) > 0;
        const auto [first, last] = range(loops[prefix.size()], prefix);
        // An inner loop has no iteration from the moment on at which its thread comes to it, not before.
        if (last < first) return entered_.count({loops[prefix.size()], prefix}) > 0;
        for (int64_t v = first; v <= last; ++v) {
            Values longer = prefix;
            longer.push_back(v);
            if (!all_complete(target, loops, longer)) return false;
        }
        return true;
    }

    /// Executes a thread as far as it can go; true when it ended and everything that it issued is complete.
    bool walk(uint32_t s, uint32_t end, const Values& values, std::set<Instance>& out) {
        bool all = true;
        while (s < end) {
            const BoundStatement& statement = program_.statements[s];
            if (statement.kind == BoundStatement::Kind::task) {
                const BoundTask& task = program_.tasks[statement.index];
                out.insert({s, values});
                const bool done = complete_->count({s, values}) > 0;
                all = all && done;
                if (task.sync && !done) return false;
            } else if (statement.kind == BoundStatement::Kind::wait) {
                if (!tokens_satisfied(s, values, program_.waits[statement.index])) return false;
            } else if (statement.kind == BoundStatement::Kind::loop) {
                const BoundLoop& loop = program_.loops[statement.index];
                const auto [first, last] = range(s, values);
                entered_.insert({s, values});
                std::vector<bool> iteration_complete;
                for (int64_t v = first; v <= last; ++v) {
                    const auto i = static_cast<size_t>(v - first);
                    for (size_t before = 0; before + loop.max_in_flight <= i; ++before) {
                        if (!iteration_complete[before]) return false;
                    }
                    Values inner = values;
                    inner.push_back(v);
                    iteration_complete.push_back(walk(s + 1, loop.body_end, inner, out));
                    all = all && iteration_complete.back();
                }
                s = loop.body_end;
                continue;
            }
            ++s;
        }
        return all;
    }

    const BoundProgram& program_;
    const std::set<Instance>* complete_ = nullptr;
    std::set<Instance> entered_;  ///< loops that their threads have come to
};

class Generator {
  public:
    /// Returns every second program carries tokens.
    explicit Generator(uint32_t seed) : random_(seed), carries_(seed % 2 == 1) {}

    BoundProgram make() {
        block(0, 4 + pick(6));
        return maker_.program;
    }

  private:
    uint32_t pick(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

    std::vector<uint32_t> some_tokens(uint32_t most) {
        std::vector<uint32_t> deps;
        for (uint32_t n = pick(most + 1); n > 0 && !tasks_.empty(); --n) {
            deps.push_back(tasks_[pick(static_cast<uint32_t>(tasks_.size()))]);
        }
        return deps;
    }

    void block(int depth, uint32_t statements) {
        for (uint32_t n = 0; n < statements; ++n) {
            const uint32_t what = pick(10);
            if (what < 4 && depth < 3) {
                const int64_t first = static_cast<int64_t>(pick(3)) - 1;
                BoundExpr last = constant(first + static_cast<int64_t>(pick(5)) - 1);
                if (depth > 0 && pick(2) == 0) last = affine(0, 1, pick(static_cast<uint32_t>(depth)));
                const uint32_t loop =
                    maker_.loop("v" + std::to_string(depth), constant(first), last, 1 + pick(4));
                const size_t first_task = tasks_.size();
                block(depth + 1, 1 + pick(3));
                maker_.end();
                if (carries_) carry(loop, first_task);
            } else if (what == 4) {
                maker_.wait(some_tokens(2));
            } else {
                const uint32_t made = maker_.task("t" + std::to_string(tasks_.size()), some_tokens(3));
                maker_.at(made).sync = pick(8) == 0;
                tasks_.push_back(made);
            }
        }
    }

    /// Tokens of earlier iterations between the tasks of a loop.
    void carry(uint32_t loop, size_t first_task) {
        const auto inside = static_cast<uint32_t>(tasks_.size() - first_task);
        for (uint32_t n = inside == 0 ? 0 : pick(4); n > 0; --n) {
            const uint32_t user = tasks_[first_task + pick(inside)];
            maker_.at(user).carried.push_back({tasks_[first_task + pick(inside)], loop, 1 + pick(3)});
        }
    }

    std::mt19937 random_;
    const bool carries_;
    ProgramMaker maker_;
    std::vector<uint32_t> tasks_;
};

Instance key(const TaskInstance& instance) {
    Values values;
    for (size_t d = 0; d < instance.loops.depth; ++d) values.push_back(instance.loops[d]);
    return {instance.statement, values};
}

/// Listener that keeps the full set of issued instances.
class Recorder : public Stepper {
  public:
    using Stepper::Stepper;
    std::set<Instance> all;
    void on_issue(TaskInstance& instance) override {
        EXPECT_TRUE(all.insert(key(instance)).second) << "issued twice: " << label(instance);
        EXPECT_EQ(instance.serial + 1, all.size());
    }
};

void run_once(const BoundProgram& program, uint32_t order) {
    Oracle oracle(program);
    std::mt19937 random(order);
    std::set<Instance> complete;
    Recorder s(program);
    s.controller.start();
    for (;;) {
        ASSERT_EQ(s.all, oracle.issued(complete));
        size_t startable = 0;
        for (const Instance& instance : s.all) {
            startable += complete.count(instance) == 0 && oracle.startable(instance);
        }
        ASSERT_EQ(s.ready.size(), startable);
        if (s.ready.empty()) break;
        const size_t chosen = random() % s.ready.size();
        const Instance instance = key(*s.ready[chosen]);
        ASSERT_TRUE(oracle.startable(instance)) << s.label(*s.ready[chosen]);
        complete.insert(instance);
        s.complete_at(chosen);
    }
    EXPECT_TRUE(s.controller.finished());
    EXPECT_EQ(complete, s.all);
    EXPECT_EQ(s.controller.live_count(), 0u);
}

// Issue and readiness equal the oracle's after every completion, in 100 random orders of random programs, and
// each program runs to its end.
TEST(RandomPrograms, IssueAndReadinessEqualTheOracle) {
    size_t instances = 0;
    for (uint32_t seed = 0; seed < 80; ++seed) {
        const BoundProgram program = Generator(seed).make();
        for (uint32_t order = 0; order < (seed % 8 == 0 ? 100u : 6u); ++order) {
            SCOPED_TRACE("program " + std::to_string(seed) + ", order " + std::to_string(order));
            run_once(program, order);
            if (HasFatalFailure()) return;
        }
        Stepper s(program);
        s.controller.start();
        while (!s.ready.empty()) s.complete_at(0);
        instances += s.controller.issued_count();
    }
    EXPECT_GT(instances, 400u) << "the generator makes programs worth testing";
}

// A token table of any size changes when tasks are issued, never whether tokens are respected.
TEST(RandomPrograms, TokenTablesKeepTheOrder) {
    for (uint32_t seed = 0; seed < 80; ++seed) {
        const BoundProgram program = Generator(seed).make();
        Oracle oracle(program);
        std::mt19937 random(seed);
        ControlOptions options;
        options.max_active_tokens = 1 + seed % 4;
        Recorder s(program, options);
        s.controller.start();
        std::set<Instance> complete;
        while (!s.ready.empty()) {
            const std::set<Instance> allowed = oracle.issued(complete);
            for (const Instance& instance : s.all) ASSERT_TRUE(allowed.count(instance));
            ASSERT_LE(s.controller.tokens_in_flight(0), options.max_active_tokens);
            const size_t chosen = random() % s.ready.size();
            complete.insert(key(*s.ready[chosen]));
            s.complete_at(chosen);
        }
        if (s.controller.finished()) continue;
        EXPECT_NE(s.controller.explain_block().find("closed"), std::string::npos);
    }
}

}  // namespace
}  // namespace kpu::execution::test
