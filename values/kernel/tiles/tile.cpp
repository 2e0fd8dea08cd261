#include "values/kernel/tiles/tile.hpp"

#include <algorithm>
#include <cstring>

#include "base/diagnostics.hpp"

namespace kpu::values::kernel {

Tile::Tile(Type type_of, Shape shape_of) : type(type_of), shape(std::move(shape_of)) {
    count_ = static_cast<size_t>(kpu::kernel::elements_of(shape));
    // not zeroed: operations write every element
    bytes_ = std::shared_ptr<uint8_t[]>(new uint8_t[std::max<size_t>(count_ * element_bytes(), 1)]);
}

Tile Tile::scalar(Type type, uint64_t bits) {
    Tile tile(type, {});
    std::memcpy(tile.make(), &bits, tile.element_bytes());
    return tile;
}

Tile Tile::viewed(Type as, Shape as_shape) const {
    Tile tile = *this;
    tile.type = as;
    tile.shape = std::move(as_shape);
    tile.count_ = static_cast<size_t>(kpu::kernel::elements_of(tile.shape));
    return tile;
}

int64_t integer_of(const Tile& tile, size_t at) {
    int64_t value = 0;
    with_storage(tile.type, [&](auto zero) { value = static_cast<int64_t>(tile.as<decltype(zero)>()[at]); });
    return value;
}

Shape row_major(const Shape& shape) {
    Shape strides(shape.size(), 1);
    for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
    return strides;
}

namespace {

template <typename T>
void copy_elements(T* to, const Shape& to_strides, const T* from, const Shape& from_strides,
                   const Shape& sizes) {
    const size_t rank = sizes.size();
    if (rank == 0) {
        *to = *from;
        return;
    }
    const int64_t run = sizes[rank - 1], to_step = to_strides[rank - 1], from_step = from_strides[rank - 1];
    Shape index(rank, 0);
    for (;;) {
        if (to_step == 1 && from_step == 1) {
            std::memcpy(to, from, static_cast<size_t>(run) * sizeof(T));
        } else {
            for (int64_t i = 0; i < run; ++i) to[i * to_step] = from[i * from_step];
        }
        size_t d = rank - 1;
        for (; d > 0; --d) {
            to += to_strides[d - 1];
            from += from_strides[d - 1];
            if (++index[d - 1] < sizes[d - 1]) break;
            to -= to_strides[d - 1] * sizes[d - 1];
            from -= from_strides[d - 1] * sizes[d - 1];
            index[d - 1] = 0;
        }
        if (d == 0) return;
    }
}

}  // namespace

void copy_strided(uint8_t* to, const Shape& to_strides, const uint8_t* from, const Shape& from_strides,
                  const Shape& sizes, unsigned element_bytes) {
    for (const int64_t size : sizes)
        if (size == 0) return;
    if (element_bytes == 1) return copy_elements(to, to_strides, from, from_strides, sizes);
    if (element_bytes == 2)
        return copy_elements(reinterpret_cast<uint16_t*>(to), to_strides,
                             reinterpret_cast<const uint16_t*>(from), from_strides, sizes);
    copy_elements(reinterpret_cast<uint32_t*>(to), to_strides, reinterpret_cast<const uint32_t*>(from),
                  from_strides, sizes);
}

Tile operate(const TileExpr& expr, std::vector<Tile>& in) {
    switch (kpu::kernel::operation(expr.op).family) {
        case TileFamily::convert:
            return convert_tile(in[0], expr.type);
        case TileFamily::select:
            return select_tile(in[0], in[1], in[2]);
        case TileFamily::product:
            return dot_tile(expr, in[0], in[1]);
        case TileFamily::pick:
            return gathered_tile(expr, in);
        case TileFamily::reduce:
            return reduced_tile(expr, in[0]);
        case TileFamily::scan:
            return cumulated_tile(expr, in[0]);
        case TileFamily::sort:
            return sorted_tile(expr, in);
        case TileFamily::move:
            return moved_tile(expr, in);
        case TileFamily::none:
        case TileFamily::each:
            break;
    }
    return in.size() == 2 ? binary_tile(expr.op, in[0], in[1]) : unary_tile(expr, in[0]);
}

}  // namespace kpu::values::kernel
