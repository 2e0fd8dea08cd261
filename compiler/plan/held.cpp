#include "compiler/plan/held.hpp"

#include <algorithm>

#include "compiler/plan/mapped.hpp"

namespace kpu::compiler {
namespace {

/// Returns the cycles of DRAM to those of what else the operation needs.
double held_up(const PlannedOp& op) {
    const Tiling& tiling = op.tiling;
    return tiling.dram / std::max({tiling.array, tiling.vector, tiling.dma, 1.0});
}

void hold(const graph::Graph& graph, PlannedOp& op, uint64_t room, uint64_t& next) {
    for (size_t i = 0; i < op.op.operands.size(); ++i) {
        const graph::Value& value = graph.value(op.op.operands[i].value);
        if (!value.constant() || op.op.operands[i].place != Place::input || op.homes[i] != Home::ddr)
            continue;
        Tiling tiling = op.tiling;
        tiling.keep[i] = leaves_tiles(op.op, tiling, i) ? Keep::tiles : Keep::whole;
        if (tiling.keep[i] == Keep::whole && bit_width(value.elem) < 8) continue;
        const uint64_t size = kept_bytes(graph, op.op, tiling, i);
        if (size > room - next) continue;
        op.tiling.keep[i] = tiling.keep[i];
        op.kept[i] = next;
        op.held[i] = true;
        next += size;
    }
}

/// Returns the room in L2 beside what one inference has there.
uint64_t room_in_l2(const Plan& plan, const Target& target) {
    const uint64_t staging = 2 * plan.staging_bytes * target.engines.size();
    const uint64_t taken = staging + align_up(plan.table.bytes) + align_up(plan.resident_bytes);
    return taken < target.l2_bytes ? target.l2_bytes - taken : 0;
}

}  // namespace

void hold_weights(Plan& plan, const Target& target) {
    std::vector<PlannedOp*> order;
    for (PlannedOp& op : plan.ops) {
        op.held.assign(op.op.operands.size(), false);
        order.push_back(&op);
    }
    std::stable_sort(order.begin(), order.end(),
                     [](const PlannedOp* a, const PlannedOp* b) { return held_up(*a) > held_up(*b); });
    plan.held_bytes = 0;
    if (const uint64_t room = room_in_l2(plan, target); room > 0) {
        for (PlannedOp* op : order) hold(*plan.graph, *op, room, plan.held_bytes);
    }
    for (size_t number = 0; number < plan.ops.size(); ++number) {
        PlannedOp& op = plan.ops[number];
        std::vector<Home> homes = op.homes;
        for (size_t operand = 0; operand < homes.size(); ++operand) {
            if (op.held[operand]) homes[operand] = Home::l2;
        }
        op.later = with_homes(plan, target, number, homes, false);
    }
}

}  // namespace kpu::compiler
