#pragma once
// Arithmetic of the operations of kernels, rule set gpu. A visitor is called with the function of one
// element, so that one definition serves one value and whole columns. Floats come and go canonical
// (isa/kernel/types.hpp).
#include <cmath>
#include <cstdint>
#include <limits>

#include "isa/kernel/operations.hpp"
#include "values/convert.hpp"
#include "values/elementary.hpp"

namespace kpu::values::kernel {

using kpu::kernel::Op;
using kpu::kernel::Type;

/// Returns the register form of a value of a type: u32 words, u64 double words.
inline uint32_t word_of(float value) { return kpu::kernel::canonical(bits_of(value)); }

namespace detail {

template <typename T>
constexpr unsigned width = std::numeric_limits<std::make_unsigned_t<T>>::digits;

template <typename T>
T saturating_add(T a, T b) {
    T sum;
    if (!__builtin_add_overflow(a, b, &sum)) return sum;
    return b < 0 ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
}
template <typename T>
T saturating_sub(T a, T b) {
    T difference;
    if (!__builtin_sub_overflow(a, b, &difference)) return difference;
    return std::is_unsigned_v<T> || b > 0 ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
}
template <typename T>
T saturating_mul(T a, T b) {
    T product;
    if (!__builtin_mul_overflow(a, b, &product)) return product;
    return (a < 0) != (b < 0) ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
}
template <typename T>
T wrapped(std::make_unsigned_t<T> value) {
    return static_cast<T>(value);
}
/// x/0 of unsigned: all ones. Of signed values, the caller has refused what has no quotient.
template <typename T>
T divided(T a, T b) {
    if constexpr (std::is_unsigned_v<T>)
        return b == 0 ? static_cast<T>(~T{0}) : a / b;
    else
        return b == 0 || b == -1 ? wrapped<T>(0 - static_cast<std::make_unsigned_t<T>>(a)) : a / b;
}
template <typename T>
T remainder(T a, T b) {
    if constexpr (std::is_unsigned_v<T>)
        return b == 0 ? 0 : a % b;
    else
        return b == 0 || b == -1 ? 0 : a % b;
}
inline uint64_t high(uint64_t a, uint64_t b) {
    __extension__ typedef unsigned __int128 Wide;
    return static_cast<uint64_t>(static_cast<Wide>(a) * b >> 64);
}
inline uint32_t high(uint32_t a, uint32_t b) { return static_cast<uint32_t>(uint64_t{a} * b >> 32); }
template <typename U>
U reversed(U value) {
    U result = 0;
    for (unsigned i = 0; i < width<U>; ++i)
        result = static_cast<U>(result | (value >> i & 1) << (width<U> - 1 - i));
    return result;
}

/// Operations of integers. False: not one of them.
template <typename T, typename Visitor>
bool visit_integer(Op op, Visitor&& visit) {
    using U = std::make_unsigned_t<T>;
    constexpr unsigned mask = width<T> - 1;
    switch (op) {
        case Op::add:
        case Op::wrapping_add:
            return visit([](T a, T b) { return wrapped<T>(U(a) + U(b)); });
        case Op::sub:
        case Op::wrapping_sub:
            return visit([](T a, T b) { return wrapped<T>(U(a) - U(b)); });
        case Op::mul:
            return visit([](T a, T b) { return wrapped<T>(U(a) * U(b)); });
        case Op::div:
            return visit([](T a, T b) { return divided(a, b); });
        case Op::mod:
            return visit([](T a, T b) { return remainder(a, b); });
        case Op::shl:
            return visit([](T a, T b) { return wrapped<T>(U(a) << (U(b) & mask)); });
        case Op::shr:
            return visit([](T a, T b) { return static_cast<T>(a >> (U(b) & mask)); });
        case Op::bit_and:
            return visit([](T a, T b) { return static_cast<T>(a & b); });
        case Op::bit_or:
            return visit([](T a, T b) { return static_cast<T>(a | b); });
        case Op::bit_xor:
            return visit([](T a, T b) { return static_cast<T>(a ^ b); });
        case Op::min:
            return visit([](T a, T b) { return a < b ? a : b; });
        case Op::max:
            return visit([](T a, T b) { return a < b ? b : a; });
        case Op::abs_diff:
            return visit([](T a, T b) { return a < b ? U(U(b) - U(a)) : U(U(a) - U(b)); });
        case Op::saturating_add:
            return visit([](T a, T b) { return saturating_add(a, b); });
        case Op::saturating_sub:
            return visit([](T a, T b) { return saturating_sub(a, b); });
        case Op::saturating_mul:
            return visit([](T a, T b) { return saturating_mul(a, b); });
        case Op::mul_high:
            return visit([](T a, T b) { return static_cast<T>(high(U(a), U(b))); });
        case Op::rotate_left:
            return visit([](T a, T b) { return wrapped<T>(U(a) << (U(b) & mask) | U(a) >> (-U(b) & mask)); });
        case Op::rotate_right:
            return visit([](T a, T b) { return wrapped<T>(U(a) >> (U(b) & mask) | U(a) << (-U(b) & mask)); });
        default:
            return false;
    }
}

/// Comparisons and logic, for integers and bool.
template <typename T, typename Visitor>
bool visit_logic(Op op, Visitor&& visit) {
    switch (op) {
        case Op::logical_and:
            return visit([](T a, T b) { return uint32_t{a != 0 && b != 0}; });
        case Op::logical_or:
            return visit([](T a, T b) { return uint32_t{a != 0 || b != 0}; });
        case Op::eq:
            return visit([](T a, T b) { return uint32_t{a == b}; });
        case Op::ne:
            return visit([](T a, T b) { return uint32_t{a != b}; });
        case Op::lt:
            return visit([](T a, T b) { return uint32_t{a < b}; });
        case Op::gt:
            return visit([](T a, T b) { return uint32_t{a > b}; });
        case Op::le:
            return visit([](T a, T b) { return uint32_t{a <= b}; });
        case Op::ge:
            return visit([](T a, T b) { return uint32_t{a >= b}; });
        default:
            return false;
    }
}

template <typename Visitor>
bool visit_float(Op op, Visitor&& visit) {
    switch (op) {
        case Op::add:
            return visit([](float a, float b) { return a + b; });
        case Op::sub:
            return visit([](float a, float b) { return a - b; });
        case Op::mul:
            return visit([](float a, float b) { return a * b; });
        case Op::div:
            return visit([](float a, float b) { return a / b; });
        // of equal operands, -0 and +0 too, the second; of a NaN, the other
        case Op::min:
            return visit([](float a, float b) { return a < b || b != b ? a : b; });
        case Op::max:
            return visit([](float a, float b) { return a > b || b != b ? a : b; });
        default:
            return visit_logic<float>(op, visit);
    }
}

inline float rounded(double value) { return f32_of(value); }

/// Functions of binary64, rounded once.
template <typename Visitor>
bool visit_function(Op op, Visitor&& visit) {
    switch (op) {
        case Op::inverse_sqrt:
            return visit([](float a) { return rounded(1.0 / std::sqrt(double{a})); });
        case Op::reciprocal:
            return visit([](float a) { return 1.0F / a; });
        case Op::sin:
            return visit([](float a) { return rounded(elementary::sin(a)); });
        case Op::cos:
            return visit([](float a) { return rounded(elementary::cos(a)); });
        case Op::tan:
            return visit([](float a) { return rounded(elementary::tan(a)); });
        case Op::asin:
            return visit([](float a) { return rounded(elementary::asin(a)); });
        case Op::acos:
            return visit([](float a) { return rounded(elementary::acos(a)); });
        case Op::atan:
            return visit([](float a) { return rounded(elementary::atan(a)); });
        case Op::sinh:
            return visit([](float a) { return rounded(elementary::sinh(a)); });
        case Op::cosh:
            return visit([](float a) { return rounded(elementary::cosh(a)); });
        case Op::tanh:
            return visit([](float a) { return rounded(elementary::tanh(a)); });
        case Op::exp:
            return visit([](float a) { return rounded(elementary::exp(a)); });
        case Op::exp2:
            return visit([](float a) { return rounded(elementary::pow(2.0, a)); });
        case Op::log:
            return visit([](float a) { return rounded(elementary::log(a)); });
        case Op::log2:
            return visit([](float a) { return rounded(elementary::log(a) / 0.69314718055994530942); });
        default:
            return false;
    }
}

template <typename Visitor>
bool visit_float_unary(Op op, Visitor&& visit) {
    switch (op) {
        case Op::negate:
            return visit([](float a) { return -a; });
        case Op::abs:
            return visit([](float a) { return std::fabs(a); });
        case Op::sqrt:
            return visit([](float a) { return std::sqrt(a); });
        case Op::floor:
            return visit([](float a) { return std::floor(a); });
        case Op::ceil:
            return visit([](float a) { return std::ceil(a); });
        case Op::round:
            return visit([](float a) { return std::round(a); });
        case Op::trunc:
            return visit([](float a) { return std::trunc(a); });
        case Op::sign:
            return visit([](float a) { return a > 0 ? 1.0F : a < 0 ? -1.0F : a == 0 ? 0.0F : a; });
        case Op::is_nan:
            return visit([](float a) { return uint32_t{a != a}; });
        case Op::is_inf:
            return visit(
                [](float a) { return uint32_t{std::fabs(a) == std::numeric_limits<float>::infinity()}; });
        case Op::is_finite:
            return visit(
                [](float a) { return uint32_t{std::fabs(a) < std::numeric_limits<float>::infinity()}; });
        default:
            return visit_function(op, visit);
    }
}

template <typename T, typename Visitor>
bool visit_integer_unary(Op op, Visitor&& visit) {
    using U = std::make_unsigned_t<T>;
    switch (op) {
        case Op::negate:
            return visit([](T a) { return wrapped<T>(0 - U(a)); });
        case Op::bit_not:
            return visit([](T a) { return static_cast<T>(~a); });
        case Op::popcount:
            return visit([](T a) { return static_cast<T>(__builtin_popcountll(U(a))); });
        case Op::clz:
            return visit([](T a) {
                return static_cast<T>(a == 0 ? width<T> : __builtin_clzll(U(a)) - (64 - width<T>));
            });
        case Op::ctz:
            return visit([](T a) { return static_cast<T>(a == 0 ? width<T> : __builtin_ctzll(U(a))); });
        case Op::reverse_bits:
            return visit([](T a) { return static_cast<T>(reversed(U(a))); });
        case Op::logical_not:
            return visit([](T a) { return uint32_t{a == 0}; });
        default:
            return false;
    }
}

}  // namespace detail

/// Calls visit(f) with f(a, b) of the operation on that type; false: it is not defined.
template <typename Visitor>
bool visit_binary(Op op, Type type, Visitor&& visit) {
    switch (type) {
        case Type::boolean:
            return detail::visit_logic<uint32_t>(op, visit);
        case Type::u32:
            return detail::visit_integer<uint32_t>(op, visit) || detail::visit_logic<uint32_t>(op, visit);
        case Type::i32:
            return detail::visit_integer<int32_t>(op, visit) || detail::visit_logic<int32_t>(op, visit);
        case Type::u64:
            return detail::visit_integer<uint64_t>(op, visit) || detail::visit_logic<uint64_t>(op, visit);
        case Type::f32:
            return detail::visit_float(op, visit);
        default:
            return false;
    }
}

/// The same with f(a).
template <typename Visitor>
bool visit_unary(Op op, Type type, Visitor&& visit) {
    switch (type) {
        case Type::boolean:
            return op == Op::logical_not && visit([](uint32_t a) { return uint32_t{a == 0}; });
        case Type::u32:
            return detail::visit_integer_unary<uint32_t>(op, visit);
        case Type::i32:
            return detail::visit_integer_unary<int32_t>(op, visit);
        case Type::u64:
            return detail::visit_integer_unary<uint64_t>(op, visit);
        case Type::f32:
            return detail::visit_float_unary(op, visit);
        default:
            return false;
    }
}

/// Registers hold raw bits; what f takes and gives stands in them so.
template <typename T>
T from_bits(uint64_t bits) {
    if constexpr (std::is_same_v<T, float>) return float_of(static_cast<uint32_t>(bits));
    return static_cast<T>(bits);
}
inline uint64_t to_bits(float value) { return word_of(value); }
inline uint64_t to_bits(uint32_t value) { return value; }
inline uint64_t to_bits(int32_t value) { return static_cast<uint32_t>(value); }
inline uint64_t to_bits(uint64_t value) { return value; }

/// i32 quotients that do not exist.
inline bool undefined_quotient(uint64_t a, uint64_t b) {
    const auto divisor = static_cast<int32_t>(b);
    return divisor == 0 || (static_cast<int32_t>(a) == INT32_MIN && divisor == -1);
}

bool truthy(Type type, uint64_t bits);
/// Converts to an index, a bound, an operand of an atomic; false: it has no u32.
bool as_u32(Type type, uint64_t bits, uint32_t& value);
/// The value in the type it is cast to; false: it has none.
bool cast(Type from, Type to, uint64_t bits, uint64_t& value);
/// fma of registers: f32, or a u32 as the bits of one.
inline uint64_t fused(uint64_t a, uint64_t b, uint64_t c) {
    const auto operand = [](uint64_t bits) {
        return float_of(kpu::kernel::canonical(static_cast<uint32_t>(bits)));
    };
    return word_of(std::fma(operand(a), operand(b), operand(c)));
}
/// Returns what an atomic leaves in memory.
uint32_t atomic_result(Op op, uint32_t old, uint32_t value, uint32_t expected);

}  // namespace kpu::values::kernel
