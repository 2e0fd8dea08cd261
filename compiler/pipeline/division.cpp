#include "compiler/pipeline/division.hpp"

#include <algorithm>
#include <utility>

#include "compiler/pipeline/compile.hpp"

namespace kpu::pipeline {
namespace {

/// A tensor between operations lives in DRAM that L2 would hold if nothing else were there.
bool crowds_out(const compiler::Plan& plan, const compiler::Target& target) {
    const std::vector<compiler::Storage>& storages = plan.memory.storages;
    return std::any_of(storages.begin(), storages.end(), [&](const compiler::Storage& of) {
        return !of.input && !of.output && !of.constant && of.first <= of.last &&
               of.home == compiler::Home::ddr && of.bytes < target.l2_bytes;
    });
}

/// On the first so many engines.
Division divided(const graph::Graph& graph, const compiler::Target& target, compiler::Guide guide,
                 size_t engines) {
    compiler::Target fewer = target;
    fewer.engines.erase(fewer.engines.begin() + static_cast<std::ptrdiff_t>(engines), fewer.engines.end());
    if (engines < target.engines.size()) guide.searches = std::make_shared<compiler::Searches>();
    InBestStrips cut = in_best_strips(graph, fewer, guide);
    return {std::move(fewer), std::move(guide), std::move(cut), 0};
}

double cycles_of(Division& of) {
    if (!of.cut.lowered)
        of.cut.lowered.emplace(compiler::lower(compiler::plan(of.cut.graph, of.target, of.guide), of.target));
    return estimate_of(*of.cut.lowered, of.target, estimate::Detail::times).cycles;
}

}  // namespace

Division best_division(const graph::Graph& graph, const compiler::Target& target,
                       const compiler::Guide& guide) {
    Division all = divided(graph, target, guide, target.engines.size());
    if (target.engines.size() == 1 || !guide.wishes.empty()) return all;
    double least = cycles_of(all);
    if (!crowds_out(all.cut.lowered->plan, target)) return all;
    const uint64_t left = compiler::room_of_tensors(all.cut.graph, target).l2;
    std::vector<Division> best;
    best.push_back(std::move(all));
    for (size_t engines = target.engines.size() / 2; engines > 0; engines /= 2) {
        Division fewer = divided(graph, target, guide, engines);
        const double cycles = cycles_of(fewer);
        if (cycles >= least) continue;
        least = cycles;
        fewer.left_to_tensors = left;
        best.clear();
        best.push_back(std::move(fewer));
    }
    return std::move(best.front());
}

}  // namespace kpu::pipeline
