#pragma once
// All that is decided of a network before its program is written: which nodes become one operation, how each is cut into
// tiles, where tensors and constants live. plan.md shows it on one convolution.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/mapping/searches.hpp"
#include "compiler/mapping/wishes.hpp"
#include "compiler/memory/block.hpp"
#include "compiler/memory/memory.hpp"
#include "compiler/target/smaller.hpp"
#include "compiler/target/target.hpp"

namespace kpu::compiler {

/// An operation whose sum may be cut, where its addend is not there in the type of the accumulator.
struct Addends {
    TileOp own;   ///< with the addend as it is: the sum stays whole
    TileOp wide;  ///< with the addend in the accumulator's type, a value of its own
};

/// Tilings of one operation that were found beside the one in the plan.
struct Alternatives {
    std::vector<Tiling> fastest;     ///< that of the plan first
    std::vector<Tiling> considered;  ///< all that fit, of the operation that Guide::explain names
};

/// An operation of the program, or one strip of it.
struct PlannedOp {
    TileOp op;                   ///< as `tiling` needs it
    Tiling tiling;               ///< tiling of the first inference
    Tiling later;                ///< tiling of later ones: the same tiles, what is held stands in L2
    std::vector<Home> homes;     ///< indexed by operand
    std::vector<uint64_t> kept;  ///< for each operand: its address in L2, if the tiling keeps it there
    /// For each operand: that place is its own for the whole program; empty: none is.
    std::vector<bool> held;
    uint64_t macs = 0;
    /// It makes this form of a value alone, and runs at positions that need it; none: at all (graph::Positions).
    std::optional<uint32_t> form;
    uint32_t strips = 0;  ///< it is one of so many that its operation is cut into; 0: all of it
    uint32_t number = 0;  ///< number among the program's operations, from 1 on; strips of one have the same
    /// Type that it computes in: that of its product's first factor, else of its anchor's result.
    ElemType elem = ElemType::none;
    std::shared_ptr<const Addends> addends;            ///< forms that `op` may have; null: it is the only one
    std::shared_ptr<const Alternatives> alternatives;  ///< null: nothing was searched

    bool holds(size_t operand) const { return !held.empty() && held[operand]; }
};

/// Constants that stand in L2 during the whole program, where units read them.
struct Table {
    BlockPlaces places;
    uint64_t bytes = 0;
};

/// Cut of a constant that several operations share into blocks.
struct BlockCut {
    Dims tile, shape;
};

/// A value: plans are made, changed and compared without a program; emit() reads one and nothing else.
struct Plan {
    std::shared_ptr<const graph::Graph> graph;  ///< graph with the copies that planning put in
    uint64_t inferences = 1;
    std::vector<PlannedOp> ops;  ///< in the order of the program
    MemoryPlan memory;
    Table table;
    std::map<graph::ValueId, BlockCut> shared;  ///< cuts of MemoryPlan::shared
    uint64_t arena_bytes = 0;                   ///< half of an L1: stages take turns
    uint64_t staging_bytes = 0;                 ///< the same half of an engine's staging in L2
    uint64_t resident_bytes = 0;  ///< bytes of L2: tensors between operations, and what operations keep there
    uint64_t held_bytes = 0;      ///< bytes of L2: weights that stay
};

/// Guidance of a user for the plan and its search.
struct Guide {
    MappingWishes wishes;
    uint64_t inferences = 1;  ///< one after the other, with inputs and outputs of their own
    std::string explain;      ///< the operation whose considered tilings are kept; empty: none
    size_t keep = 1;          ///< tilings that are kept of each operation
    size_t more_up_to = 0;    ///< in plans of so many operations also those that closed forms may underrate
    /// Devices with less of something: the tilings of those plans are among the alternatives. May be null.
    std::shared_ptr<const SmallerDevices> smaller;
    std::shared_ptr<Searches> searches = std::make_shared<Searches>();  ///< that were made so far
};

/// Returns the plan that closed forms take for the fastest. The graph must keep to the types and opcodes of
/// the device. Throws UserError that names the operation: no variant of the device takes it, its smallest
/// tiles do not fit, DDR is full, what is wished is illegal.
Plan plan(graph::Graph graph, const Target& target, const Guide& guide = {});
/// Returns a plan with these tilings, by operation, which were found for it in another plan of the graph.
Plan plan(graph::Graph graph, const Target& target, const Guide& guide, const std::vector<Tiling>& tilings);
/// Returns the same plan with other tilings, and what follows from them.
Plan replan(const Plan& from, const Target& target, const std::vector<Tiling>& tilings);
/// Returns the same plan with a storage of L2 in DDR, after all that is there. Operations keep their tilings:
/// replan() says what they take now.
Plan moved_to_ddr(Plan of, uint32_t storage);
/// Returns the same plan; its alternatives are those that fit and differ from its tilings a little in one
/// thing.
Plan with_neighbours(Plan of, const Target& target, const Guide& guide);

/// Returns what the device leaves for the tensors of a graph.
Room room_of_tensors(const graph::Graph& graph, const Target& target);

}  // namespace kpu::compiler
