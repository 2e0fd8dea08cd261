// Operations that move elements without looking at them.
#include <algorithm>
#include <cstring>

#include "base/diagnostics.hpp"
#include "values/kernel/tiles/tile.hpp"

namespace kpu::values::kernel {
namespace {

/// Parts of a row-major tile: where they begin, in elements, and their strides.
struct View {
    int64_t offset = 0;
    Shape strides;
};

Tile copy_of(const Tile& x, const View& from, const Shape& shape) {
    Tile result(x.type, shape);
    if (result.count() > 0)
        copy_strided(result.make(), row_major(shape), x.bytes() + from.offset * x.element_bytes(),
                     from.strides, shape, x.element_bytes());
    return result;
}

void put(Tile& into, const View& to, const Tile& x) {
    if (x.count() > 0)
        copy_strided(into.make() + to.offset * x.element_bytes(), to.strides, x.bytes(), row_major(x.shape),
                     x.shape, x.element_bytes());
}

Tile broadcast(const TileExpr& expr, const Tile& x) {
    if (x.count() == 1) {
        Tile result(x.type, expr.shape);
        with_storage(x.type, [&](auto zero) {
            using T = decltype(zero);
            std::fill_n(result.make_as<T>(), result.count(), x.as<T>()[0]);
        });
        return result;
    }
    const Shape own = row_major(x.shape);
    View view;
    view.strides.assign(expr.shape.size(), 0);
    for (size_t i = 0; i < x.shape.size(); ++i)
        if (x.shape[i] != 1) view.strides[static_cast<size_t>(expr.dims[expr.shape.size() + i])] = own[i];
    return copy_of(x, view, expr.shape);
}

Tile iota(const TileExpr& expr) {
    Tile index(Type::i32, expr.shape);
    const auto axis = static_cast<size_t>(expr.dims[0]);
    const int64_t stride = row_major(expr.shape)[axis], size = std::max<int64_t>(expr.shape[axis], 1);
    auto* out = index.make_as<int32_t>();
    for (size_t i = 0; i < index.count(); ++i)
        out[i] = static_cast<int32_t>(static_cast<int64_t>(i) / stride % size);
    return convert_tile(index, expr.type);
}

/// Returns the same where one type has less than a byte.
Tile bitcast_bits(const TileExpr& expr, const Tile& x) {
    const unsigned from = kpu::kernel::tile_bits(x.type), to = kpu::kernel::tile_bits(expr.type);
    if (from == to) return convert_tile(x, expr.type);
    const bool splits = from > to;
    const unsigned part = std::min(from, to), parts = std::max(from, to) / part;
    const Shape& wide = splits ? x.shape : expr.shape;
    const auto columns = static_cast<size_t>(wide.back());
    const auto count = static_cast<size_t>(kpu::kernel::elements_of(wide));
    // a byte for each part; what stands above its bits is cut
    Tile result(contains(kpu::kernel::tile_nibbles, expr.type) ? Type::u8 : expr.type, expr.shape);
    for (size_t at = 0; at < count; ++at) {
        uint32_t word = 0;
        if (splits) std::memcpy(&word, x.bytes() + at * x.element_bytes(), x.element_bytes());
        for (size_t i = 0; i < parts; ++i) {
            const size_t place = (at / columns * parts + i) * columns + at % columns;
            if (splits)
                result.make()[place] = static_cast<uint8_t>(word >> i * part);
            else
                word |= (x.bytes()[place] & ((1u << part) - 1)) << i * part;
        }
        if (!splits) std::memcpy(result.make() + at * result.element_bytes(), &word, result.element_bytes());
    }
    return convert_tile(result, expr.type);
}

/// Reinterprets the bits: to a narrower type each row becomes rows of its parts, low ones first; back, the
/// other way round.
Tile bitcast(const TileExpr& expr, const Tile& x) {
    for (const Type type : {x.type, expr.type})
        if (contains(kpu::kernel::tile_nibbles, type)) return bitcast_bits(expr, x);
    const unsigned from = x.element_bytes(), to = kpu::kernel::tile_bytes(expr.type);
    if (from == to) return x.viewed(expr.type, expr.shape);
    const Shape& wide = from > to ? x.shape : expr.shape;
    const unsigned part = std::min(from, to), parts = std::max(from, to) / part;
    const int64_t columns = wide.back(),
                  rows = kpu::kernel::elements_of(wide) / std::max<int64_t>(columns, 1);
    Tile result(expr.type, expr.shape);
    // [rows, columns, parts] on the wide side, [rows, parts, columns] on the narrow one
    const Shape sizes{rows, static_cast<int64_t>(parts), columns};
    const Shape narrow{columns * parts, columns, 1}, whole{columns * parts, 1, static_cast<int64_t>(parts)};
    copy_strided(result.make(), from > to ? narrow : whole, x.bytes(), from > to ? whole : narrow, sizes,
                 part);
    return result;
}

View clamped(const Shape& whole, const Shape& part, const std::vector<Tile>& in, size_t first) {
    View view{0, row_major(whole)};
    for (size_t i = 0; i < whole.size(); ++i)
        view.offset +=
            std::clamp<int64_t>(integer_of(in[first + i]), 0, whole[i] - part[i]) * view.strides[i];
    return view;
}

Tile concat(const TileExpr& expr, const std::vector<Tile>& in) {
    Tile result(expr.type, expr.shape);
    View view{0, row_major(expr.shape)};
    const auto axis = static_cast<size_t>(expr.dims[0]);
    for (const Tile& part : in) {
        put(result, view, part);
        view.offset += part.shape[axis] * view.strides[axis];
    }
    return result;
}

Tile pad(const TileExpr& expr, const Tile& x, const Tile& value) {
    Tile result(expr.type, expr.shape);
    with_storage(x.type, [&](auto zero) {
        using T = decltype(zero);
        std::fill_n(result.make_as<T>(), result.count(), value.as<T>()[0]);
    });
    const size_t rank = x.shape.size();
    const Shape strides = row_major(expr.shape), own = row_major(x.shape);
    View to{0, strides}, from{0, own};
    Shape sizes(rank);
    for (size_t i = 0; i < rank; ++i) {
        // negative padding takes elements away: those from `first` to `last` stay
        const int64_t low = expr.dims[i], step = expr.dims[2 * rank + i] + 1;
        const int64_t first = low >= 0 ? 0 : (-low + step - 1) / step;
        const int64_t last = std::min(x.shape[i] - 1, (expr.shape[i] - 1 - low) / step);
        sizes[i] = expr.shape[i] - 1 - low < 0 ? 0 : std::max<int64_t>(last - first + 1, 0);
        to.offset += (low + first * step) * strides[i];
        to.strides[i] = strides[i] * step;
        from.offset += first * own[i];
    }
    if (kpu::kernel::elements_of(sizes) > 0)
        copy_strided(result.make() + to.offset * x.element_bytes(), to.strides,
                     x.bytes() + from.offset * x.element_bytes(), from.strides, sizes, x.element_bytes());
    return result;
}

}  // namespace

Tile moved_tile(const TileExpr& expr, const std::vector<Tile>& in) {
    const size_t rank = in.empty() ? 0 : in[0].shape.size();
    View view{0, in.empty() ? Shape{} : row_major(in[0].shape)};
    switch (expr.op) {
        case Op::iota:
            return iota(expr);
        case Op::bitcast:
            return bitcast(expr, in[0]);
        case Op::broadcast_to:
            return broadcast(expr, in[0]);
        case Op::reshape:
            return in[0].viewed(expr.type, expr.shape);
        case Op::transpose: {
            const Shape own = view.strides;
            for (size_t i = 0; i < rank; ++i) view.strides[i] = own[static_cast<size_t>(expr.dims[i])];
            return copy_of(in[0], view, expr.shape);
        }
        case Op::slice:
            for (size_t i = 0; i < rank; ++i) {
                view.offset += expr.dims[i] * view.strides[i];
                view.strides[i] *= expr.dims[2 * rank + i];
            }
            return copy_of(in[0], view, expr.shape);
        case Op::reverse:
            for (const int64_t d : expr.dims) {
                const auto i = static_cast<size_t>(d);
                if (view.strides[i] < 0) continue;
                view.offset += std::max<int64_t>(in[0].shape[i] - 1, 0) * view.strides[i];
                view.strides[i] = -view.strides[i];
            }
            return copy_of(in[0], view, expr.shape);
        case Op::dynamic_slice:
            return copy_of(in[0], clamped(in[0].shape, expr.shape, in, 1), expr.shape);
        case Op::dynamic_update: {
            Tile result(expr.type, expr.shape);
            std::memcpy(result.make(), in[0].bytes(), in[0].count() * in[0].element_bytes());
            put(result, clamped(in[0].shape, in[1].shape, in, 2), in[1]);
            return result;
        }
        case Op::concat:
            return concat(expr, in);
        case Op::pad:
            return pad(expr, in[0], in[1]);
        default:
            throw InternalError("no tile operation " + std::string(kpu::kernel::operation(expr.op).name));
    }
}

}  // namespace kpu::values::kernel
