#include "compiler/pipeline/best_strips.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "compiler/pipeline/compile.hpp"
#include "compiler/strips/strips.hpp"

namespace kpu::pipeline {
namespace {

/// Share of a network's cycles that all of its DRAM's time is worth: the most that strips may cost, for the
/// energy that they spare.
constexpr double worth_of_dram = 0.04;
/// Limit of rounds in which chains that do not pay are left out; each lowers the network once more.
constexpr int most_rounds = 2;

struct Cost {
    double cycles = 0, dram = 0;
};

/// Cost of a program, in all and by operation.
struct Costs {
    std::map<std::string, Cost> by_operation;
    Cost all;

    Costs(const compiler::Lowered& lowered, const compiler::Target& target) {
        const estimate::Estimate estimate = estimate_of(lowered, target, estimate::Detail::times);
        all.cycles = estimate.cycles;
        std::set<uint32_t> seen;  // strips of an operation are charged together
        for (const compiler::PlannedOp& op : lowered.plan.ops) {
            Cost& cost = by_operation[op.op.name];
            if (seen.insert(op.number).second) cost.cycles += estimate.charged[op.number];
            cost.dram += op.tiling.dram;
            all.dram += op.tiling.dram;
        }
    }
};

class Choice {
  public:
    Choice(graph::Graph graph, const compiler::Target& target, const compiler::Guide& guide)
        : graph_(std::move(graph)), target_(target), guide_(guide) {}

    InBestStrips run() {
        std::optional<compiler::InStrips> strips = compiler::in_strips(graph_, target_, guide_.wishes);
        if (!strips) return {std::move(graph_), std::nullopt};
        if (guide_.wishes.any_strips()) return {std::move(strips->graph), std::nullopt};
        best_.lowered = lowered(graph_);
        const Costs whole(*best_.lowered, target_);
        whole_ = whole.by_operation;
        of_whole_ = whole.all;
        least_ = price(whole.all);
        best_.graph = graph_;
        const bool apart = strips->heads_apart;
        consider(std::move(strips), true);
        if (apart) consider(compiler::in_strips(graph_, target_, guide_.wishes, {}, false), false);
        return std::move(best_);
    }

  private:
    compiler::Lowered lowered(const graph::Graph& graph) const {
        return compiler::lower(compiler::plan(graph, target_, guide_), target_);
    }

    /// Considers a candidate as it is, then without the chains that do not pay.
    void consider(std::optional<compiler::InStrips> candidate, bool heads_apart) {
        std::set<std::string> left_out;
        for (int round = 0; candidate && round <= most_rounds; ++round) {
            compiler::Lowered program = lowered(candidate->graph);
            const Costs cut(program, target_);
            bool all_pay = true;
            for (const std::set<std::string>& chain : candidate->chains) {
                if (pays(cut, chain)) continue;
                all_pay = false;
                left_out.insert(chain.begin(), chain.end());
            }
            if (price(cut.all) < least_) {
                least_ = price(cut.all);
                best_.graph = std::move(candidate->graph);
                best_.lowered.emplace(std::move(program));
            }
            if (all_pay || round == most_rounds) break;
            candidate = compiler::in_strips(graph_, target_, guide_.wishes, left_out, heads_apart);
        }
    }

    double price(const Cost& of) const {
        return of.cycles / of_whole_.cycles +
               (of_whole_.dram > 0 ? worth_of_dram * of.dram / of_whole_.dram : 0);
    }

    bool pays(const Costs& cut, const std::set<std::string>& chain) const {
        const auto price_in = [&](const std::map<std::string, Cost>& costs) {
            double sum = 0;
            for (const std::string& name : chain) {
                if (const auto found = costs.find(name); found != costs.end()) sum += price(found->second);
            }
            return sum;
        };
        return price_in(cut.by_operation) < price_in(whole_);
    }

    graph::Graph graph_;
    const compiler::Target& target_;
    const compiler::Guide& guide_;
    std::map<std::string, Cost> whole_;  ///< costs of the network without strips, by operation
    Cost of_whole_;
    InBestStrips best_;
    double least_ = 0;  ///< price of the best
};

}  // namespace

InBestStrips in_best_strips(graph::Graph graph, const compiler::Target& target,
                            const compiler::Guide& guide) {
    return Choice(std::move(graph), target, guide).run();
}

}  // namespace kpu::pipeline
