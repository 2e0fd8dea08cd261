#include "compiler/network/effort.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "base/diagnostics.hpp"
#include "compiler/network/compile.hpp"

namespace kpu::network {
namespace {

using lower::Lowered;
using lower::Tiling;

/// Mappings of each operation that are compared: as many as make programs of so many statements in all.
constexpr size_t least_compared = 8, most_compared = 16, compared_statements = 1 << 15;

/// Cycles of a program, and those that each of its operations is charged.
struct Judge {
    std::function<compiler::Simulated(const Lowered&)> cycles;
    double error = 0;         ///< less of a gain, relative, says nothing
    bool of_kernels = false;  ///< it knows how long kernels take: that depends on values
};

/// In the program, beside what is computed before and behind it, an operation may take another time than alone. So whole
/// programs are compared: in each, every operation has its next mapping. As the cycles that operations are charged sum to
/// those of the program, the mappings that were charged least are put together, and the fastest of all programs is taken.
class Comparison {
  public:
    Comparison(const graph::Graph& graph, const lower::Target& target, const lower::Guide& guide, Judge judge)
        : graph_(graph), target_(target), guide_(guide), judge_(std::move(judge)) {}

    Lowered run(Lowered first) {
        for (const lower::LoweredOp& op : first.ops) {
            const graph::Node& anchor = first.graph.nodes[op.op.nodes[op.op.anchor].node];
            open_.push_back(judge_.of_kernels || kernels::find(anchor.opcode) == nullptr);
            mappings_.push_back(op.fastest);
            considered_.push_back(op.considered);
        }
        least_number_.assign(mappings_.size(), 0);
        least_.assign(mappings_.size(), std::numeric_limits<double>::infinity());
        const std::vector<size_t> known = least_number_;
        const auto statements = static_cast<size_t>(std::max(1, first.module.program.statement_size()));
        const size_t compared = std::clamp(compared_statements / statements, least_compared, most_compared);
        enter(std::move(first), 0);
        for (size_t number = 1; number < compared; ++number) {
            const auto has = [&](const std::vector<Tiling>& of) { return of.size() > number; };
            if (std::none_of(mappings_.begin(), mappings_.end(), has)) break;
            enter(lowered(std::vector<size_t>(mappings_.size(), number)), number);
        }
        if (least_number_ != known) {
            Lowered program = lowered(least_number_);
            const double cycles = judge_.cycles(program).cycles;
            take(std::move(program), cycles, least_number_);
        }
        for (size_t i = 0; i < best_->ops.size(); ++i) {
            std::vector<Tiling>& of = mappings_[i];
            const auto chosen = of.begin() + static_cast<std::ptrdiff_t>(place(i, numbers_[i]));
            std::rotate(of.begin(), chosen, chosen + 1);
            best_->ops[i].fastest = std::move(of);
            best_->ops[i].considered = std::move(considered_[i]);
        }
        return std::move(*best_);
    }

  private:
    size_t place(size_t op, size_t number) const {
        return open_[op] ? std::min(number, mappings_[op].size() - 1) : 0;
    }
    /// With the mapping of this number of each operation, or its last one.
    Lowered lowered(const std::vector<size_t>& numbers) {
        lower::Guide guide = guide_;
        for (size_t i = 0; i < mappings_.size(); ++i)
            guide.tilings.push_back(mappings_[i][place(i, numbers[i])]);
        return lower::lower(graph_, target_, guide);
    }

    void enter(Lowered program, size_t number) {
        const compiler::Simulated of = judge_.cycles(program);
        for (size_t i = 0; i < mappings_.size(); ++i) {
            const double charged = of.charged[static_cast<size_t>(program.ops[i].number)];
            if (place(i, number) != number || charged >= least_[i] * (1 - judge_.error)) continue;
            least_[i] = charged;
            least_number_[i] = number;
        }
        take(std::move(program), of.cycles, std::vector<size_t>(mappings_.size(), number));
    }
    void take(Lowered program, double cycles, std::vector<size_t> numbers) {
        if (best_ && cycles >= cycles_ * (1 - judge_.error)) return;
        best_.emplace(std::move(program));
        cycles_ = cycles;
        numbers_ = std::move(numbers);
    }

    const graph::Graph& graph_;
    const lower::Target& target_;
    const lower::Guide& guide_;
    const Judge judge_;
    std::vector<bool> open_;                     ///< by operation: its mappings are compared
    std::vector<std::vector<Tiling>> mappings_;  ///< by operation
    std::vector<std::vector<Tiling>> considered_;
    std::vector<size_t> least_number_;  ///< by operation: the mapping that was charged least
    std::vector<double> least_;         ///< cycles of that
    std::optional<Lowered> best_;       ///< of all programs
    double cycles_ = 0;
    std::vector<size_t> numbers_;  ///< of its mappings
};

/// The module is lent: it outlives the call.
std::shared_ptr<const Module> lent(const Module& module) { return {std::shared_ptr<void>(), &module}; }

Lowered searched(const graph::Graph& graph, const lower::Target& target, lower::Guide guide, int effort,
                 const compiler::Simulate& simulate) {
    guide.keep = effort > 1 ? most_compared : 1;
    Lowered first = lower::lower(graph, target, guide);
    if (effort == 1) return first;
    constexpr double error_of_estimate = 0.03;
    const auto estimate = [&](const Lowered& of) -> compiler::Simulated {
        estimate::Estimate result = estimate_of(of, target);
        return {result.cycles, std::move(result.charged)};
    };
    Lowered second =
        Comparison(graph, target, guide, {estimate, error_of_estimate, false}).run(std::move(first));
    if (effort == 2) return second;
    if (!simulate) throw UserError("--effort 3: nothing here can simulate. Fix: use --effort 2.");
    const auto simulated = [&](const Lowered& of) { return simulate(lent(of.module), target.platform); };
    return Comparison(graph, target, guide, {simulated, 0, true}).run(std::move(second));
}

}  // namespace

Lowered lower_with_effort(const graph::Graph& graph, const lower::Target& target, lower::Guide guide,
                          int effort, const compiler::Simulate& simulate) {
    const uint64_t inferences = std::exchange(guide.inferences, 1);  // tiles are those of one
    Lowered one = searched(graph, target, guide, effort, simulate);
    if (inferences == 1) return one;
    guide.inferences = inferences;
    for (const lower::LoweredOp& op : one.ops) guide.tilings.push_back(op.tiling);
    Lowered all = lower::lower(graph, target, guide);
    for (size_t i = 0; i < all.ops.size(); ++i) all.ops[i].considered = std::move(one.ops[i].considered);
    return all;
}

}  // namespace kpu::network
