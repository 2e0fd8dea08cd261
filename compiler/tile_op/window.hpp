#pragma once
// Relation of an operand's dimension to an axis of its operation, and the part of it that a tile touches.
#include <cstdint>

namespace kpu::compiler {

/// Relation of one dimension of an operand to an axis: index i of the axis touches the elements [i * step -
/// before, i * step - before + extent) of it, as far as they exist.
struct Window {
    int axis = -1;  ///< -1: every tile touches the whole dimension
    int64_t step = 1, extent = 1, before = 0;
    bool operator==(const Window& o) const {
        return axis == o.axis && step == o.step && extent == o.extent && before == o.before;
    }
    bool slides() const { return axis >= 0 && (extent != step || before != 0); }
};

/// The part of a dimension that `count` indices of an axis from `first` on touch.
struct Part {
    int64_t lo = 0, size = 0;
    int64_t before = 0, behind = 0;  ///< padding: what the window asks for outside of the dimension
};
Part part_of(const Window& window, int64_t dimension, int64_t first, int64_t count);

}  // namespace kpu::compiler
