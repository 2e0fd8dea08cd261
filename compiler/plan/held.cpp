#include "compiler/plan/held.hpp"

#include <algorithm>

#include "compiler/memory/memory.hpp"
#include "compiler/plan/planned_op.hpp"

namespace kpu::compiler {
namespace {

/// Cycles of DRAM to those of what else the operation needs.
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
        op.held.operands[i] = true;
        next += size;
    }
}

}  // namespace

uint64_t hold_weights(const graph::Graph& graph, std::vector<PlannedOp>& ops, uint64_t room) {
    std::vector<PlannedOp*> order;
    for (PlannedOp& op : ops) {
        op.held.operands.assign(op.op.operands.size(), false);
        order.push_back(&op);
    }
    std::stable_sort(order.begin(), order.end(),
                     [](const PlannedOp* a, const PlannedOp* b) { return held_up(*a) > held_up(*b); });
    uint64_t used = 0;
    for (PlannedOp* op : order) hold(graph, *op, room, used);
    return used;
}

Tiling with_homes(const graph::Graph& graph, const Target& target, const MemoryPlan& memory, size_t number,
                  uint64_t arena_bytes, const PlannedOp& op, const std::vector<Home>& homes, bool first) {
    const std::vector<Dims> strides = strides_at_home(graph, memory, op.op);
    Tiling result = op.tiling;
    evaluate({graph, op.op, target, homes, strides, arena_bytes, memory.spare[number].bytes, first}, result);
    return result;
}

void judge_held(const graph::Graph& graph, const Target& target, const MemoryPlan& memory, size_t number,
                uint64_t arena_bytes, PlannedOp& op) {
    std::vector<Home> homes = op.homes;
    for (size_t operand = 0; operand < homes.size(); ++operand) {
        if (op.held.holds(operand)) homes[operand] = Home::l2;
    }
    op.later = with_homes(graph, target, memory, number, arena_bytes, op, homes, false);
}

}  // namespace kpu::compiler
