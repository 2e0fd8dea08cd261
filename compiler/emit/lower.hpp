#pragma once
// Graph to program: every group of nodes becomes tiles that are loaded, computed and stored by tasks.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/mapping/searches.hpp"
#include "compiler/mapping/wishes.hpp"
#include "compiler/memory/constants.hpp"
#include "compiler/memory/memory.hpp"
#include "compiler/plan/planned_op.hpp"
#include "compiler/target/target.hpp"
#include "isa/module.hpp"

namespace kpu::compiler {

/// What a user tells of the mapping, and asks of it.
struct Guide {
    MappingWishes wishes;
    uint64_t inferences = 1;  ///< one after the other, with inputs and outputs of their own
    std::string explain;      ///< the operation whose considered tilings are kept; empty: none
    size_t keep = 1;          ///< tilings that are kept of each operation
    size_t more_up_to = 0;  ///< in programs of so many operations also those that closed forms may underrate
    std::vector<Tiling> tilings;  ///< by operation, of an earlier search of this graph: nothing is searched
    bool around = false;          ///< keeps also those that differ from these a little
    std::shared_ptr<Searches> searches = std::make_shared<Searches>();  ///< of this graph, so far
    bool weights = true;  ///< false: they have places and no bytes, in programs that are only compared
};

struct Lowered {
    Module module;
    std::vector<PlannedOp> ops;
    MemoryPlan memory;
    graph::Graph graph;  ///< with the copies that lowering put in
    uint64_t weight_bytes = 0;
    BlockPlaces weights;                         ///< where DDR holds blocks of the graph's constants
    uint64_t held_bytes = 0;                     ///< of L2: weights that stay
    std::map<uint32_t, kernels::Work> launches;  ///< of kernels, by statement
    bool needs_values = false;                   ///< how long some of them take depends on values
};

/// Lowers a graph for a device, whose types and opcodes it must keep to. Throws UserError that names the operation:
/// no variant of the device takes it, its smallest tiles do not fit, DDR is full,
/// what is wished is illegal.
Lowered lower(graph::Graph graph, const Target& target, const Guide& guide = {});
/// Gives a program that was lowered without them the bytes of its weights.
void add_weights(Lowered& lowered);
/// Gives it their number alone, where nobody reads them.
void promise_weights(Lowered& lowered);

/// What a device leaves for the tensors of a graph.
Room room_of_tensors(const graph::Graph& graph, const Target& target);

}  // namespace kpu::compiler
