#pragma once
// Nodes whose smallest tile is larger than L1 become several that fit, each in a file with its kind.
#include "compiler/graph/supports.hpp"
#include "compiler/passes/match.hpp"

namespace kpu::passes {

/// Returns how many of the elements after a dimension, which stand together in memory, a tile has to hold
/// together: moving shorter runs takes longer than nodes that read and write whole ones once more.
int64_t run_behind(const graph::Value& x, size_t d);

/// Room of two iterations in flight in L1.
class TileRoom {
  public:
    TileRoom(uint64_t l1_bytes, const graph::Supports& device) : supports(device), l1_bytes_(l1_bytes) {}
    /// True if tiles with so many elements of this type, operands and results together, fit.
    bool fits(ElemType elem, int64_t elements) const {
        return has(packed_bytes(elem, static_cast<uint64_t>(elements)));
    }
    bool has(uint64_t bytes) const { return 2 * (bytes + slack) <= l1_bytes_; }

    const graph::Supports& supports;  ///< support of the device

  private:
    static constexpr uint64_t slack = 1024;  ///< scales, single results, alignment
    uint64_t l1_bytes_;
};

/// Returns a divisor of a length that fits, `run` elements per index: the largest that leaves fewer parts
/// than it has elements, else, if the length itself does not fit in any way, one near what fits; 1 when there
/// is none.
int64_t divisor_that_fits(int64_t length, int64_t run, ElemType elem, const TileRoom& room);
/// Returns about the most elements that fit, `run` per index.
int64_t most_that_fit(int64_t length, int64_t run, ElemType elem, const TileRoom& room);
/// Returns what is left after parts of that size, for a length that does not fit in any way; 0: it does, or
/// parts cannot be made.
int64_t rest_of_parts(int64_t length, int64_t run, ElemType elem, const TileRoom& room);

/// Returns the attributes of a slice: elements [first, end) of one dimension.
inline BoundAttrs slice_of(int64_t axis, int64_t first, int64_t end) {
    return graph::attributes({graph::ints("starts", {first}), graph::ints("ends", {end}),
                              graph::ints("axes", {axis}), graph::ints("steps", {1})});
}

/// Changes the node so that it fits, adding others that may not fit yet; false: it fits, or cannot be changed.
using FitRule = bool (*)(Rewriter& rewriter, NodeId id, const TileRoom& room);

/// Sums, maxima, norms of more than a tile: of parts first, then of the results.
bool fit_reduction(Rewriter& rewriter, NodeId id, const TileRoom& room);
/// Fits a search for places of the largest or least element of long rows: of parts, then of the best of each.
bool fit_search(Rewriter& rewriter, NodeId id, const TileRoom& room);
/// Fits the first k of long rows: of parts, then of what is left of each.
bool fit_top_k(Rewriter& rewriter, NodeId id, const TileRoom& room);
/// Gathers what stands at the places that a search gives, in pieces of long rows.
bool fit_gathered(Rewriter& rewriter, NodeId id, const TileRoom& room);
/// Pools over whole images: along one dimension first.
bool fit_global_pool(Rewriter& rewriter, NodeId id, const TileRoom& room);
/// Resizes and mirrored padding: along one dimension first. Both are separable.
bool fit_resize(Rewriter& rewriter, NodeId id, const TileRoom& room);
bool fit_mirror(Rewriter& rewriter, NodeId id, const TileRoom& room);
/// The same along one long dimension, which becomes rows with their neighbours: also of backwards slices, copies of the
/// border, and pools over a line.
bool fit_backwards(Rewriter& rewriter, NodeId id, const TileRoom& room);
bool fit_border(Rewriter& rewriter, NodeId id, const TileRoom& room);
bool fit_long_resize(Rewriter& rewriter, NodeId id, const TileRoom& room);
bool fit_pooled_line(Rewriter& rewriter, NodeId id, const TileRoom& room);
/// Fits running sums of long rows: of parts, and of their sums.
bool fit_running_sum(Rewriter& rewriter, NodeId id, const TileRoom& room);
/// Fits softmax and norms of long rows: reductions, and elementwise nodes, which can be cut anywhere.
bool fit_softmax(Rewriter& rewriter, NodeId id, const TileRoom& room);
bool fit_norm(Rewriter& rewriter, NodeId id, const TileRoom& room);
/// Convolutions of groups whose weights fill L1: one for each group, on slices of the channels.
bool fit_groups(Rewriter& rewriter, NodeId id, const TileRoom& room);
/// Places in one long line are places of a table's rows.
bool fit_lookup(Rewriter& rewriter, NodeId id, const TileRoom& room);
/// Lookups in large tables: a kernel copies the rows from where they are.
bool fit_gather(Rewriter& rewriter, NodeId id, const TileRoom& room);
/// Fits transposed convolutions of images that do not fit: to a result of `strides` times the operand, which
/// can be cut.
bool fit_transposed(Rewriter& rewriter, NodeId id, const TileRoom& room);

}  // namespace kpu::passes
