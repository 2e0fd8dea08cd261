#pragma once
// Weights that stay in L2 from one inference to the next.
#include <cstdint>
#include <set>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/mapping/tiling.hpp"

namespace kpu::compiler {

/// Of one operation.
struct Held {
    std::vector<bool> operands;            ///< by operand
    std::set<std::vector<int64_t>> there;  ///< tiles that the first inference left, while tasks are made
    bool holds(size_t operand) const { return operand < operands.size() && operands[operand]; }
};

struct PlannedOp;
struct MemoryPlan;

/// Gives weights places among `room` bytes of L2, which they keep for the whole program: those of the operations that DRAM
/// holds up most come first. Changes where the operations keep them; their tiles stay. Result: bytes.
uint64_t hold_weights(const graph::Graph& graph, std::vector<PlannedOp>& ops, uint64_t room);
/// The tiling of operation `number`, and what it takes where operands have other homes.
Tiling with_homes(const graph::Graph& graph, const Target& target, const MemoryPlan& memory, size_t number,
                  uint64_t arena_bytes, const PlannedOp& op, const std::vector<Home>& homes, bool first);
/// Sets what operation `number` takes with what it holds in L2: PlannedOp::later.
void judge_held(const graph::Graph& graph, const Target& target, const MemoryPlan& memory, size_t number,
                uint64_t arena_bytes, PlannedOp& op);

}  // namespace kpu::compiler
