// Reductions and cumulative operations: sums and products of floats in binary64, ascending, rounded once.
#include <cmath>
#include <limits>

#include "values/elementary.hpp"
#include "values/kernel/tiles/tile_float.hpp"

namespace kpu::values::kernel {
namespace {

/// Moves the reduced dimensions to the end.
Tile reduced_last(const TileExpr& expr, const Tile& x, int64_t& length) {
    TileExpr move;
    move.op = Op::transpose;
    std::vector<bool> gone(x.shape.size());
    for (const int64_t d : expr.dims) gone[static_cast<size_t>(d)] = true;
    length = 1;
    for (const bool last : {false, true})
        for (size_t i = 0; i < x.shape.size(); ++i) {
            if (gone[i] != last) continue;
            move.dims.push_back(static_cast<int64_t>(i));
            move.shape.push_back(x.shape[i]);
            if (last) length *= x.shape[i];
        }
    bool moves = false;
    for (size_t i = 0; i < move.dims.size(); ++i) moves |= move.dims[i] != static_cast<int64_t>(i);
    move.type = x.type;
    return moves ? moved_tile(move, {x}) : x;
}

float sum_of(Op op, const float* in, int64_t length) {
    double sum = op == Op::reduce_prod ? 1 : 0;
    for (int64_t i = 0; i < length; ++i) {
        const double value = flushed(in[i]);
        sum = op == Op::reduce_prod ? sum * value : sum + value;
    }
    return settled(sum);
}

float most_of(Op op, const float* in, int64_t length) {
    float most = flushed(in[0]);
    for (int64_t i = 1; i < length; ++i) {
        const float value = flushed(in[i]);
        most = op == Op::reduce_max ? maximum_of(most, value) : minimum_of(most, value);
    }
    return settled(most);
}

template <typename T>
T joined(Op op, T a, T b) {
    switch (op) {
        case Op::reduce_sum:
        case Op::cumulative_sum:
            return static_cast<T>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
        case Op::reduce_prod:
        case Op::cumulative_prod:
            return static_cast<T>(static_cast<unsigned>(a) * static_cast<unsigned>(b));
        case Op::reduce_max:
        case Op::cumulative_max:
            return a < b ? b : a;
        case Op::reduce_min:
        case Op::cumulative_min:
            return b < a ? b : a;
        case Op::reduce_and:
            return static_cast<T>(a & b);
        default:
            return static_cast<T>(a | b);
    }
}

template <typename T>
T start_of(Op op, bool boolean) {
    if (op == Op::reduce_prod || (op == Op::reduce_and && boolean)) return 1;
    return op == Op::reduce_and ? static_cast<T>(~T{0}) : T{0};
}

/// Returns the first NaN, else the first of equals.
template <typename T>
int32_t extreme(Op op, const T* in, int64_t size, int64_t step) {
    int64_t best = 0;
    for (int64_t i = 1; i < size; ++i) {
        const T a = in[i * step], b = in[best * step];
        if (b != b) break;
        if (a != a || (op == Op::argmax ? a > b : a < b)) best = i;
    }
    return static_cast<int32_t>(best);
}

Tile argument(const TileExpr& expr, const Tile& given) {
    Tile x = widened(given);
    if (x.type == Type::f32) {
        Tile flat(Type::f32, x.shape);
        for (size_t i = 0; i < x.count(); ++i) flat.make_as<float>()[i] = flushed(x.as<float>()[i]);
        x = flat;
    }
    Tile result(Type::i32, expr.shape);
    const auto axis = static_cast<size_t>(expr.dims[0]);
    const int64_t size = x.shape[axis], inner = row_major(x.shape)[axis];
    with_storage(x.type, [&](auto zero) {
        using T = decltype(zero);
        for (size_t i = 0; i < result.count(); ++i) {
            const auto at = static_cast<int64_t>(i);
            result.make_as<int32_t>()[i] =
                extreme(expr.op, x.as<T>() + at / inner * inner * size + at % inner, size, inner);
        }
    });
    return result;
}

/// Computes one line of a cumulative operation; `step` is negative from the end.
void cumulate(Op op, const float* in, float* out, int64_t size, int64_t step) {
    double sum = op == Op::cumulative_prod ? 1 : 0;
    float most = 0;
    double top = -HUGE_VAL;  // of logsumexp: the greatest so far, sum counts in its units
    for (int64_t i = 0; i < size; ++i) {
        const float value = flushed(in[i * step]);
        switch (op) {
            case Op::cumulative_sum:
                out[i * step] = settled(sum += double{value});
                break;
            case Op::cumulative_prod:
                out[i * step] = settled(sum *= double{value});
                break;
            case Op::cumulative_logsumexp: {
                const double next = std::isnan(value) ? double{value} : std::max(top, double{value});
                sum = (top == next        ? sum
                       : top == -HUGE_VAL ? 0
                                          : sum * elementary::exp(top - next)) +
                      (value == next ? 1 : elementary::exp(value - next));
                top = next;
                out[i * step] = top == -HUGE_VAL ? -HUGE_VALF : settled(top + elementary::log(sum));
                break;
            }
            default:
                most = i == 0                     ? value
                       : op == Op::cumulative_max ? maximum_of(most, value)
                                                  : minimum_of(most, value);
                out[i * step] = settled(most);
        }
    }
}

template <typename T>
void cumulate(Op op, const T* in, T* out, int64_t size, int64_t step) {
    T so_far = in[0];
    for (int64_t i = 0; i < size; ++i) {
        so_far = i == 0 ? so_far : joined(op, so_far, in[i * step]);
        out[i * step] = so_far;
    }
}

}  // namespace

Tile reduced_tile(const TileExpr& expr, const Tile& given) {
    if (expr.op == Op::argmax || expr.op == Op::argmin) return argument(expr, given);
    if (computes_wide(given.type)) {
        const Tile x = computable(given);
        TileExpr wide = expr;
        wide.type = x.type;
        return computed_in(reduced_tile(wide, x), given.type);
    }
    int64_t length = 1;
    const Tile x = reduced_last(expr, given, length);
    Tile result(expr.type, expr.shape);
    with_storage(x.type, [&](auto zero) {
        using T = decltype(zero);
        const T* in = x.as<T>();
        T* out = result.make_as<T>();
        for (size_t i = 0; i < result.count(); ++i, in += length) {
            if constexpr (std::is_same_v<T, float>) {
                const bool order = expr.op == Op::reduce_max || expr.op == Op::reduce_min;
                out[i] = order ? most_of(expr.op, in, length) : sum_of(expr.op, in, length);
            } else {
                const bool order = expr.op == Op::reduce_max || expr.op == Op::reduce_min;
                T so_far = order ? in[0] : start_of<T>(expr.op, x.type == Type::boolean);
                for (int64_t j = 0; j < length; ++j) so_far = joined(expr.op, so_far, in[j]);
                out[i] = so_far;
            }
        }
    });
    return result;
}

Tile cumulated_tile(const TileExpr& expr, const Tile& given) {
    if (computes_wide(given.type)) {
        const Tile x = computable(given);
        TileExpr wide = expr;
        wide.type = x.type;
        return computed_in(cumulated_tile(wide, x), given.type);
    }
    Tile result(expr.type, expr.shape);
    if (result.count() == 0) return result;
    const auto axis = static_cast<size_t>(expr.dims[0]);
    const int64_t size = given.shape[axis], inner = row_major(given.shape)[axis];
    const bool backwards = expr.dims[1] != 0;
    with_storage(given.type, [&](auto zero) {
        using T = decltype(zero);
        const int64_t lines = static_cast<int64_t>(given.count()) / size;
        for (int64_t line = 0; line < lines; ++line) {
            const int64_t first =
                line / inner * inner * size + line % inner + (backwards ? (size - 1) * inner : 0);
            cumulate(expr.op, given.as<T>() + first, result.make_as<T>() + first, size,
                     backwards ? -inner : inner);
        }
    });
    return result;
}

}  // namespace kpu::values::kernel
