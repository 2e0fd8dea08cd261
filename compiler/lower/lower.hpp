#pragma once
// Graph to program: every group of nodes becomes tiles that are loaded, computed and stored by tasks.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/lower/constants.hpp"
#include "compiler/lower/held.hpp"
#include "compiler/lower/memory.hpp"
#include "compiler/lower/target.hpp"
#include "compiler/lower/wishes.hpp"
#include "isa/module.hpp"

namespace kpu::lower {

/// What became of a group.
struct LoweredOp {
    TileOp op;
    Tiling tiling;
    std::vector<Home> homes;     ///< by operand
    std::vector<uint64_t> kept;  ///< by operand: its address in L2, if the tiling keeps it there
    Held held;                   ///< what of that stays for later inferences, in a buffer of its own
    Tiling later;  ///< of inferences behind the first: the same tiles, what is held stands in L2
    uint64_t macs = 0;
    uint32_t strips = 0;  ///< it is one of so many that its operation is cut into; 0: all of it
    int number = 0;       ///< of the program's operations; strips of one have the same
    /// What it computes in: the type of its product's first factor, else of its anchor's result.
    ElemType elem = ElemType::none;
    std::vector<Tiling> fastest;     ///< of the search, `tiling` first; Guide::keep and `around` say which
    std::vector<Tiling> considered;  ///< the tilings that fit, of the operation that Guide::explain names
};

/// What a user tells of the mapping, and asks of it.
struct Guide {
    MappingWishes wishes;
    uint64_t inferences = 1;  ///< one after the other, with inputs and outputs of their own
    std::string explain;      ///< the operation whose considered tilings are kept; empty: none
    size_t keep = 1;          ///< tilings that are kept of each operation
    size_t more_up_to = 0;  ///< in programs of so many operations also those that closed forms may underrate
    std::vector<Tiling> tilings;  ///< by operation, of an earlier search of this graph: nothing is searched
    bool around = false;          ///< keeps also those that differ from these a little
    bool weights = true;  ///< false: they have places and no bytes, in programs that are only compared
};

struct Lowered {
    Module module;
    std::vector<LoweredOp> ops;
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

}  // namespace kpu::lower
