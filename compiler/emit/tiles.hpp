#pragma once
// The regions of a stage: where the tile of each operand stands at home, in L2 and in L1, as a function of the loop
// variable.
#include <optional>
#include <utility>
#include <vector>

#include "compiler/emit/emission.hpp"

namespace kpu::compiler {

/// Writes the quantisation of `count` channels from `first` on; -1: of all.
proto::Quant quant_message(const BoundQuant& quant, int64_t first = 0, int64_t count = -1);
/// Returns the type of the host's array.
proto::HostElem host_elem(const graph::Port& port);

/// A region, and what it touches in all iterations.
struct Tile {
    builder::Region region;
    Span span;
};

/// Tiles of one stage: of one combination of unrolled axes, on one engine.
class Tiles {
  public:
    Tiles(Emission& emission, const PlannedOp& planned, uint64_t inference, size_t engine)
        : out_(emission),
          planned_(planned),
          op_(planned.op),
          tiling_(planned.tiling),
          inference_(inference),
          engine_(engine) {}

    /// Takes this half of L1 and of staging for the stage, and all after it.
    void place_operands(uint32_t half);
    /// Sets the tiles along every axis: one, or those of a run, counted by the loop variable. Result: iterations.
    int64_t set_position(const std::vector<Run>& runs);
    /// Moves along one axis alone.
    void set_run(size_t axis, const Run& run) { positions_[axis].run = run; }
    const Run& run(size_t axis) const { return positions_[axis].run; }

    const graph::Value& value(size_t operand) const { return out_.graph.value(op_.operands[operand].value); }
    bool in_table(size_t operand) const { return planned_.homes[operand] == Home::table; }
    bool moved(size_t operand) const { return is_moved(planned_.homes[operand]); }
    int64_t parts(size_t operand) const { return tiling_.parts(op_, operand); }
    /// Identifies all tiles that the loop gives: the same for lanes that need the same.
    std::vector<int64_t> identity(size_t operand, int64_t part) const;
    Part part(size_t operand, size_t d) const;
    /// Returns the shape of an operand's tile.
    Dims shape(size_t operand) const { return box(operand).shape; }

    /// Returns the tile outside of L1.
    Tile at_home(size_t operand, const builder::Expr& t) const;
    /// Returns the place in L2 of a constant that several operations share, and whether it must be brought
    /// there. None: it moves with the loop, or there is no room; or it is not there yet, and may not be
    /// brought (`again`: more than once).
    std::optional<std::pair<Tile, bool>> shared(size_t operand, bool again) const;
    /// Returns the tile in the part of L2 that holds the tensor during this operation.
    Tile kept(size_t operand, const builder::Expr& t) const;
    /// Returns a part of what a stage keeps there; stages take turns in two halves.
    Tile kept_part(size_t operand, int64_t number, int64_t half) const;
    /// Returns the whole tensor there, and at home.
    std::pair<Tile, Tile> whole(size_t operand) const;
    /// Returns a dense tile that does not move, in `count` parts of about the same bytes; in fewer if it is
    /// small.
    std::vector<Tile> pieces(const Tile& tile, int64_t count) const;
    /// Returns the tile in L1, or in the staging part of L2; `part` of a cut sum.
    Tile in_l1(size_t operand, const builder::Expr& slot, int64_t part) const;
    Tile staged(size_t operand, const builder::Expr& slot, int64_t part, const builder::Expr& t) const;
    /// Returns a part of a sum that comes from DDR with others: `begin` is where all of them begin in their
    /// slot.
    Tile staged_part(size_t operand, const builder::Expr& slot, int64_t part,
                     const builder::Expr& begin) const;
    /// Returns the offset of a tile at home, from the last place at which transfers are cut.
    builder::Expr home_offset(size_t operand, const builder::Expr& t) const;
    /// Returns a small constant, read where it stands in L2.
    Tile in_table_of(size_t operand, ElemType elem, const builder::Expr& t) const;
    /// Returns the tile that a cut sum of output `y` continues in.
    Tile accumulator(size_t y, ElemType sums, const builder::Expr& slot) const;
    /// Returns the same, with the scale of the sums: the product of the operands' scales.
    Tile scaled_sum(const TileNode& anchor, const builder::Expr& slot) const;
    /// Returns a tile as operand i of a node reads it: broadcast ones repeat.
    builder::Region as_operand(const TileNode& tile, size_t i, const Tile& of) const;

  private:
    struct Position {
        Run run;
        int64_t divisor = 1;  ///< iterations between two tiles along this axis
    };
    /// Shape of an operand's tile, its first element, and how far the elements reach in all iterations.
    struct Box {
        Dims shape, first, reach;
        Dims step;  ///< between the parts of two tiles; 0: there is one
    };

    int64_t slot_size(size_t operand) const;
    Box box(size_t operand) const;
    int64_t count_along(size_t operand, size_t d) const;
    int64_t step(size_t operand, size_t d) const;
    builder::Expr index(size_t axis, const builder::Expr& t) const;
    bool outermost(const Position& position) const;
    builder::Expr offset(size_t operand, const Dims& strides, const Dims& first,
                         const builder::Expr& t) const;
    builder::TensorType type(size_t operand, const Dims& shape, bool quantised) const;
    proto::Quant tile_quant(size_t operand) const;
    const builder::Buffer& buffer_of_kept(size_t operand) const;
    int64_t base_of(const Storage& storage) const;
    Tile constant_tile(size_t operand, const Box& tile, const builder::Expr& t) const;
    /// Slots of an operand's tiles, one after the other.
    struct Slots {
        int64_t first, size;
    };
    Slots slots_in_l1(size_t operand) const;
    Slots staging_slots(size_t operand) const;
    /// `shift`: where the tile begins in its slot.
    Tile in_slot(size_t operand, const builder::Buffer& buffer, const Slots& slots, const builder::Expr& slot,
                 int64_t part, const builder::TensorType& type_of, const builder::Expr& shift) const;
    Tile sum_tile(size_t y, const builder::TensorType& type, const builder::Expr& slot) const;

    Emission& out_;
    const PlannedOp& planned_;
    const TileOp& op_;
    const Tiling& tiling_;
    uint64_t inference_;
    size_t engine_;
    std::vector<Position> positions_;
    std::vector<int64_t> offsets_;         ///< in L1
    std::vector<int64_t> staged_offsets_;  ///< in the staging part of L2
    int64_t accumulator_ = 0;
};

}  // namespace kpu::compiler
