#include "compiler/pipeline/division.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

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

const compiler::Lowered& program_of(Division& of) {
    if (!of.cut.lowered)
        of.cut.lowered.emplace(compiler::lower(compiler::plan(of.cut.graph, of.target, of.guide), of.target));
    return *of.cut.lowered;
}

double cycles_of(Division& of) {
    return estimate_of(program_of(of), of.target, estimate::Detail::times).cycles;
}

/// Halves down to eight, then each count: a plan takes about as long as the compilation of it.
std::vector<size_t> fewer_than(size_t engines) {
    std::vector<size_t> counts;
    while (engines > 1)
        counts.push_back(engines = engines > 8 ? std::max<size_t>(engines / 2, 8) : engines - 1);
    return counts;
}

}  // namespace

Division best_division(const graph::Graph& graph, const compiler::Target& target,
                       const compiler::Guide& guide) {
    std::optional<Division> best(divided(graph, target, guide, target.engines.size()));
    if (target.engines.size() == 1 || !guide.wishes.empty()) return *std::move(best);
    if (!crowds_out(program_of(*best).plan, target)) return *std::move(best);
    const uint64_t left = compiler::room_of_tensors(best->cut.graph, target).l2;
    double least = cycles_of(*best);
    for (const size_t engines : fewer_than(target.engines.size())) {
        Division fewer = divided(graph, target, guide, engines);
        const double cycles = cycles_of(fewer);
        if (cycles >= least) continue;
        least = cycles;
        fewer.left_to_tensors = left;
        best.emplace(std::move(fewer));
    }
    return *std::move(best);
}

}  // namespace kpu::pipeline
