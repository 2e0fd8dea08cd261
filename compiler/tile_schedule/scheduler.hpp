#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/tile_schedule/schedule.hpp"

namespace kpu::tile_schedule {

/// An operation of a graph on matrices.
///   matmul  inputs a (M x K), b (K x N)
///   relu    input x
///   add     inputs x, y of one shape
struct Node {
    enum class Kind : uint8_t { matmul, relu, add } kind = Kind::matmul;
    std::vector<std::string> inputs;
    std::string output;
};
std::string_view name_of(Node::Kind kind);

/// Nodes in an order in which each finds its inputs; tensors get the ids 0, 1, ... in their order.
struct Graph {
    std::vector<Tensor> tensors;
    std::vector<Node> nodes;
};

/// Counts of what the scheduler made of a graph.
struct SchedulerReport {
    uint64_t loads = 0, executes = 0, stores = 0;
    uint64_t loads_without_reuse = 0;  ///< two per EXECUTE, and those that no EXECUTE needs
    uint64_t peak_bytes = 0;
    double removed() const {  ///< share of the loads that reuse removed
        return loads_without_reuse == 0
                   ? 0
                   : 1 - static_cast<double>(loads) / static_cast<double>(loads_without_reuse);
    }
};

/// Nodes that become one set of ops, and the tiles that it goes over.
struct FusedNodes {
    std::vector<size_t> nodes;           ///< in their order; the last one makes the result
    uint32_t rows = 0, cols = 0, k = 0;  ///< tiles of the result, and of the sum for each; k 0: no product
};
/// Fuses the nodes of a graph as the scheduler does. Throws UserError as schedule_graph(), but for the arena.
std::vector<FusedNodes> fuse_nodes(const Graph& graph, const Format& format);

/// Schedules a graph in an arena of `arena_bytes`. A product is computed block by block of accumulators;
/// block and order are those with the fewest loads when the operand tile is dropped whose next use is the
/// latest. One slot at least stays free for the next load, so that moving and computing overlap, unless that
/// costs more than one load in eight. ReLU is fused with the product or sum before it if nothing else reads
/// that; Add with a product, whose sum then begins with the other addend (f32). Throws UserError on a graph
/// that is wrong, on what no op of a schedule can do, and when three tiles (two operands, one accumulator) do
/// not fit.
Schedule schedule_graph(const Graph& graph, const Format& format, uint64_t arena_bytes,
                        SchedulerReport* report = nullptr);

}  // namespace kpu::tile_schedule
