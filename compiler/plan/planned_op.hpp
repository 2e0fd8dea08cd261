#pragma once
#include <cstdint>
#include <vector>

#include "compiler/mapping/tiling.hpp"
#include "compiler/plan/held.hpp"
#include "compiler/tile_op/tile_op.hpp"

namespace kpu::compiler {

/// What became of a group.
struct PlannedOp {
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

}  // namespace kpu::compiler
