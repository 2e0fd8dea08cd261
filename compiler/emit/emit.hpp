#pragma once
// Tasks of one group: stages (tiles that are statements of their own), each with what is loaded once and loops over
// the rest. All order between tasks comes from Order; slots and arenas only decide how much can overlap.
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/emit/order.hpp"
#include "compiler/emit/throttle.hpp"
#include "compiler/mapping/tiling.hpp"
#include "compiler/memory/constants.hpp"
#include "compiler/memory/memory.hpp"
#include "compiler/plan/held.hpp"
#include "compiler/plan/shared.hpp"
#include "isa/builder.hpp"

namespace kpu::compiler {

/// The last loads of an engine, by operand. Those behind them wait for them: all at once, they would share the way, and
/// the one that is needed first would be there last.
struct Loads {
    std::map<size_t, builder::Task> into_l2, into_l1;
};

/// Buffers of the program and what stands in them; common to all groups.
struct Places {
    builder::Program& program;
    const graph::Graph& graph;
    const MemoryPlan& memory;
    const Target& target;
    Constants& constants;
    Order& order;
    Throttle& throttle;

    builder::Buffer weights{}, table{}, l2{}, held{}, ddr{};
    std::map<uint32_t, builder::Buffer> own{};  ///< by storage: inputs and outputs of the host
    SharedBlocks shared{memory};
    std::map<Block, int64_t> table_places{};       ///< small constants: byte offsets in the table
    std::vector<builder::Buffer> l1{}, staging{};  ///< by engine: its L1, and as much of L2
    bool any_held = false;
    bool holds(uint32_t buffer) const { return any_held && buffer == held.index; }
    uint64_t arena_bytes = 0;                      ///< half of an L1: stages take turns
    std::map<uint32_t, kernels::Work> launches{};  ///< of kernels, by statement
    bool needs_values = false;                     ///< the time of a kernel depends on them
    std::set<std::string> carried{};               ///< names of kernels that the program has
    uint32_t turns = 0;                            ///< stages so far
    std::map<size_t, Loads> loads{};               ///< by engine
    std::vector<builder::Task> streams{};          ///< loads of large constants from DDR, in order
    std::map<std::vector<int64_t>, uint32_t>
        frames{};  ///< numbers of Span::frame, by storage, offset, strides (-1 of dimensions of size 1)
};

/// A group and its choice of tiles.
struct Mapping {
    const TileOp& op;
    const Tiling& tiling;
    const std::vector<Home>& homes;     ///< by operand
    const std::vector<uint64_t>& kept;  ///< by operand: address in L2, if it is kept there
    Held& held;
    uint32_t number;         ///< of the operation
    uint64_t inference = 0;  ///< whose inputs and outputs these are
};

/// The tasks of a group in the two parts that groups take turns in: what a stage loads beforehand (constants), and
/// the rest.
struct Stage {
    std::function<void()> prologue, body;
    bool alone =
        false;  ///< takes both halves of L1: nothing can be loaded for it, or for the next stage, beforehand
};

/// Closures stay valid as long as `places` and what `mapping` refers to do.
std::vector<Stage> stages_of(Places& places, const Mapping& mapping);

}  // namespace kpu::compiler
