// Pass 7: two accesses to common bytes, one of them a write, must be ordered by tokens, waits or a loop
// window. The program is unrolled for the first task instances, enough to see the steady state of its
// pipelines, and what is known complete at the start of each instance is followed exactly by the rules of
// control. A run reports the races that really happen; this pass reports those that the program permits.
#include <fmt/format.h>

#include <boost/dynamic_bitset.hpp>
#include <map>
#include <set>

#include "isa/footprint.hpp"
#include "isa/verify_passes.hpp"

namespace kpu {
namespace {

constexpr size_t max_instances = 4096;
constexpr uint64_t max_iterations = 1 << 16;  // of loops without tasks
constexpr size_t max_hazards = 100;           // then the rest is not listed
using TaskSet = boost::dynamic_bitset<>;

struct Instance {
    uint32_t statement;
    LoopValues loops;
};

struct Access {
    uint32_t instance;
    const BoundRegion* region;
    int64_t address;
    bool write;
};

/// Unrolls the program in the order of the text, one iteration after the other.
class Unroller {
  public:
    explicit Unroller(const BoundProgram& program)
        : program_(program), current_(program_.statements.size()) {}

    void run() {
        TaskSet known(max_instances);
        LoopValues loops;
        block(0, static_cast<uint32_t>(program_.statements.size()), loops, known);
    }

    const std::vector<Instance>& instances() const { return instances_; }
    /// Instances that are complete whenever instance `i` starts.
    const TaskSet& before(size_t i) const { return before_[i]; }

  private:
    bool full() const { return instances_.size() >= max_instances || iterations_ >= max_iterations; }

    /// Runs statements [first, last) of one thread; `known`: what is complete when its next statement is
    /// issued.
    void block(uint32_t first, uint32_t last, const LoopValues& loops, TaskSet& known) {
        for (uint32_t i = first; i < last && !full();) {
            const BoundStatement& statement = program_.statements[i];
            switch (statement.kind) {
                case BoundStatement::Kind::task:
                    task(i, program_.tasks[statement.index], loops, known);
                    break;
                case BoundStatement::Kind::wait:
                    for (const uint32_t dep : program_.waits[statement.index]) add_tokens(dep, known);
                    break;
                case BoundStatement::Kind::loop:
                    loop(i, program_.loops[statement.index], loops, known);
                    i = program_.loops[statement.index].body_end;
                    continue;
                case BoundStatement::Kind::let:
                    break;
            }
            ++i;
        }
    }

    void task(uint32_t index, const BoundTask& task, const LoopValues& loops, TaskSet& known) {
        const size_t number = instances_.size();
        instances_.push_back({index, loops});
        TaskSet before = known;
        for (const uint32_t dep : task.deps) add_tokens(dep, before);
        before_.push_back(before);
        current_[index].push_back(number);
        if (task.sync) add_complete(number, known);
    }

    void add_complete(size_t instance, TaskSet& set) const {
        set |= before_[instance];
        set.set(instance);
    }

    /// The token of a statement: all its instances in the innermost common iteration.
    void add_tokens(uint32_t statement, TaskSet& set) const {
        for (const size_t instance : current_[statement]) add_complete(instance, set);
    }

    /// Iteration i starts when all iterations up to i - N are complete; the thread goes on when the last has
    /// started.
    void loop(uint32_t index, const BoundLoop& loop, const LoopValues& outer, TaskSet& known) {
        const int64_t first = loop.first.eval(outer), last = loop.last.eval(outer);
        const uint32_t body = index + 1;
        std::vector<std::vector<size_t>> all(loop.body_end - body);
        std::vector<size_t> starts;  // first instance of each iteration
        for (int64_t i = first; i <= last && !full(); ++i) {
            ++iterations_;
            const size_t number = starts.size();
            starts.push_back(instances_.size());
            if (number >= loop.max_in_flight) {
                const size_t done = number - loop.max_in_flight;
                for (size_t k = starts[done]; k < starts[done + 1]; ++k) add_complete(k, known);
            }
            for (uint32_t s = body; s < loop.body_end; ++s) current_[s].clear();
            LoopValues values = outer;
            values.push(i);
            TaskSet thread = known;
            block(body, loop.body_end, values, thread);
            for (uint32_t s = body; s < loop.body_end; ++s) {
                all[s - body].insert(all[s - body].end(), current_[s].begin(), current_[s].end());
            }
            if (i == INT64_MAX) break;
        }
        for (uint32_t s = body; s < loop.body_end; ++s) current_[s] = std::move(all[s - body]);
    }

