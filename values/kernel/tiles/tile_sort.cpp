// sort, sort_index and dot.
#include <algorithm>
#include <numeric>

#include "values/compute.hpp"
#include "values/kernel/columns.hpp"
#include "values/kernel/tiles/tile_float.hpp"

namespace kpu::values::kernel {
namespace {

/// Returns an integer in the order of the values: of floats all NaN last, zeros and subnormals equal.
Tile ordered(const Tile& tile) {
    const Tile x = widened(tile);
    Tile keys(Type::i32, x.shape);
    auto* out = keys.make_as<int32_t>();
    for (size_t i = 0; i < x.count(); ++i) {
        if (x.type == Type::f32) {
            const float value = flushed(x.as<float>()[i]);
            const auto bits = static_cast<int32_t>(bits_of(value));
            out[i] = value != value ? INT32_MAX : value == 0 ? 0 : bits < 0 ? bits ^ INT32_MAX : bits;
        } else {
            const int64_t value = integer_of(x, i);
            out[i] = static_cast<int32_t>(x.type == Type::u32 ? value + INT32_MIN : value);
        }
    }
    return keys;
}

Tile sort_index(const std::vector<Tile>& keys, int64_t dimension, bool descending) {
    const Shape& shape = keys[0].shape;
    Tile result(Type::i32, shape);
    if (result.count() == 0) return result;
    std::vector<Tile> orders;
    for (const Tile& key : keys) orders.push_back(ordered(key));
    const auto axis = static_cast<size_t>(dimension);
    const int64_t size = shape[axis], inner = row_major(shape)[axis];
    std::vector<int32_t> places(static_cast<size_t>(size));
    for (int64_t line = 0; line < static_cast<int64_t>(result.count()) / size; ++line) {
        const int64_t first = line / inner * inner * size + line % inner;
        std::iota(places.begin(), places.end(), 0);
        std::stable_sort(places.begin(), places.end(), [&](int32_t a, int32_t b) {
            for (const Tile& order : orders) {
                const int32_t x = order.as<int32_t>()[first + a * inner],
                              y = order.as<int32_t>()[first + b * inner];
                if (x != y) return descending ? x > y : x < y;
            }
            return false;
        });
        for (int64_t i = 0; i < size; ++i)
            result.make_as<int32_t>()[first + i * inner] = places[static_cast<size_t>(i)];
    }
    return result;
}

/// Brings an operand of a product to [batch, free, contracted], or [batch, contracted, free].
Tile arranged(const Tile& x, const Shape& batch, const Shape& contract, bool contracted_last, Shape& sizes) {
    TileExpr move;
    move.op = Op::transpose;
    move.type = x.type;
    std::vector<bool> taken(x.shape.size());
    for (const Shape* list : {&batch, &contract})
        for (const int64_t d : *list) taken[static_cast<size_t>(d)] = true;
    Shape free;
    for (size_t i = 0; i < x.shape.size(); ++i)
        if (!taken[i]) free.push_back(static_cast<int64_t>(i));
    sizes.assign(3, 1);
    size_t group = 0;
    for (const Shape* list :
         {&batch, contracted_last ? &free : &contract, contracted_last ? &contract : &free}) {
        for (const int64_t d : *list) {
            move.dims.push_back(d);
            move.shape.push_back(x.shape[static_cast<size_t>(d)]);
            sizes[group] *= move.shape.back();
        }
        ++group;
    }
    bool moves = false;
    for (size_t i = 0; i < move.dims.size(); ++i) moves |= move.dims[i] != static_cast<int64_t>(i);
    return moves ? moved_tile(move, {x}) : x;
}

Tile flushed_tile(const Tile& x) {
    const auto* bits = x.as<uint32_t>();
    uint32_t subnormals = 0;  // counted to the end, which is vectorised
    for (size_t i = 0; i < x.count(); ++i)
        subnormals += static_cast<uint32_t>((bits[i] & 0x7f800000u) == 0) &
                      static_cast<uint32_t>((bits[i] & 0x7fffffffu) != 0);
    if (subnormals == 0) return x;
    const float* in = x.as<float>();
    Tile result(Type::f32, x.shape);
    auto* out = result.make_as<float>();
    each(x.count(), [=](size_t i) { out[i] = flushed(in[i]); });
    return result;
}

void multiply_floats(const Tile& a, const Tile& b, Tile& result, int64_t batch, int64_t m, int64_t k,
                     int64_t n) {
    static thread_local const std::unique_ptr<ComputeBackend> backend = make_fast_backend();
    static const OpcodeId gemm = *find_opcode("gemm");
    const auto tensor = [](const Tile& tile, std::initializer_list<int64_t> shape) {
        Tensor made;
        made.type = ElemType::f32;
        for (const int64_t size : shape) made.shape.v[static_cast<size_t>(made.shape.rank++)] = size;
        made.data = const_cast<uint8_t*>(tile.bytes());
        return made;
    };
    backend->execute(gemm, {tensor(a, {batch, m, k}), tensor(b, {batch, k, n})},
                     {tensor(result, {batch, m, n})}, {});
    float* out = result.make_as<float>();
    each(result.count(), [=](size_t i) { out[i] = settled(out[i]); });
}

void multiply_integers(const Tile& a, const Tile& b, Tile& result, int64_t batch, int64_t m, int64_t k,
                       int64_t n) {
    const auto *left = a.as<uint32_t>(), *right = b.as<uint32_t>();
    auto* out = result.make_as<uint32_t>();
    std::fill_n(out, result.count(), 0u);
    for (int64_t row = 0; row < batch * m; ++row)
        for (int64_t i = 0; i < k; ++i) {
            const uint32_t factor = left[row * k + i];
            const uint32_t* line = right + (row / m * k + i) * n;
            uint32_t* sums = out + row * n;
            each(static_cast<size_t>(n), [=](size_t j) { sums[j] += factor * line[j]; });
        }
}

}  // namespace

Tile sorted_tile(const TileExpr& expr, const std::vector<Tile>& keys) {
    const Tile index = sort_index(keys, expr.dims[0], expr.op == Op::sort_index && expr.dims[1] != 0);
    if (expr.op == Op::sort_index) return index;
    TileExpr take = expr;
    take.op = Op::permute;
    return gathered_tile(take, {keys[0], index});
}

Tile dot_tile(const TileExpr& expr, const Tile& a, const Tile& b) {
    const std::vector<Shape> lists = kpu::kernel::lists_of(expr.dims, 0, 4);
    const bool real = kpu::kernel::contains(kpu::kernel::tile_floats, a.type);
    const auto prepared = [&](const Tile& x) {
        return real ? flushed_tile(widened(x)) : convert_tile(x, Type::i32);
    };
    Shape left, right;
    const Tile x = arranged(prepared(a), lists[2], lists[0], true, left);
    const Tile y = arranged(prepared(b), lists[3], lists[1], false, right);
    Tile result(real ? Type::f32 : Type::i32, expr.shape);
    const int64_t batch = left[0], m = left[1], k = left[2], n = right[2];
    if (real && k > 0 && result.count() > 0)
        multiply_floats(x, y, result, batch, m, k, n);
    else if (real)
        std::fill_n(result.make_as<float>(), result.count(), 0.0F);
    else
        multiply_integers(x, y, result, batch, m, k, n);
    return computed_in(result, expr.type);
}

}  // namespace kpu::values::kernel
