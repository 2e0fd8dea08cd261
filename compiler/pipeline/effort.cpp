#include "compiler/pipeline/effort.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "base/diagnostics.hpp"
#include "base/parallel.hpp"
#include "compiler/pipeline/compile.hpp"
#include "compiler/target/smaller.hpp"

namespace kpu::pipeline {
namespace {

using compiler::Lowered;
using compiler::Tiling;

/// Mappings of each operation that are compared: as many as make programs of so many statements in all.
constexpr size_t least_compared = 8, most_compared = 16, compared_statements = 1 << 15;
constexpr size_t most_programs = 4;  ///< in memory at once
/// Limits of effort: of so few operations also mappings after the best, and those of smaller devices, are
/// compared, and the best of them, which execute so many tasks in all trials, are simulated in a moment.
constexpr size_t few_operations = 4, compared_of_few = 256, simulated_of_few = 48;
constexpr uint64_t simulated_tasks = 1 << 16;
constexpr double near_least = 1.03;  ///< nearness to its bounds: what comes so near to them stays as it is

/// Cycles of a program, and those that each of its operations is charged.
struct Verdict : compiler::Simulated {
    // of a schedule
    uint64_t tasks = 0;  ///< that it executed
    double least = 0;    ///< cycles that the operations' bounds sum to
};
struct Judge {
    std::function<Verdict(const Lowered&)> cycles;
    double error = 0;             ///< less of a gain, relative, says nothing
    bool of_kernels = false;      ///< it knows how long kernels take: that depends on values
    size_t at_once = 1;           ///< programs that threads may ask it about
    size_t most = most_compared;  ///< mappings of an operation
};

/// Comparison of whole programs: in the program, beside what is computed before and after it, an operation
/// may take another time than alone. In each program, every operation has its next mapping. As the cycles
/// that operations are charged sum to those of the program, the mappings that were charged least are put
/// together, and the fastest of all programs is taken.
class Comparison {
  public:
    Comparison(const compiler::Target& target, Judge judge) : target_(target), judge_(std::move(judge)) {}

    Lowered run(Lowered first) {
        base_ = first.plan;
        for (const compiler::PlannedOp& op : base_.ops) {
            const graph::Node& anchor = base_.graph->nodes[op.op.nodes[op.op.anchor].node];
            open_.push_back(judge_.of_kernels || kernels::find(anchor.opcode) == nullptr);
            mappings_.push_back(op.alternatives->fastest);
        }
        find_classes();
        const std::vector<Verdict> of = judged(first);
        size_t best = 0;
        for (size_t number = 1; number < of.size(); ++number) {
            if (of[number].cycles < of[best].cycles * (1 - judge_.error)) best = number;
        }
        std::vector<size_t> numbers = least_charged(of);
        std::optional<Lowered> program;
        if (numbers != all(0)) program.emplace(lowered(numbers));
        verdict_ = of[best];
        if (!program || judge_.cycles(*program).cycles >= of[best].cycles * (1 - judge_.error)) {
            numbers = all(best);
            program.emplace(best == 0 ? std::move(first) : lowered(numbers));
        }
        for (size_t i = 0; i < base_.ops.size(); ++i) {
            compiler::Alternatives known{mappings_[i], base_.ops[i].alternatives->considered};
            const auto chosen = known.fastest.begin() + static_cast<std::ptrdiff_t>(place(i, numbers[i]));
            std::rotate(known.fastest.begin(), chosen, chosen + 1);
            program->plan.ops[i].alternatives =
                std::make_shared<const compiler::Alternatives>(std::move(known));
        }
        return *std::move(program);
    }

    /// Returns the verdict on the fastest of the programs whose operations all have mappings of one number.
    const Verdict& verdict() const { return verdict_; }

  private:
    size_t place(size_t op, size_t number) const {
        return open_[op] ? std::min(number, mappings_[op].size() - 1) : 0;
    }
    /// Lowers with the mapping of this number of each operation, or its last one.
    Lowered lowered(const std::vector<size_t>& numbers) const {
        std::vector<Tiling> tilings;
        for (size_t i = 0; i < mappings_.size(); ++i) tilings.push_back(mappings_[i][place(i, numbers[i])]);
        return compiler::lower(compiler::replan(base_, target_, tilings), target_);
    }

    std::vector<size_t> all(size_t number) const { return std::vector<size_t>(mappings_.size(), number); }

    /// Judges the program in which each operation has its first mapping, that of second ones, and so on.
    std::vector<Verdict> judged(const Lowered& first) const {
        const auto statements =
            static_cast<size_t>(std::max(1, first.emitted.module.program.statement_size()));
        size_t most = 1;
        for (const std::vector<Tiling>& of : mappings_) most = std::max(most, of.size());
        most = std::min({most, judge_.most, std::max(least_compared, compared_statements / statements)});
        std::vector<Verdict> result(most);
        parallel_for(most, workers_for(most, judge_.at_once), [&](size_t, size_t number) {
            result[number] = judge_.cycles(number == 0 ? first : lowered(all(number)));
        });
        return result;
    }

    /// Finds the classes: what shares a constant is in one class.
    void find_classes() {
        std::map<graph::ValueId, size_t> readers;
        for (size_t i = 0; i < base_.ops.size(); ++i) {
            const compiler::PlannedOp& op = base_.ops[i];
            class_.push_back(i);
            for (size_t operand = 0; operand < op.homes.size(); ++operand) {
                if (op.homes[operand] == compiler::Home::shared)
                    class_[i] = class_[readers.try_emplace(op.op.operands[operand].value, i).first->second];
            }
        }
    }

