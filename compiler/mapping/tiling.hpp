#pragma once
// A choice of tiles for a TileOp: what it takes of L1 and L2, and how long it will take.
#include <string>
#include <vector>

#include "compiler/target/target.hpp"
#include "compiler/tile_op/tile_op.hpp"

namespace kpu::compiler {

/// Place of an operand before or after its group.
enum class Home : uint8_t {
    none,      ///< made and used by one group
    l2,        ///< on chip: one hop to L1
    ddr,       ///< two hops, through a staging place in L2
    shared,    ///< a constant in DDR of which L2 keeps what is read, for other groups
    table,     ///< small constants in L2, read from there by the units
    in_place,  ///< L2 or DDR: a kernel copies parts of it to L1 itself
};
/// True if its tiles come to L1 by way of L2.
inline bool is_in_ddr(Home home) { return home == Home::ddr || home == Home::shared; }
/// True if tasks bring its tiles to L1.
inline bool is_moved(Home home) { return home != Home::table && home != Home::in_place; }

/// Treatment of an input from DDR that is read more than once.
enum class Keep : uint8_t {
    no,     ///< it comes from DDR each time
    tiles,  ///< whoever reads a tile first leaves it in L2
    whole,  ///< it is copied to L2 before the first tile: its tiles overlap
    stage,  ///< a constant: the parts that all iterations of a stage read come to L2 while the stage before it is at work
};

/// Tiles along one axis that look alike: `count` of them, from tile `first` on, each `size` indices.
struct Run {
    int64_t first = 0, count = 0, size = 0;
    int64_t stride = 1;  ///< from one to the next
};
/// Rounds in which neighbouring tiles are worked on at once, one by each lane. The lanes' runs have the same count;
/// in a last round some lanes may have none.
struct Lap {
    int64_t count = 0;
    std::vector<Run> lanes;
};
/// Laps of `lanes` tiles of `tile` indices along an axis, in order. Where windows are clipped by a border, laps end;
/// single: each round is a lap of its own.
std::vector<Lap> laps_along(const graph::Graph& graph, const TileOp& op, int axis, int64_t tile,
                            int64_t lanes, bool single);

/// Cut of an operation, and what the closed forms of model/timing say of it.
struct Tiling {
    std::vector<int64_t> tile;  ///< indices of one tile, for each axis
    std::vector<int64_t>
        split;      ///< for each axis: neighbouring tiles that lanes, each on its engine, work on at once
    int depth = 1;  ///< iterations in flight, each with a slot of its own
    std::vector<bool> hoisted;  ///< for each operand: loaded once for all iterations of a loop
    /// For each operand: the operand whose bytes in L1 it shares; itself when its own.
    std::vector<size_t> place;
    uint64_t hoisted_bytes = 0;  ///< in L1
    uint64_t slot_bytes = 0;     ///< in L1, of one iteration
    std::vector<Keep> keep;      ///< indexed by operand
    uint64_t kept_bytes = 0;     ///< in L2
    /// Strides (elements) of each operand's tiles in L2 between DDR and L1; no dimensions: they stand there
    /// packed.
    std::vector<Dims> staged;
    int64_t chunk =
        1;  ///< parts of a cut sum that come from DDR at once: rows that are long enough to lie in all channels
    uint64_t l1_bytes() const { return hoisted_bytes + static_cast<uint64_t>(depth) * slot_bytes; }

    double cycles = 0;  ///< predicted for the whole operation
    /// Part of the cycles that each resource would take alone.
    double array = 0, vector = 0, dma = 0, dram = 0;

