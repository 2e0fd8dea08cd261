#include "compiler/network/best_strips.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "compiler/lower/strips.hpp"
#include "compiler/network/compile.hpp"

namespace kpu::network {
namespace {

/// Of a network's cycles, what all of its DRAM's time is worth: the most that strips may cost, for the energy that they spare.
constexpr double worth_of_dram = 0.02;
constexpr int most_rounds =
    2;  ///< in which chains that do not pay are left out; each lowers the network once more

struct Cost {
    double cycles = 0, dram = 0;
};

/// A lowered network and what it costs, in all and by the name of the operation.
struct Candidate {
    lower::Lowered lowered;
    std::map<std::string, Cost> by_operation;
    Cost all;

    Candidate(lower::Lowered of, const lower::Target& target) : lowered(std::move(of)) {
        const estimate::Estimate estimate = estimate_of(lowered, target);
        all.cycles = estimate.cycles;
        for (int i = 0; i < lowered.module.program.op_size(); ++i)
            by_operation[lowered.module.program.op(i).id()].cycles +=
                estimate.charged[static_cast<size_t>(i)];
        for (const lower::LoweredOp& op : lowered.ops) {
            by_operation[op.op.source.name].dram += op.tiling.dram;
            all.dram += op.tiling.dram;
        }
    }
};

class Choice {
  public:
    Choice(const graph::Graph& graph, const lower::Target& target, const lower::Guide& guide)
        : graph_(graph), target_(target), guide_(guide) {}

    lower::Lowered run() {
        std::optional<lower::InStrips> strips = lower::in_strips(graph_, target_, guide_.wishes);
        if (!strips) return lower::lower(graph_, target_, guide_);
        if (guide_.wishes.any_strips()) return lower::lower(std::move(strips->graph), target_, guide_);
        Candidate best(lower::lower(graph_, target_, guide_), target_);
        whole_ = best.by_operation;
        of_whole_ = best.all;
        std::set<std::string> left_out;
        for (int round = 0; strips && round <= most_rounds; ++round) {
            Candidate cut(lower::lower(std::move(strips->graph), target_, guide_), target_);
            bool all_pay = true;
            for (const std::set<std::string>& chain : strips->chains) {
                if (pays(cut, chain)) continue;
                all_pay = false;
                left_out.insert(chain.begin(), chain.end());
            }
            if (price(cut.all) < price(best.all)) best = std::move(cut);
            if (all_pay || round == most_rounds) break;
            strips = lower::in_strips(graph_, target_, guide_.wishes, left_out);
        }
        return std::move(best.lowered);
    }

  private:
    double price(const Cost& of) const {
        return of.cycles / of_whole_.cycles +
               (of_whole_.dram > 0 ? worth_of_dram * of.dram / of_whole_.dram : 0);
    }

    bool pays(const Candidate& cut, const std::set<std::string>& chain) const {
        const auto price_in = [&](const std::map<std::string, Cost>& costs) {
            double sum = 0;
            for (const std::string& name : chain) {
                if (const auto found = costs.find(name); found != costs.end()) sum += price(found->second);
            }
            return sum;
        };
        return price_in(cut.by_operation) < price_in(whole_);
    }

    const graph::Graph& graph_;
    const lower::Target& target_;
    const lower::Guide& guide_;
    std::map<std::string, Cost> whole_;  ///< of the network without strips, by operation
    Cost of_whole_;
};

}  // namespace

lower::Lowered lower_in_best_strips(const graph::Graph& graph, const lower::Target& target,
                                    const lower::Guide& guide) {
    return Choice(graph, target, guide).run();
}

}  // namespace kpu::network
