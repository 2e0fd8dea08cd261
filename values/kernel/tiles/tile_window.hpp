#pragma once
// Windows of buffers, as bytes.
#include "values/kernel/tiles/tile.hpp"

namespace kpu::values::kernel {

/// Elements of a buffer at strided places, in the order of their indices.
struct ByteWindow {
    uint32_t buffer = 0;
    uint64_t first = 0;  ///< byte
    unsigned element_bytes = 1;
    Shape sizes, strides;  ///< strides in elements

    uint64_t count() const { return static_cast<uint64_t>(kpu::kernel::elements_of(sizes)); }
    uint64_t bytes() const { return count() * element_bytes; }
    /// Returns the offset after its last byte.
    uint64_t end() const;
    bool overlaps(const ByteWindow& other) const;
    /// Returns the same elements with adjoining dimensions joined, and none of size 1.
    ByteWindow merged() const;
};

/// The part of a window that lies inside the buffer's shape.
struct WindowPart {
    Shape low, size;
};
/// Throws TileFault for a window that is outside; a clipped one may be inside partly.
WindowPart inside_part(const TileExpr& window, const Shape& starts);
/// Throws TileFault where one element of a window's shape is outside.
void check_inside(const TileExpr& window, const Shape& place);
ByteWindow part_of(const TileExpr& window, const Shape& starts, const WindowPart& part, uint32_t buffer,
                   unsigned element_bytes);

}  // namespace kpu::values::kernel
