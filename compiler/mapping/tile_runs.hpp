#pragma once
// Layout of an operand's tile in memory at its home, and what DRAM takes for it.
#include "compiler/mapping/tiling.hpp"

namespace kpu::compiler {

class TileRuns {
  public:
    TileRuns(const TilingRequest& request, const Tiling& tiling) : request_(request), tiling_(tiling) {}

    /// Runs of memory that a tile consists of; constants are packed as their tiles are.
    Runs runs(size_t operand) const {
        return runs(operand, tile_shape(request_.graph, request_.op, operand, tiling_.tile));
    }
    /// Returns the runs of what comes from there at once.
    Runs on_the_way(size_t operand) const { return runs(operand, tile_of(operand)); }
    /// Returns the cycles of DRAM for that: whole bursts of each row, in the channels that they lie in.
    double pin_cycles(size_t operand) const;

  private:
    const graph::Value& value(size_t operand) const {
        return request_.graph.value(request_.op.operands[operand].value);
    }
    Runs runs(size_t operand, const Dims& tile) const;
    Dims tile_of(size_t operand) const {
        return shape_on_the_way(request_.graph, request_.op, tiling_, operand);
    }
    double burst_share(size_t operand, const Runs& of) const;
    double channel_share(size_t operand, const Runs& of) const;

    const TilingRequest& request_;
    const Tiling& tiling_;
};

}  // namespace kpu::compiler
