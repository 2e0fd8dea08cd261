#pragma once
// A choice of tiles for a TileOp: what it takes of L1, and how long it will take.
#include <string>
#include <vector>

#include "compiler/lower/target.hpp"
#include "compiler/lower/tile_op.hpp"

namespace kpu::lower {

/// Where an operand of a group stands before or behind it.
enum class Home : uint8_t {
    none,   ///< made and used by one group
    l2,     ///< on chip: one hop to L1
    ddr,    ///< two hops, through a staging place in L2
    table,  ///< small constants in L2, read from there by the units
};

/// The part of a dimension that `count` indices of an axis from `first` on touch.
struct Part {
    int64_t lo = 0, size = 0;
    int64_t before = 0, behind = 0;  ///< padding: what the window asks for outside of the dimension
};
Part part_of(const Window& window, int64_t dimension, int64_t first, int64_t count);

/// Tiles along one axis that look alike: `count` of them, from tile `first` on, each `size` indices.
struct Run {
    int64_t first = 0, count = 0, size = 0;
};
/// Tiles of `tile` indices along an axis, in order. Where windows are clipped by a border, runs end.
std::vector<Run> runs_along(const graph::Graph& graph, const TileOp& op, int axis, int64_t tile);

/// How an operation is cut, and what the closed forms of model/timing say of it.
struct Tiling {
    std::vector<int64_t> tile;   ///< indices of one tile, for each axis
    int depth = 1;               ///< iterations in flight, each with a slot of its own
    std::vector<bool> hoisted;   ///< by operand: loaded once for all iterations of a loop
    std::vector<size_t> place;   ///< by operand: the operand whose bytes in L1 it shares; itself when its own
    uint64_t hoisted_bytes = 0;  ///< in L1
    uint64_t slot_bytes = 0;     ///< in L1, of one iteration
    uint64_t l1_bytes() const { return hoisted_bytes + static_cast<uint64_t>(depth) * slot_bytes; }

    double cycles = 0;  ///< predicted for the whole operation
    /// Of them, what each resource would take alone.
    double array = 0, vector = 0, dma = 0, dram = 0;
    std::string bound() const;  ///< the resource that takes longest

    int64_t tiles(const TileOp& op, size_t axis) const {
        return (op.axes[axis].extent + tile[axis] - 1) / tile[axis];
    }
    /// The sum is cut: parts of it continue in an accumulator.
    bool cuts_sum(const TileOp& op) const;
};

struct TilingRequest {
    const graph::Graph& graph;
    const TileOp& op;
    const Target& target;
    const std::vector<Home>& homes;  ///< by operand
    uint64_t l1_bytes = 0;           ///< that it may take
    int engines = 1;                 ///< that share its tiles
};

constexpr uint64_t tile_align = 64;  ///< of everything in L1 and L2, bytes
inline uint64_t align_up(uint64_t bytes, uint64_t to = tile_align) { return (bytes + to - 1) / to * to; }

/// Elements of the largest tile of an operand, one dimension each.
Dims tile_shape(const graph::Graph& graph, const TileOp& op, size_t operand,
                const std::vector<int64_t>& tile);
uint64_t tile_bytes(const graph::Graph& graph, const TileOp& op, size_t operand,
                    const std::vector<int64_t>& tile);

/// The accumulator that a cut sum continues in; none: the output itself has that type.
ElemType accumulator_of(const graph::Graph& graph, const TileOp& op);

/// The fastest of the tilings considered. Throws UserError "SRAM memory exceeded: ..." when none fits.
Tiling choose_tiling(const TilingRequest& request);

}  // namespace kpu::lower