    const BoundProgram& program_;
    std::vector<Instance> instances_;
    std::vector<TaskSet> before_;
    std::vector<std::vector<size_t>>
        current_;  ///< per statement: instances that a token of it stands for now
    uint64_t iterations_ = 0;
};

class RaceCheck {
  public:
    RaceCheck(const VerifyContext& context, const Unroller& unrolled)
        : context_(context), unrolled_(unrolled) {}

    void run() {
        std::map<uint32_t, std::vector<Access>> accesses;  // by buffer
        for (uint32_t i = 0; i < unrolled_.instances().size(); ++i) {
            const Instance& instance = unrolled_.instances()[i];
            const BoundTask& task =
                context_.program.tasks[context_.program.statements[instance.statement].index];
            for (const uint32_t region : task.inputs) add(accesses, i, instance, region, false);
            for (const uint32_t region : task.outputs) add(accesses, i, instance, region, true);
        }
        for (const auto& [buffer, list] : accesses) check(list);
        if (reported_.size() == max_hazards) {
            context_.diagnostics.info({context_.module.origin, 0, 0},
                                      fmt::format("stopped after {} hazards", max_hazards));
        }
    }

  private:
    void add(std::map<uint32_t, std::vector<Access>>& accesses, uint32_t i, const Instance& instance,
             uint32_t index, bool write) const {
        const BoundRegion& region = context_.region(index);
        accesses[region.buffer].push_back({i, &region, region.address.eval(instance.loops), write});
    }

    void check(const std::vector<Access>& list) {
        for (size_t b = 1; b < list.size(); ++b) {
            const TaskSet& before = unrolled_.before(list[b].instance);
            for (size_t a = 0; a < b; ++a) {
                const Access &earlier = list[a], &later = list[b];
                if ((!earlier.write && !later.write) || earlier.instance == later.instance ||
                    before.test(earlier.instance)) {
                    continue;
                }
                const auto pair = std::make_pair(statement(earlier), statement(later));
                if (reported_.size() == max_hazards) return;
                if (reported_.count(pair) != 0) continue;
                if (!windows_overlap(*earlier.region, earlier.address, *later.region, later.address))
                    continue;
                reported_.insert(pair);
                report(earlier, later);
            }
        }
    }

    uint32_t statement(const Access& access) const {
        return unrolled_.instances()[access.instance].statement;
    }

    std::string text(const Access& access) const {
        const Instance& instance = unrolled_.instances()[access.instance];
        const std::vector<uint32_t> loops = loops_around(context_.nesting, instance.statement);
        std::string where;
        for (size_t d = 0; d < loops.size(); ++d) {
            const BoundLoop& loop = context_.program.loops[context_.program.statements[loops[d]].index];
            where += fmt::format("{}{}={}", d == 0 ? " (" : ", ", loop.variable, instance.loops[d]);
        }
        if (!where.empty()) where += ')';
        const BoundTask& task = context_.program.tasks[context_.program.statements[instance.statement].index];
        return fmt::format("task `{}`{} {} {}", task.name, where, access.write ? "writes" : "reads",
                           region_text(*access.region));
    }

    void report(const Access& earlier, const Access& later) const {
        context_.warning(
            context_.module.pos_of_statement(statement(later)),
            fmt::format("hazard: {} while {}; nothing orders them. Fix: add a token to deps, or narrow "
                        "@max_in_flight.",
                        text(later), text(earlier)));
    }

    const VerifyContext& context_;
    const Unroller& unrolled_;
    std::set<std::pair<uint32_t, uint32_t>> reported_;
};

}  // namespace

void verify_schedule(const VerifyContext& context) {
    Unroller unrolled(context.program);
    unrolled.run();
    RaceCheck(context, unrolled).run();
}

}  // namespace kpu
