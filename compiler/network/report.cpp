#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "compiler/estimate/schedule.hpp"
#include "compiler/graph/supports.hpp"
#include "compiler/network/compile.hpp"

namespace kpu::network {
namespace {

std::string tiles_text(const lower::TileOp& op, const lower::Tiling& tiling) {
    std::string text;
    for (size_t a = 0; a < op.axes.size(); ++a) {
        if (op.axes[a].extent == 1) continue;
        text += fmt::format("{}{} {}/{}", text.empty() ? "" : ", ", op.axes[a].name, tiling.tile[a],
                            op.axes[a].extent);
        if (tiling.split[a] > 1) text += fmt::format(" on {} engines", tiling.split[a]);
    }
    if (tiling.depth > 2) text += fmt::format(", {} in flight", tiling.depth);
    if (tiling.kept_bytes > 0) text += fmt::format(", {} bytes kept in L2", tiling.kept_bytes);
    return text.empty() ? "one element" : text;
}

/// Cycles of its MACs at peak.
double peak_cycles(const lower::LoweredOp& op, const lower::Target& target) {
    if (op.macs == 0) return 0;
    double peak = 0;
    for (const proto::Engine& engine : target.engines) {
        const auto [a, b] = graph::factors_of(op.elem);
        const timing::SystolicArray array = timing::array_for(engine.array(), a, b);
        peak += double(array.peak_q16()) / 65536 * engine.array().count();
    }
    return double(op.macs) / peak;
}

struct Bound {
    const char* name;
    double cycles;
};

/// Cycles below which no schedule with these tiles comes, and the resource that needs them; of so many inferences.
Bound bound_of(const lower::LoweredOp& op, const lower::Target& target, uint64_t inferences = 1) {
    const double later = inferences > 1 ? double(inferences - 1) : 0;
    const Bound bounds[] = {{"array", (1 + later) * peak_cycles(op, target)},
                            {"vector", op.tiling.vector + later * op.later.vector},
                            {"dma", op.tiling.dma + later * op.later.dma},
                            {"dram", op.tiling.dram + later * op.later.dram}};
    return *std::max_element(std::begin(bounds), std::end(bounds),
                             [](const Bound& a, const Bound& b) { return a.cycles < b.cycles; });
}

/// The fastest of the mappings that were considered, each with what it would take and what takes longest.
std::string considered_text(const lower::LoweredOp& op) {
    constexpr size_t shown = 12;
    std::vector<const lower::Tiling*> order;
    for (const lower::Tiling& tiling : op.considered) order.push_back(&tiling);
    std::stable_sort(order.begin(), order.end(),
                     [](const auto* a, const auto* b) { return a->cycles < b->cycles; });
    std::string text = fmt::format(
        "of {} mappings considered the fastest:\n{:>12} {:>7} {:>10} {:>10} {:>10} {:>10} {:>9}  {}\n",
        order.size(), "cycles", "", "array", "vector", "dma", "dram", "L1 bytes", "tile/extent");
    for (size_t i = 0; i < std::min(shown, order.size()); ++i) {
        const lower::Tiling& tiling = *order[i];
        text +=
            fmt::format("{:>12.0f} {:>+6.1f}% {:>10.0f} {:>10.0f} {:>10.0f} {:>10.0f} {:>9}  {}\n",
                        tiling.cycles, (tiling.cycles / order[0]->cycles - 1) * 100, tiling.array,
                        tiling.vector, tiling.dma, tiling.dram, tiling.l1_bytes(), tiles_text(op.op, tiling));
    }
    return text;
}

}  // namespace

void state_bounds(Compiled& compiled, const lower::Target& target) {
    KPUProgram& program = compiled.lowered.module.program;
    std::map<std::string, proto::Op*> messages;
    for (proto::Op& op : *program.mutable_op()) messages.emplace(op.id(), &op);
    for (const lower::LoweredOp& op : compiled.lowered.ops) {
        const Bound bound = bound_of(op, target, program.inferences());
        proto::Op& message = *messages.at(op.op.source.name);
        message.set_bound(bound.name);
        message.set_bound_cycles(message.bound_cycles() + static_cast<uint64_t>(bound.cycles));
    }
}

/// Of operations and of the whole, by a schedule of the program's tasks.
estimate::Estimate estimate_of(const lower::Lowered& lowered, const lower::Target& target) {
    const std::shared_ptr<const Module> lent(std::shared_ptr<void>(), &lowered.module);
    return estimate::estimate(bind(lent, {}, target.limits), target, lowered.lane_operations);
}

void state_estimates(Compiled& compiled, const lower::Target& target) {
    Module& module = compiled.lowered.module;
    const estimate::Estimate of = estimate_of(compiled.lowered, target);
    for (int i = 0; i < module.program.op_size(); ++i) {
        proto::Op& op = *module.program.mutable_op(i);
        op.set_estimated_cycles(static_cast<uint64_t>(std::llround(of.charged[static_cast<size_t>(i)])));
        op.set_estimated_energy_pj(std::round(of.energy.by_op[static_cast<size_t>(i)]));
    }
    module.program.set_estimated_total_energy_uj(std::round(of.energy.total_pj) * 1e-6);
    module.program.set_estimated_total_cycles(static_cast<uint64_t>(std::llround(of.cycles)));
}

std::string mapping_text(const Compiled& compiled, const lower::Target& target, std::string_view only) {
    std::string text = fmt::format("{:<28} {:<18} {:>13} {:>12} {:>7} {:>6}  {}\n", "operation", "type",
                                   "MACs", "cycles", "bound", "of it", "tile/extent");
    bool found = only.empty();
    for (const lower::LoweredOp& op : compiled.lowered.ops) {
        if (!only.empty() && op.op.source.name != only) continue;
        found = true;
        const Bound bound = bound_of(op, target);
        text += fmt::format("{:<28} {:<18} {:>13} {:>12.0f} {:>7} {:>5.0f}%  {}\n", op.op.source.name,
                            op.op.source.type, op.macs, op.tiling.cycles, bound.name,
                            op.tiling.cycles > 0 ? 100 * bound.cycles / op.tiling.cycles : 0,
                            tiles_text(op.op, op.tiling));
        if (!op.considered.empty()) text += considered_text(op);
    }
    if (!found)
        throw UserError(fmt::format(
            "--explain-mapping: there is no operation `{}`. Fix: give a name of ops.csv, or all.", only));
    return text;
}

}  // namespace kpu::network
