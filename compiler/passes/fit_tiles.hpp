#pragma once
// Nodes whose smallest tile is larger than L1 become several that fit, each in a file with its kind.
#include "compiler/passes/match.hpp"

namespace kpu::passes {

/// Of the elements behind a dimension, which stand together in memory, those that a tile has to hold together: moving
/// shorter runs takes longer than nodes that read and write whole ones once more.
int64_t run_behind(const graph::Value& x, size_t d);

/// What two iterations in flight may need of L1.
class TileRoom {
  public:
    explicit TileRoom(uint64_t l1_bytes) : l1_bytes_(l1_bytes) {}
    /// Whether tiles with so many elements of this type, operands and results together, fit.
    bool fits(ElemType elem, int64_t elements) const {
        return 2 * (packed_bytes(elem, static_cast<uint64_t>(elements)) + slack) <= l1_bytes_;
    }

  private:
    static constexpr uint64_t slack = 1024;  ///< scales, single results, alignment
    uint64_t l1_bytes_;
};

/// Of a slice: elements [first, end) of one dimension.
inline BoundAttrs slice_of(int64_t axis, int64_t first, int64_t end) {
    return graph::attributes({graph::ints("starts", {first}), graph::ints("ends", {end}),
                              graph::ints("axes", {axis}), graph::ints("steps", {1})});
}

/// Changes the node so that it fits, adding others that may not fit yet; false: it fits, or cannot be changed.
using FitRule = bool (*)(Rewriter& rewriter, NodeId id, const TileRoom& room);

/// Sums, maxima, norms of more than a tile: of parts first, then of the results.
bool fit_reduction(Rewriter& rewriter, NodeId id, const TileRoom& room);
/// Pools over whole images: along one dimension first.
bool fit_global_pool(Rewriter& rewriter, NodeId id, const TileRoom& room);
/// Resizes and mirrored padding: along one dimension first. Both are separable.
bool fit_resize(Rewriter& rewriter, NodeId id, const TileRoom& room);
bool fit_mirror(Rewriter& rewriter, NodeId id, const TileRoom& room);
/// Running sums of long rows: of parts, and of their sums.
bool fit_running_sum(Rewriter& rewriter, NodeId id, const TileRoom& room);
/// Softmax and norms of long rows: reductions, and elementwise nodes, which can be cut anywhere.
bool fit_softmax(Rewriter& rewriter, NodeId id, const TileRoom& room);
bool fit_norm(Rewriter& rewriter, NodeId id, const TileRoom& room);
/// Convolutions of groups whose weights fill L1: one for each group, on slices of the channels.
bool fit_groups(Rewriter& rewriter, NodeId id, const TileRoom& room);
/// Lookups in large tables: a kernel copies the rows from where they are.
bool fit_gather(Rewriter& rewriter, NodeId id, const TileRoom& room);
/// Transposed convolutions of images that do not fit: to a result of `strides` times the operand, which can be cut.
bool fit_transposed(Rewriter& rewriter, NodeId id, const TileRoom& room);

}  // namespace kpu::passes
