// Operations that move elements to where values say: gather, permute, scatter, roll.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "values/convert.hpp"
#include "values/kernel/tiles/tile.hpp"

namespace kpu::values::kernel {
namespace {

/// Returns the value for an element outside of the operand: NaN, the least of signed, the greatest of
/// unsigned types.
Tile outside_of(Type type) {
    const bool is_float = contains(kpu::kernel::tile_floats, type);
    const float least = contains(kpu::kernel::tile_signed, type) ? -HUGE_VALF : HUGE_VALF;
    return convert_tile(Tile::scalar(Type::f32, is_float ? f32_nan : bits_of(least)), type);
}

bool in_list(const Shape& list, size_t member) {
    return std::find(list.begin(), list.end(), static_cast<int64_t>(member)) != list.end();
}

/// A gather as places: for each index tuple where its slice begins, for each element of a slice its offset.
class Gather {
  public:
    Gather(const TileExpr& expr, const std::vector<Tile>& in)
        : expr_(expr),
          x_(in[0]),
          index_(in[1]),
          lists_(kpu::kernel::lists_of(expr.dims, 1, 6)),
          fills_(expr.dims[0] == 1) {
        fill_ = fills_ ? in[2] : outside_of(x_.type);
        strides_ = row_major(x_.shape);
    }

    Tile run() {
        Tile result(expr_.type, expr_.shape);
        if (result.count() == 0) return result;
        const Shape &offset = lists_[0], &collapsed = lists_[1], &batch = lists_[3], &sizes = lists_[5];
        Shape slice_sizes, slice_strides, slice_to, batch_to;
        const Shape to = row_major(expr_.shape);
        for (size_t i = 0; i < expr_.shape.size(); ++i)
            (in_list(offset, i) ? slice_to : batch_to).push_back(to[i]);
        for (size_t i = 0; i < x_.shape.size(); ++i) {
            if (in_list(collapsed, i) || in_list(batch, i)) continue;
            slice_sizes.push_back(sizes[i]);
            slice_strides.push_back(strides_[i]);
        }
        if (kpu::kernel::elements_of(sizes) == 1 && lists_[2].size() == 1 && index_.type == Type::i32) {
            with_storage(x_.type, [&](auto zero) { take_elements<decltype(zero)>(result, batch_to); });
            return result;
        }
        const unsigned bytes = x_.element_bytes();
        const Shape batch_shape(index_.shape.begin(), index_.shape.end() - 1), zeros(slice_sizes.size(), 0);
        Shape at(batch_shape.size(), 0);
        for (int64_t tuple = 0; tuple < kpu::kernel::elements_of(batch_shape); ++tuple) {
            int64_t place = 0;
            for (size_t i = 0; i < at.size(); ++i) place += at[i] * batch_to[i];
            int64_t from = 0;
            const bool inside = start_of(tuple, at, from);
            copy_strided(result.make() + place * bytes, slice_to,
                         inside ? x_.bytes() + from * bytes : fill_.bytes(), inside ? slice_strides : zeros,
                         slice_sizes, bytes);
            for (size_t i = at.size(); i-- > 0;) {
                if (++at[i] < batch_shape[i]) break;
                at[i] = 0;
            }
        }
        return result;
    }

  private:
    /// Slices of one element at one index, as take_along_axis makes them: rows of the index by a plain loop.
    template <typename T>
    void take_elements(Tile& result, const Shape& to) const {
        const Shape &batch = lists_[3], &index_batch = lists_[4];
        const auto d = static_cast<size_t>(lists_[2][0]);
        const int64_t most = x_.shape[d] - 1, stride = strides_[d];
        const size_t rank = index_.shape.size() - 1;
        Shape from(rank, 0), at(rank, 0);
        for (size_t i = 0; i < batch.size(); ++i)
            from[static_cast<size_t>(index_batch[i])] = strides_[static_cast<size_t>(batch[i])];
        const int64_t row = rank == 0 ? 1 : index_.shape[rank - 1];
        const int64_t from_step = rank == 0 ? 0 : from[rank - 1], to_step = rank == 0 ? 0 : to[rank - 1];
        const auto* index = index_.as<int32_t>();
        const T* in = x_.as<T>();
        const T outside = fill_.as<T>()[0];
        T* out = result.make_as<T>();
        for (const int32_t* end = index + index_.count(); index < end; index += row) {
            for (int64_t j = 0; j < row; ++j) {
                const int64_t value = index[j], place = std::clamp<int64_t>(value, 0, most);
                const T taken = in[place * stride + j * from_step];
                out[j * to_step] = fills_ && value != place ? outside : taken;
            }
            for (size_t i = rank; i-- > 1;) {  // the next row
                in += from[i - 1], out += to[i - 1];
                if (++at[i - 1] < index_.shape[i - 1]) break;
                in -= from[i - 1] * at[i - 1], out -= to[i - 1] * at[i - 1];
                at[i - 1] = 0;
            }
        }
    }