    bool same_mapping(const Tiling& o) const {
        return tile == o.tile && split == o.split && depth == o.depth && hoisted == o.hoisted;
    }
    int64_t lanes() const;
    int64_t tiles(const TileOp& op, size_t axis) const {
        return (op.axes[axis].extent + tile[axis] - 1) / tile[axis];
    }
    /// Returns the tiles of one lane along an axis: as many as the lane with the most has.
    int64_t rounds(const TileOp& op, size_t axis) const {
        return (tiles(op, axis) + split[axis] - 1) / split[axis];
    }
    /// Returns the axis of the sum that is cut: parts of it continue in an accumulator. -1: none is.
    int cut_axis(const TileOp& op) const;
    bool cuts_sum(const TileOp& op) const;
    /// True if an operand's tile differs from tile to tile along an axis of this kind.
    bool follows(const TileOp& op, size_t operand, Walk walk) const;
    /// Returns the most tasks of one iteration.
    int64_t tasks(const TileOp& op, const std::vector<Home>& homes) const;
    /// Parts of the sum that an operand consists of.
    int64_t parts(const TileOp& op, size_t operand) const;
    /// True if several of these parts come from DDR at once.
    bool chunked(const TileOp& op, size_t operand) const {
        return chunk > 1 && staged[operand].rank > 0 && !hoisted[operand] && parts(op, operand) > 1;
    }
    /// Returns what comes from DDR at once, as a tile: indices of an axis.
    int64_t on_the_way(const TileOp& op, size_t operand, size_t axis) const;
    /// Parts of an operand that have places of their own in one iteration, and places in all.
    int64_t parts_in_flight(const TileOp& op, size_t operand) const;
    int64_t slots(const TileOp& op, size_t operand) const;
    /// Returns how many tiles ahead of the one computed on loads run: those of other slots in flight, or the
    /// constants of the next stage.
    uint32_t prefetch_distance(const TileOp& op) const;
};

struct MappingWish;
class ProductTimes;
class Searches;

struct TilingRequest {
    const graph::Graph& graph;
    const TileOp& op;
    const Target& target;
    const std::vector<Home>& homes;    ///< indexed by operand
    const std::vector<Dims>& strides;  ///< for each operand: elements, where it stands at home
    /// Room in L1: half of it, so that the next operation's constants can come.
    uint64_t arena_bytes = 0;
    uint64_t staging_bytes = 0;  ///< half of an engine's staging in L2
    uint64_t spare_bytes = 0;    ///< room in L2 for what is kept there
    bool first = false;          ///< first of the program: nothing is computed while its constants come
    const MappingWish* wish = nullptr;          ///< mapping that the user fixes
    std::vector<Tiling>* considered = nullptr;  ///< gets every tiling that fits
    size_t keep = 1;                            ///< number of tilings that the search returns
    /// Adds, after them, tilings that closed forms may underrate: deeper ones, those on one engine, those
    /// that are the fastest on one of `smaller`.
    bool more = false;
    const std::vector<Target>* smaller = nullptr;  ///< devices with less of something
    Searches* searches = nullptr;                  ///< where what was found is found again
};

constexpr uint64_t small_align = 64;  ///< alignment of what is shorter than a few bursts
inline uint64_t align_up(uint64_t bytes, uint64_t to = tile_align) { return (bytes + to - 1) / to * to; }

/// Returns the elements of the largest tile of an operand, one dimension each.
Dims tile_shape(const graph::Graph& graph, const TileOp& op, size_t operand,
                const std::vector<int64_t>& tile);
uint64_t tile_bytes(const graph::Graph& graph, const TileOp& op, size_t operand,
                    const std::vector<int64_t>& tile);
/// Returns the shape of what comes from DDR at once: a tile, or several parts of a sum.
Dims shape_on_the_way(const graph::Graph& graph, const TileOp& op, const Tiling& tiling, size_t operand);

bool follows_axis(const TileOp& op, size_t operand, size_t axis);
/// True if no tile of this size lies in the padding alone, as a region has elements, and the last one is as
/// large as it must be.
bool touches(const graph::Graph& graph, const TileOp& op, size_t axis, int64_t size);
/// True if an operand's tiles can be left in L2 one by one: they do not overlap, and no two iterations of a
/// loop leave the same one.
bool leaves_tiles(const TileOp& op, const Tiling& tiling, size_t operand);

/// Returns how often each byte of an input comes from its home.
double times_read(const TileOp& op, const Tiling& tiling, size_t operand);

/// Returns the bytes of L2 for what Tiling::keep says of an operand.
uint64_t kept_bytes(const graph::Graph& graph, const TileOp& op, const Tiling& tiling, size_t operand);

/// Returns the multiply-accumulates of all nodes.
uint64_t macs_of(const graph::Graph& graph, const TileOp& op);

/// Returns the accumulator that a cut sum continues in; none: the output itself has that type.
ElemType accumulator_of(const graph::Graph& graph, const TileOp& op);
/// True where the device has the accumulating form, and a way back from the accumulator.
bool sums_can_be_cut(const graph::Graph& graph, const TileOp& op, const std::vector<Home>& homes,
                     const Target& target);

/// Finds bytes, places and predicted time of a tiling whose tile, split, depth and hoisted are set. False: it
/// does not fit.
bool evaluate(const TilingRequest& request, Tiling& tiling);

/// Work that tilings of the same tiles on the same engines have in common, once one has fitted.
struct TileWork {
    bool known = false;
    double array = 0;  ///< cycles of all products of a lane
    double array_l1 = 0,
           vector_l1 = 0;  ///< cycles of all of L1 for those products; for one tile's other nodes
    double chain = 0;      ///< time of one tile's work, part after part, from start to end
    double vector = 0;     ///< time of one tile's other nodes
};
/// Does the same for one of many. False also where its work alone takes more than `most` cycles.
bool evaluate(const TilingRequest& request, const ProductTimes& products, Tiling& tiling, TileWork& work,
              double most);

/// Returns the fastest of the tilings considered, at most `request.keep`, the fastest first (and
/// `request.more`). Throws UserError "SRAM memory exceeded: ..." when none fits, and for a wish that is
/// illegal.
std::vector<Tiling> fastest_tilings(const TilingRequest& request);

/// Returns a tiling that was found, and those that fit and differ from it a little in one thing.
std::vector<Tiling> tilings_around(const TilingRequest& request, const Tiling& from);

}  // namespace kpu::compiler
