#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "compiler/estimate/schedule.hpp"
#include "compiler/pipeline/compile.hpp"
#include "isa/mac_share.hpp"

namespace kpu::pipeline {
namespace {

std::string tiles_text(const compiler::TileOp& op, const compiler::Tiling& tiling) {
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

/// True if it finds weights that other operations read too in L2.
std::string shared_text(const compiler::Lowered& lowered, const compiler::PlannedOp& op) {
    for (size_t i = 0; i < op.homes.size(); ++i) {
        if (op.homes[i] != compiler::Home::shared) continue;
        const graph::Value& value = lowered.plan.graph->value(op.op.operands[i].value);
        const uint64_t has =
            lowered.plan.memory.storages[lowered.plan.memory.shared.at(op.op.operands[i].value)].bytes;
        const uint64_t all = packed_bytes(value.elem, value.elements());
        if (has >= all) return ", shares weights in L2";
        return fmt::format(", shares {:.0f}% of its weights in L2", 100 * double(has) / double(all));
    }
    return "";
}

/// Says how many groups of a convolution stand side by side in one of its tasks.
std::string merged_text(const compiler::Lowered& lowered, const compiler::PlannedOp& op) {
    const graph::Node& anchor = lowered.plan.graph->nodes[op.op.nodes[op.op.anchor].node];
    const int64_t blocks = anchor.attrs.integer("blocks", 1);
    return blocks == 1 ? "" : fmt::format(", {} groups in one", blocks);
}

/// Returns the fastest of the mappings that were considered, each with what it would take and what takes
/// longest.
std::string considered_text(const compiler::PlannedOp& op) {
    constexpr size_t shown = 12;
    std::vector<const compiler::Tiling*> order;
    const auto chosen = [&](const compiler::Tiling& tiling) { return tiling.same_mapping(op.tiling); };
    for (const compiler::Tiling& tiling : op.alternatives->considered) order.push_back(&tiling);
    if (std::none_of(op.alternatives->considered.begin(), op.alternatives->considered.end(), chosen))
        order.push_back(&op.tiling);
    std::stable_sort(order.begin(), order.end(),
                     [](const auto* a, const auto* b) { return a->cycles < b->cycles; });
    std::string text = fmt::format(
        "of {} mappings considered the fastest:\n{:>12} {:>7} {:>10} {:>10} {:>10} {:>10} {:>9}  {}\n",
        order.size(), "cycles", "", "array", "vector", "dma", "dram", "L1 bytes", "tile/extent");
    for (size_t i = 0; i < order.size(); ++i) {
        const compiler::Tiling& tiling = *order[i];
        if (i >= shown && !chosen(tiling)) continue;
        text += fmt::format("{:>12.0f} {:>+6.1f}% {:>10.0f} {:>10.0f} {:>10.0f} {:>10.0f} {:>9}  {}{}\n",
                            tiling.cycles, (tiling.cycles / order[0]->cycles - 1) * 100, tiling.array,
                            tiling.vector, tiling.dma, tiling.dram, tiling.l1_bytes(),
                            tiles_text(op.op, tiling), chosen(tiling) ? "  <- chosen" : "");
    }
    return text;
}

}  // namespace

estimate::Estimate estimate_of(const compiler::Lowered& lowered, const compiler::Target& target,
                               estimate::Detail detail) {
    const std::shared_ptr<const Module> lent(std::shared_ptr<void>(), &lowered.emitted.module);
    return estimate::estimate(bind(lent, {}, target.limits), target, lowered.emitted.launches, detail);
}

void state_estimates(Compiled& compiled, const compiler::Target& target) {
    Module& module = compiled.lowered.emitted.module;
    const estimate::Estimate of = estimate_of(compiled.lowered, target);
    for (int i = 0; i < module.program.op_size(); ++i) {
        const estimate::Bound& least = of.bounds[static_cast<size_t>(i)];
        proto::Op& op = *module.program.mutable_op(i);
        op.set_estimated_cycles(static_cast<uint64_t>(std::llround(of.charged[static_cast<size_t>(i)])));
        op.set_estimated_energy_pj(std::round(of.energy.by_op[static_cast<size_t>(i)]));
        op.set_bound(std::string(least.name));
        op.set_bound_cycles(static_cast<uint64_t>(least.cycles));
        const uint64_t graph =
            op_attribute(op, op_macs_attribute) * std::max<uint64_t>(1, module.program.inferences());
        if (graph == 0 || of.macs[static_cast<size_t>(i)] <= graph) continue;
        proto::OpAttribute& done = *op.add_attribute();
        done.set_name(std::string(op_task_macs_attribute));
        done.set_i(static_cast<int64_t>(of.macs[static_cast<size_t>(i)]));
    }
    module.program.set_estimated_total_energy_uj(std::round(of.energy.total_pj) * 1e-6);
    module.program.set_estimated_total_cycles(static_cast<uint64_t>(std::llround(of.cycles)));
}

std::string mapping_text(const Compiled& compiled, std::string_view only) {
    std::string text = fmt::format("{:<28} {:<18} {:>13} {:>12} {:>7} {:>6}  {}\n", "operation", "type",
                                   "MACs", "cycles", "bound", "of it", "tile/extent");
    bool found = only.empty();
    const KPUProgram& program = compiled.lowered.emitted.module.program;
    std::map<uint32_t, double> all_cycles;  // bounds are those of all strips and inferences
    for (const compiler::PlannedOp& op : compiled.lowered.plan.ops)
        all_cycles[op.number] += op.tiling.cycles * double(std::max<uint64_t>(1, program.inferences()));
    for (const compiler::PlannedOp& op : compiled.lowered.plan.ops) {
        if (!only.empty() && op.op.name != only) continue;
        found = true;
        const proto::Op& message = program.op(static_cast<int>(op.number));
        const double cycles = all_cycles[op.number];
        text += fmt::format("{:<28} {:<18} {:>13} {:>12.0f} {:>7} {:>5.0f}%  {}\n", op.op.name,
                            op.op.source.type, op.macs, op.tiling.cycles, message.bound(),
                            cycles > 0 ? 100 * double(message.bound_cycles()) / cycles : 0,
                            tiles_text(op.op, op.tiling) + merged_text(compiled.lowered, op) +
                                shared_text(compiled.lowered, op));
        if (!op.alternatives->considered.empty()) text += considered_text(op);
    }
    if (!found)
        throw UserError(fmt::format(
            "--explain-mapping: there is no operation `{}`. Fix: give a name of ops.csv, or all.", only));
    return text;
}

}  // namespace kpu::pipeline
