#include "compiler/tile_op/window.hpp"

#include <algorithm>

namespace kpu::compiler {

Part part_of(const Window& window, int64_t dimension, int64_t first, int64_t count) {
    if (window.axis < 0) return {0, dimension, 0, 0};
    const int64_t lo = first * window.step - window.before;
    const int64_t hi = (first + count - 1) * window.step - window.before + window.extent;
    Part part;
    part.lo = std::clamp<int64_t>(lo, 0, dimension);
    part.size = std::clamp<int64_t>(hi, 0, dimension) - part.lo;
    part.before = std::max<int64_t>(0, -lo);
    part.behind = std::max<int64_t>(0, hi - dimension);
    return part;
}

}  // namespace kpu::compiler