    /// False: the slice is not all inside, and the mode is to fill.
    bool start_of(int64_t tuple, const Shape& at, int64_t& from) const {
        const Shape &start = lists_[2], &batch = lists_[3], &index_batch = lists_[4], &sizes = lists_[5];
        for (size_t i = 0; i < start.size(); ++i) {
            const auto d = static_cast<size_t>(start[i]);
            int64_t value = integer_of(index_, static_cast<size_t>(tuple) * start.size() + i);
            const int64_t most = x_.shape[d] - sizes[d];
            if (fills_ && (value < 0 || value > most)) return false;
            value = std::clamp<int64_t>(value, 0, most);
            from += value * strides_[d];
        }
        for (size_t i = 0; i < batch.size(); ++i)
            from += at[static_cast<size_t>(index_batch[i])] * strides_[static_cast<size_t>(batch[i])];
        return true;
    }

    const TileExpr& expr_;
    const Tile &x_, &index_;
    const std::vector<Shape> lists_;
    const bool fills_;
    Tile fill_;
    Shape strides_;
};

/// Outer, along and inner sizes of a dimension of a row-major tile.
struct Axis {
    Axis(const Shape& shape, int64_t axis) : size(shape[static_cast<size_t>(axis)]) {
        for (size_t i = 0; i < shape.size(); ++i)
            (static_cast<int64_t>(i) < axis ? outer : inner) *=
                static_cast<int64_t>(i) == axis ? 1 : shape[i];
    }
    int64_t outer = 1, size = 1, inner = 1;
};

Tile permute(const TileExpr& expr, const Tile& x, const Tile& index) {
    Tile result(expr.type, expr.shape);
    const Axis from(x.shape, expr.dims[0]), to(expr.shape, expr.dims[0]);
    const auto* places = index.as<int32_t>();
    with_storage(x.type, [&](auto zero) {
        using T = decltype(zero);
        const T* in = x.as<T>();
        T* out = result.make_as<T>();
        for (int64_t o = 0; o < to.outer; ++o)
            for (int64_t j = 0; j < to.size; ++j)
                for (int64_t i = 0; i < to.inner; ++i) {
                    const int64_t at = (o * to.size + j) * to.inner + i;
                    const int64_t place = places[at];
                    if (place < 0 || place >= from.size)
                        throw TileFault(
                            fmt::format("index {} is outside of a dimension of {}. Fix: keep indices inside.",
                                        place, from.size));
                    out[at] = in[(o * from.size + place) * from.inner + i];
                }
    });
    return result;
}

Tile scatter(const Tile& x, const Tile& index, const Tile& values) {
    Tile result(x.type, x.shape);
    std::memcpy(result.make(), x.bytes(), x.count() * x.element_bytes());
    const unsigned bytes = x.element_bytes();
    for (size_t i = 0; i < index.count(); ++i) {
        const int64_t place = integer_of(index, i);
        if (place < 0 || place >= static_cast<int64_t>(x.count()))
            throw TileFault("an index outside of the tile. Fix: keep indices inside.");
        std::memcpy(result.make() + static_cast<size_t>(place) * bytes, values.bytes() + i * bytes, bytes);
    }
    return result;
}

Tile roll(const TileExpr& expr, const Tile& x, int64_t shift) {
    Tile result(expr.type, expr.shape);
    if (x.count() == 0) return result;
    const Axis axis(x.shape, expr.dims[0]);
    const int64_t step = expr.dims[1];
    const Axis along(x.shape, expr.dims[2]);
    with_storage(x.type, [&](auto zero) {
        using T = decltype(zero);
        const T* in = x.as<T>();
        T* out = result.make_as<T>();
        for (int64_t o = 0; o < axis.outer; ++o)
            for (int64_t j = 0; j < axis.size; ++j)
                for (int64_t i = 0; i < axis.inner; ++i) {
                    const int64_t at = (o * axis.size + j) * axis.inner + i;
                    const int64_t row = at / along.inner % along.size;
                    int64_t from = (j - shift - row * step) % axis.size;
                    if (from < 0) from += axis.size;
                    out[at] = in[(o * axis.size + from) * axis.inner + i];
                }
    });
    return result;
}

}  // namespace

Tile gathered_tile(const TileExpr& expr, const std::vector<Tile>& in) {
    switch (expr.op) {
        case Op::permute:
            return permute(expr, in[0], in[1]);
        case Op::scatter:
            return scatter(in[0], in[1], in[2]);
        case Op::roll:
            return roll(expr, in[0], integer_of(in[1]));
        default:
            return Gather(expr, in).run();
    }
}

}  // namespace kpu::values::kernel
