// Element-wise operations with two operands, and select.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/diagnostics.hpp"
#include "values/elementary.hpp"
#include "values/kernel/columns.hpp"
#include "values/kernel/tiles/tile_float.hpp"

namespace kpu::values::kernel {
namespace {

/// f of each pair; a scalar stands beside every element of the other. It is repeated in a short column, so that one loop
/// serves both: loops for scalars too would take three times as long to compile.
template <typename T, typename R, typename F>
void pairs(const Tile& a, const Tile& b, Tile& result, F f) {
    const size_t count = result.count();
    const bool whole_a = a.count() == count, whole_b = b.count() == count;
    std::array<T, 512> repeated;
    const size_t piece = whole_a && whole_b ? count : std::min(count, repeated.size());
    if (!whole_a || !whole_b) std::fill_n(repeated.data(), piece, whole_a ? b.as<T>()[0] : a.as<T>()[0]);
    R* all = result.make_as<R>();
    for (size_t at = 0; at < count; at += piece) {
        const T* left = whole_a ? a.as<T>() + at : repeated.data();
        const T* right = whole_b ? b.as<T>() + at : repeated.data();
        R* out = all + at;
        each(std::min(piece, count - at), [=](size_t i) { out[i] = static_cast<R>(f(left[i], right[i])); });
    }
}

template <typename T, typename Loop>
bool compare(Op op, Loop&& loop) {
    switch (op) {
        case Op::eq:
            return loop([](T a, T b) { return a == b; });
        case Op::ne:
            return loop([](T a, T b) { return a != b; });
        case Op::lt:
            return loop([](T a, T b) { return a < b; });
        case Op::gt:
            return loop([](T a, T b) { return a > b; });
        case Op::le:
            return loop([](T a, T b) { return a <= b; });
        case Op::ge:
            return loop([](T a, T b) { return a >= b; });
        default:
            return false;
    }
}

template <typename T>
T quotient(T a, T b) {
    if (b == 0) return static_cast<T>(~T{0});
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return static_cast<T>(0u - static_cast<unsigned>(a));
    return static_cast<T>(a / b);
}
template <typename T>
T rest(T a, T b) {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
}

/// The amount is unsigned; beyond the width everything is shifted out.
template <typename T>
T shifted(Op op, T a, T b) {
    using U = std::make_unsigned_t<T>;
    constexpr unsigned width = 8 * sizeof(T);
    const U amount = static_cast<U>(b);
    if (op == Op::shr) {
        const auto value = static_cast<std::make_signed_t<T>>(a);
        return static_cast<T>(value >> (amount < width ? amount : width - 1));
    }
    if (amount >= width) return 0;
    const auto value = static_cast<U>(a);
    return static_cast<T>(op == Op::shl ? static_cast<U>(uint64_t{value} << amount)
                                        : static_cast<U>(value >> amount));
}

template <typename T, typename Loop>
bool compute_integers(Op op, Loop&& loop) {
    using U = std::make_unsigned_t<T>;
    switch (op) {
        case Op::add:
            return loop(
                [](T a, T b) { return static_cast<T>(unsigned{static_cast<U>(a)} + static_cast<U>(b)); });
        case Op::sub:
            return loop(
                [](T a, T b) { return static_cast<T>(unsigned{static_cast<U>(a)} - static_cast<U>(b)); });
        case Op::mul:
            return loop(
                [](T a, T b) { return static_cast<T>(unsigned{static_cast<U>(a)} * static_cast<U>(b)); });
        case Op::div:
            return loop([](T a, T b) { return quotient(a, b); });
        case Op::mod:
            return loop([](T a, T b) { return rest(a, b); });
        case Op::pow:
            return loop([](T a, T b) {
                auto power = unsigned{1}, base = static_cast<unsigned>(a);
                for (auto n = static_cast<U>(b); n > 0; n = static_cast<U>(n >> 1), base *= base)
                    if (n & 1) power *= base;
                return static_cast<T>(power);
            });
        case Op::min:
            return loop([](T a, T b) { return a < b ? a : b; });
        case Op::max:
            return loop([](T a, T b) { return a < b ? b : a; });
        case Op::bit_and:
        case Op::logical_and:
            return loop([](T a, T b) { return static_cast<T>(a & b); });
        case Op::bit_or:
        case Op::logical_or:
            return loop([](T a, T b) { return static_cast<T>(a | b); });
        case Op::bit_xor:
            return loop([](T a, T b) { return static_cast<T>(a ^ b); });
        case Op::shl:
        case Op::shr:
        case Op::shr_logical:
            return loop([op](T a, T b) { return shifted(op, a, b); });
        default:
            return false;
    }
}

float next_after(float from, float to) {
    if (from != from || to != to) return float_of(f32_nan);
    if (from == to) return to;
    const uint32_t bits = bits_of(from);
    if (from == 0) return float_of((bits_of(to) & 0x80000000u) | 1);
    const bool away = (from < to) == (from > 0);
    return float_of(away ? bits + 1 : bits - 1);
}

/// Returns the same among the numbers of a type of 16 bits.
Tile next_after_narrow(const Tile& a, const Tile& b) {
    Tile result(a.type, a.shape.empty() ? b.shape : a.shape);
    const Tile wide_a = widened(a), wide_b = widened(b);
    const float *from = wide_a.as<float>(), *to = wide_b.as<float>();
    const uint16_t *from_bits = a.as<uint16_t>(), *to_bits = b.as<uint16_t>();
    const size_t count = result.count(), a_step = a.count() == count, b_step = b.count() == count;
    uint16_t* out = result.make_as<uint16_t>();
    for (size_t i = 0; i < count; ++i) {
        const float x = from[i * a_step], y = to[i * b_step];
        const unsigned bits = from_bits[i * a_step], other = to_bits[i * b_step];
        const unsigned next = x != x || y != y     ? (a.type == Type::f16 ? 0x7e00u : 0x7fc0u)
                              : x == y             ? other
                              : x == 0             ? (other & 0x8000u) | 1
                              : (x < y) == (x > 0) ? bits + 1
                                                   : bits - 1;
        out[i] = static_cast<uint16_t>(next);
    }
    return result;
}

template <typename Loop>
bool compute_floats(Op op, Loop&& loop) {
    switch (op) {
        case Op::add:
            return loop([](float a, float b) { return settled(flushed(a) + flushed(b)); });
        case Op::sub:
            return loop([](float a, float b) { return settled(flushed(a) - flushed(b)); });
        case Op::mul:
            return loop([](float a, float b) { return settled(flushed(a) * flushed(b)); });
        case Op::div:
            return loop([](float a, float b) { return settled(flushed(a) / flushed(b)); });
        case Op::mod:
            return loop([](float a, float b) { return settled(std::fmod(flushed(a), flushed(b))); });
        case Op::min:
            return loop([](float a, float b) { return settled(minimum_of(flushed(a), flushed(b))); });
        case Op::max:
            return loop([](float a, float b) { return settled(maximum_of(flushed(a), flushed(b))); });
        case Op::pow:
            return loop([](float a, float b) { return settled(elementary::pow(flushed(a), flushed(b))); });
        case Op::atan2:
            return loop([](float a, float b) { return settled(elementary::atan2(flushed(a), flushed(b))); });
        case Op::next_after:
            return loop([](float a, float b) { return next_after(a, b); });
        default:
            return false;
    }
}

bool compares(Op op) {
    return op == Op::eq || op == Op::ne || op == Op::lt || op == Op::gt || op == Op::le || op == Op::ge;
}

}  // namespace

Tile binary_tile(Op op, const Tile& a, const Tile& b) {
    if (computes_wide(a.type)) {
        if (op == Op::next_after) return next_after_narrow(a, b);
        const auto operand = [op](const Tile& x) {
            if (!contains(kpu::kernel::tile_nibbles, x.type)) return widened(x);
            // shifts to the right fill from the sign bit of the type, or with zeros, whatever its sign
            const unsigned bits = kpu::kernel::storage_bits(x.type);
            if (op == Op::shr) return computable(convert_tile(x, bits == 4 ? Type::i4 : Type::i2));
            if (op == Op::shr_logical) return computable(convert_tile(x, bits == 4 ? Type::u4 : Type::u2));
            return computable(x);
        };
        const Tile wide = binary_tile(op, operand(a), operand(b));
        return wide.type == Type::boolean ? wide : computed_in(wide, a.type);
    }
    Tile result(compares(op) ? Type::boolean : a.type, a.shape.empty() ? b.shape : a.shape);
    bool known = false;
    with_storage(a.type, [&](auto zero) {
        using T = decltype(zero);
        if constexpr (std::is_same_v<T, float>) {
            known = compare<float>(op, [&](auto f) {
                pairs<float, uint8_t>(a, b, result,
                                      [f](float x, float y) { return f(flushed(x), flushed(y)); });
                return true;
            });
            known = known ||
                    compute_floats(op, [&](auto f) { return pairs<float, float>(a, b, result, f), true; });
        } else {
            known = compare<T>(op, [&](auto f) { return pairs<T, uint8_t>(a, b, result, f), true; });
            known =
                known || compute_integers<T>(op, [&](auto f) { return pairs<T, T>(a, b, result, f), true; });
        }
    });
    if (!known) throw InternalError("no tile operation " + std::string(kpu::kernel::operation(op).name));
    return result;
}

Tile select_tile(const Tile& condition, const Tile& yes, const Tile& no) {
    if (condition.count() == 1 && yes.shape == no.shape) return condition.bytes()[0] != 0 ? yes : no;
    const Shape& shape = !condition.shape.empty() ? condition.shape
                         : !yes.shape.empty()     ? yes.shape
                                                  : no.shape;
    Tile result(yes.type, shape);
    const size_t count = result.count(), c_step = condition.count() == count, a_step = yes.count() == count,
                 b_step = no.count() == count;
    const uint8_t* c = condition.bytes();
    with_storage(yes.type, [&](auto zero) {
        using T = decltype(zero);
        const T *a = yes.as<T>(), *b = no.as<T>();
        T* out = result.make_as<T>();
        if (c_step + a_step + b_step == 3)
            each(count, [=](size_t i) { out[i] = c[i] != 0 ? a[i] : b[i]; });
        else
            for (size_t i = 0; i < count; ++i) out[i] = c[i * c_step] != 0 ? a[i * a_step] : b[i * b_step];
    });
    return result;
}

}  // namespace kpu::values::kernel