    /// Returns, for each operation, its mapping that was charged least, each in its program. Those of a class
    /// are cut alike, so that each finds what another one left in L2: their charges are summed.
    std::vector<size_t> least_charged(const std::vector<Verdict>& of) const {
        std::vector<size_t> numbers = all(0);
        std::vector<double> least(mappings_.size(), std::numeric_limits<double>::infinity());
        for (size_t number = 0; number < of.size(); ++number) {
            std::vector<double> charged(mappings_.size(), 0);
            for (size_t i = 0; i < mappings_.size(); ++i)
                charged[class_[i]] += of[number].charged[base_.ops[i].number];
            for (size_t i = 0; i < mappings_.size(); ++i) {
                const size_t c = class_[i];
                if (place(c, number) != number || charged[c] >= least[i] * (1 - judge_.error)) continue;
                least[i] = charged[c];
                numbers[i] = number;
            }
        }
        return numbers;
    }

    const compiler::Target& target_;
    const Judge judge_;
    compiler::Plan base_;                        ///< that the mappings are alternatives in
    std::vector<bool> open_;                     ///< for each operation: its mappings are compared
    std::vector<std::vector<Tiling>> mappings_;  ///< indexed by operation
    /// For each operation: the first that it shares constants with.
    std::vector<size_t> class_;
    Verdict verdict_;
};

/// Returns the module lent: it outlives the call.
std::shared_ptr<const Module> lent(const Module& module) { return {std::shared_ptr<void>(), &module}; }

/// Returns the best of the mappings that are known, then step by step, as long as one that differs in one
/// thing is faster. Never slower than `first`.
Lowered improved(const compiler::Target& target, const compiler::Guide& guide, const Judge& judge,
                 Lowered first) {
    constexpr int most_steps = 2;
    constexpr double worth = 0.005;  // of a step, to take another one
    std::optional<Lowered> best(Comparison(target, judge).run(std::move(first)));
    for (int step = 0; step < most_steps; ++step) {
        const std::vector<compiler::PlannedOp> known = best->plan.ops;
        const double before = judge.cycles(*best).cycles;
        best->plan = compiler::with_neighbours(std::move(best->plan), target, guide);
        best.emplace(Comparison(target, judge).run(*std::move(best)));
        for (size_t i = 0; i < known.size(); ++i) {
            compiler::PlannedOp& op = best->plan.ops[i];
            compiler::Alternatives all = *known[i].alternatives;
            if (!op.tiling.same_mapping(all.fastest.at(0)))
                all.fastest.insert(all.fastest.begin(), op.tiling);
            op.alternatives = std::make_shared<const compiler::Alternatives>(std::move(all));
        }
        if (judge.cycles(*best).cycles >= (1 - worth) * before) break;
    }
    return *std::move(best);
}

Lowered searched(Lowered first, const compiler::Target& target, const compiler::Guide& guide, int effort,
                 const compiler::Simulate& simulate) {
    if (effort == 1) return first;
    constexpr double no_gain = 0.001;  // of the schedule: below it the order of the search stands
    const bool few = first.plan.ops.size() <= few_operations;
    const auto estimate = [&](const Lowered& of) -> Verdict {
        estimate::Estimate result =
            estimate_of(of, target, few ? estimate::Detail::all : estimate::Detail::times);
        double least = 0;
        for (const estimate::Bound& bound : result.bounds) least += bound.cycles;
        return {{result.cycles, std::move(result.charged)}, result.tasks, least};
    };
    const size_t compared = few ? compared_of_few : most_compared;
    Comparison scheduled(target, {estimate, no_gain, false, most_programs, compared});
    Lowered second = scheduled.run(std::move(first));
    if (effort == 3 && !simulate)
        throw UserError("--effort 3: nothing here can simulate. Fix: use --effort 2.");
    const auto simulated = [&](const Lowered& of) -> Verdict {
        return {simulate(lent(of.emitted.module), target.platform), 0, 0};
    };
    const Verdict& known = scheduled.verdict();
    const size_t tried = few ? simulated_of_few : most_compared;
    const size_t most = std::min(tried, simulated_tasks / std::max<uint64_t>(1, known.tasks));
    const bool timed = simulate && !second.emitted.needs_values;
    const bool trial = few && most >= least_compared && known.cycles > near_least * known.least;
    Lowered third = trial && timed ? improved(target, guide, {simulated, 0, true, 1, most}, std::move(second))
                                   : std::move(second);
    if (effort == 2 || third.emitted.needs_values) return third;
    return improved(target, guide, {simulated, 0, true, 1, tried}, std::move(third));
}

}  // namespace

compiler::Guide for_effort(compiler::Guide guide, const compiler::Target& target, int effort) {
    if (effort == 1) return guide;
    guide.keep = most_compared, guide.more_up_to = few_operations;
    guide.smaller = std::make_shared<const compiler::SmallerDevices>(target);
    return guide;
}

Lowered lower_with_effort(const graph::Graph& graph, const compiler::Target& target, compiler::Guide guide,
                          int effort, const compiler::Simulate& simulate, std::optional<Lowered> first) {
    guide = for_effort(std::move(guide), target, effort);
    const uint64_t inferences = std::exchange(guide.inferences, 1);  // tiles are those of one
    if (!first || inferences > 1)
        first.emplace(compiler::lower(compiler::plan(graph, target, guide), target));
    Lowered one = searched(*std::move(first), target, guide, effort, simulate);
    if (inferences == 1) return one;
    guide.inferences = inferences;
    std::vector<Tiling> tilings;
    for (const compiler::PlannedOp& op : one.plan.ops) tilings.push_back(op.tiling);
    Lowered all = compiler::lower(compiler::plan(graph, target, guide, tilings), target);
    for (size_t i = 0; i < tilings.size(); ++i) all.plan.ops[i].alternatives = one.plan.ops[i].alternatives;
    return all;
}

}  // namespace kpu::pipeline
