#pragma once

#include <cstdint>
#include <optional>

namespace kpu {

// 64-bit arithmetic of NEM expressions; nothing when the result does not exist or does not fit. The builtins
// of both compilers are used because Boost Safe Numerics reports by exception, which the verifier's hot paths
// do not want.
inline std::optional<int64_t> checked_add(int64_t a, int64_t b) {
    int64_t r;
    if (__builtin_add_overflow(a, b, &r)) return std::nullopt;
    return r;
}
inline std::optional<int64_t> checked_sub(int64_t a, int64_t b) {
    int64_t r;
    if (__builtin_sub_overflow(a, b, &r)) return std::nullopt;
    return r;
}
inline std::optional<int64_t> checked_mul(int64_t a, int64_t b) {
    int64_t r;
    if (__builtin_mul_overflow(a, b, &r)) return std::nullopt;
    return r;
}
/// Truncates toward zero.
inline std::optional<int64_t> checked_div(int64_t a, int64_t b) {
    if (b == 0 || (a == INT64_MIN && b == -1)) return std::nullopt;
    return a / b;
}
/// Divides; operands must not be negative.
inline std::optional<int64_t> checked_mod(int64_t a, int64_t b) {
    if (a < 0 || b <= 0) return std::nullopt;
    return a % b;
}

}  // namespace kpu
