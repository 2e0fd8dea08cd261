#pragma once
// Properties of a resize that passes and lowering ask for.
#include "isa/bound_program.hpp"

namespace kpu::graph {

/// True if a resize by whole factors repeats each element of X that often, so that any part of X makes a part
/// of Y.
inline bool repeats_elements(const BoundAttrs& attrs) {
    const std::string_view coordinates = attrs.word("coordinates", "half_pixel"),
                           rounding = attrs.word("nearest_mode", "round_prefer_floor");
    if (attrs.word("mode", "nearest") != "nearest") return false;
    if (coordinates == "asymmetric") return rounding == "floor";
    return coordinates == "half_pixel" &&
           (rounding == "round_prefer_floor" || rounding == "round_prefer_ceil");
}

}  // namespace kpu::graph
