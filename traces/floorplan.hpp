#pragma once
// Where units lie on the chip, for thermal tools.
#include <string>
#include <vector>

#include "traces/run_info.hpp"

namespace kpu::traces {

/// A rectangle, mm, from the lower left corner of the die.
struct Rectangle {
    double x = 0, y = 0, width = 0, height = 0;
};

struct Block {
    size_t unit = 0;  ///< index into RunInfo::units
    Rectangle place;
};

struct Floorplan {
    std::vector<Block> blocks;          ///< blocks of the units that the view shows, in order of unit
    std::vector<std::string> left_out;  ///< units whose area is not known
    double side_mm = 0;                 ///< side of the die, a square that the blocks fill
};

/// Lays out every unit as a rectangle of its area, those of an engine side by side, as near to squares as
/// they can be: a squarified treemap (Bruls, Huizing, van Wijk, 2000) of the engines and, in each, of its
/// units. It is no real floor plan: it has the areas and the neighbourhoods, and neither gaps nor wires.
/// Throws UserError if no unit's area is known.
Floorplan floorplan_of(const RunInfo& info);

}  // namespace kpu::traces
