#pragma once
// Where tiles stand in L2 between DDR and L1. Transfers are cut at the ends of rows and where either side has a multiple
// of its burst: rows that begin as far from one on both sides come in the fewest pieces, and split no burst of DRAM.
#include <vector>

#include "compiler/mapping/tiling.hpp"

namespace kpu::compiler {

/// Returns the largest number of bytes that the beginnings of an operand's tiles at home are multiples of; 0:
/// there is one tile.
int64_t apart_at_home(const TilingRequest& request, const Tiling& tiling, size_t operand);

/// Returns Tiling::staged: strides of all operands that gain by it, and of those that come in chunks
/// (Tiling::chunk). Empty dimensions where none does, or where there is no room.
std::vector<Dims> staged_strides(const TilingRequest& request, const Tiling& tiling);

/// True if several parts of a sum could come from DDR at once for longer rows, and some operand's are short.
bool gains_by_chunks(const TilingRequest& request, const Tiling& tiling);

/// Returns the bytes in the staging place of what comes from DDR at once.
uint64_t staged_bytes(const graph::Graph& graph, const TileOp& op, const Tiling& tiling, size_t operand);

/// True if the tiles that are on their way find room in the staging place.
bool staging_fits(const TilingRequest& request, const Tiling& tiling);

/// Returns, for each operand, where its slots begin in the staging place, and where all of them end (last).
std::vector<int64_t> staged_offsets(const graph::Graph& graph, const TileOp& op, const Tiling& tiling,
                                    const std::vector<Home>& homes);

}  // namespace kpu::compiler
