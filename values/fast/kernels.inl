// The kernels of one instruction set; included by one source per set, which defines `Lanes`:
//   Float, Int: vector types; f32_vectors, i32_vectors: vectors per tile row; rows: rows of a tile;
//   load/store/broadcast/fma, madd (pairs of i16 to i32) and add.
// Loops over arrays are written so that the compiler vectorises them.
#include <cstdint>

#include "values/fast/kernels.hpp"

namespace kpu::values::fast {
namespace {

constexpr double huge = 0x1p40;  // beyond every integer type, within exact rounding
constexpr double largest_real = 0x1.fffffffffffffp1023;
constexpr double round_magic = 0x1.8p52;  // adding and subtracting it rounds to an integer, half to even

inline uint32_t bits32(float value) {
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}
inline float float32(uint32_t bits) {
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

template <int Rows>
void f32_rows(int64_t k, const float* a, int64_t lda, const float* b, float* acc, int64_t ld_acc) {
    typename Lanes::Float sum[Rows][Lanes::f32_vectors];
    for (int r = 0; r < Rows; ++r) {
        for (int v = 0; v < Lanes::f32_vectors; ++v) {
            sum[r][v] = Lanes::load(acc + r * ld_acc + v * Lanes::f32_width);
        }
    }
    for (int64_t i = 0; i < k; ++i) {
        typename Lanes::Float right[Lanes::f32_vectors];
        for (int v = 0; v < Lanes::f32_vectors; ++v) {
            right[v] = Lanes::load(b + (i * Lanes::f32_vectors + v) * Lanes::f32_width);
        }
        for (int r = 0; r < Rows; ++r) {
            const auto left = Lanes::broadcast(a[r * lda + i]);
            for (int v = 0; v < Lanes::f32_vectors; ++v) sum[r][v] = Lanes::fma(left, right[v], sum[r][v]);
        }
    }
    for (int r = 0; r < Rows; ++r) {
        for (int v = 0; v < Lanes::f32_vectors; ++v) {
            Lanes::store(acc + r * ld_acc + v * Lanes::f32_width, sum[r][v]);
        }
    }
}

inline int32_t pair_at(const int16_t* at) {
    int32_t pair;
    __builtin_memcpy(&pair, at, sizeof pair);
    return pair;
}

template <int Rows>
void i16_rows(int64_t k2, const int16_t* a, int64_t lda, const int16_t* b, uint32_t* acc, int64_t ld_acc) {
    typename Lanes::Int sum[Rows][Lanes::i32_vectors];
    for (int r = 0; r < Rows; ++r) {
        for (int v = 0; v < Lanes::i32_vectors; ++v) {
            sum[r][v] = Lanes::load_int(acc + r * ld_acc + v * Lanes::i32_width);
        }
    }
    for (int64_t i = 0; i < k2; ++i) {
        typename Lanes::Int right[Lanes::i32_vectors];
        for (int v = 0; v < Lanes::i32_vectors; ++v) {
            right[v] = Lanes::load_int(b + (i * Lanes::i32_vectors + v) * Lanes::i32_width * 2);
        }
        for (int r = 0; r < Rows; ++r) {
            const auto left = Lanes::broadcast_int(pair_at(a + r * lda + 2 * i));
            for (int v = 0; v < Lanes::i32_vectors; ++v) sum[r][v] = Lanes::madd(left, right[v], sum[r][v]);
        }
    }
    for (int r = 0; r < Rows; ++r) {
        for (int v = 0; v < Lanes::i32_vectors; ++v) {
            Lanes::store_int(acc + r * ld_acc + v * Lanes::i32_width, sum[r][v]);
        }
    }
}

template <int Rows>
void f32_up_to(int rows, int64_t k, const float* a, int64_t lda, const float* b, float* acc, int64_t ld_acc) {
    if (rows == Rows) return f32_rows<Rows>(k, a, lda, b, acc, ld_acc);
    if constexpr (Rows > 1) f32_up_to<Rows - 1>(rows, k, a, lda, b, acc, ld_acc);
}
void f32_tile(int rows, int64_t k, const float* a, int64_t lda, const float* b, float* acc, int64_t ld_acc) {
    f32_up_to<Lanes::rows>(rows, k, a, lda, b, acc, ld_acc);
}
/// Whole tiles at the full number of rows, the rest row by row.
void i16_tile(int rows, int64_t k2, const int16_t* a, int64_t lda, const int16_t* b, uint32_t* acc,
              int64_t ld_acc) {
    if (rows == Lanes::rows) return i16_rows<Lanes::rows>(k2, a, lda, b, acc, ld_acc);
    int r = 0;
    for (; r + 4 <= rows; r += 4) i16_rows<4>(k2, a + r * lda, lda, b, acc + r * ld_acc, ld_acc);
    for (; r < rows; ++r) i16_rows<1>(k2, a + r * lda, lda, b, acc + r * ld_acc, ld_acc);
}

void f32_of_bf16(const uint16_t* from, float* to, int64_t count) {
    for (int64_t i = 0; i < count; ++i) to[i] = float32(static_cast<uint32_t>(from[i]) << 16);
}

void bf16_of_f32(const float* from, uint16_t* to, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        const uint32_t bits = bits32(from[i]);
        const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
        to[i] = static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
    }
}

void canonical_f32(const float* from, float* to, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        const uint32_t bits = bits32(from[i]);
        to[i] = float32((bits & 0x7fffffff) > 0x7f800000 ? 0x7fc00000 : bits);
    }
}

void odd_f32_of_f64(const double* from, float* to, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        const auto nearest = static_cast<float>(from[i]);
        const auto back = static_cast<double>(nearest);
        const uint32_t bits = bits32(nearest);
        // truncated: one step back where rounding went away from zero; then the last bit says "inexact"
        const uint32_t away = __builtin_fabs(back) > __builtin_fabs(from[i]) ? 1 : 0;
        const bool keep = back == from[i] || from[i] != from[i];
        to[i] = float32(keep ? bits : (bits - away) | 1);
    }
}

void f32_of_f64(const double* from, float* to, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        const uint32_t bits = bits32(static_cast<float>(from[i]));
        to[i] = float32((bits & 0x7fffffff) > 0x7f800000 ? 0x7fc00000 : bits);
    }
}

uint32_t largest_magnitude(const float* from, int64_t count) {
    int32_t most = 0;  // signed: every instruction set compares these
    for (int64_t i = 0; i < count; ++i) {
        const auto bits = static_cast<int32_t>(bits32(from[i]) & 0x7fffffff);
        most = bits > most ? bits : most;
    }
    return static_cast<uint32_t>(most);
}

/// Not yet clamped.
inline double rounded(double value, double zero) {
    value = value < -huge ? -huge : value;
    value = value > huge ? huge : value;
    value = (value + round_magic) - round_magic;
    return value + zero;
}
inline int32_t clamped(double value, double low, double high) {
    value = value < low ? low : value;
    value = value > high ? high : value;
    return static_cast<int32_t>(value);
}

void requantize(const int32_t* acc, const double* multiplier, const double* zero, double low, double high,
                int32_t* to, int64_t count, Outside& outside) {
    int64_t below = 0, above = 0;
    for (int64_t i = 0; i < count; ++i) {
        const double value = rounded(static_cast<double>(acc[i]) * multiplier[i], zero[i]);
        below += value < low ? 1 : 0;
        above += value > high ? 1 : 0;
        to[i] = clamped(value, low, high);
    }
    outside.below += below;
    outside.above += above;
}

void quantize(const double* value, double zero, double low, double high, int32_t* to, int64_t count,
              Outside& outside) {
    int64_t below = 0, above = 0;
    for (int64_t i = 0; i < count; ++i) {
        const double number = value[i] == value[i] ? value[i] : 0.0;
        const double step = rounded(number, zero);
        const double counted = __builtin_fabs(number) <= largest_real ? step : zero;
        below += counted < low ? 1 : 0;
        above += counted > high ? 1 : 0;
        to[i] = clamped(step, low, high);
    }
    outside.below += below;
    outside.above += above;
}

void from_f32_steps(double* value, double zero, double scale, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
        value[i] = static_cast<double>(static_cast<float>((value[i] - zero) * scale));
}
void to_f32_steps(double* value, double scale, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        const auto number = static_cast<double>(static_cast<float>(value[i]));
        value[i] = static_cast<double>(static_cast<float>(number / scale));
    }
}
void dequantize(double* value, double zero, double scale, int64_t count) {
    for (int64_t i = 0; i < count; ++i) value[i] = (value[i] - zero) * scale;
}
void divide(double* value, double divisor, int64_t count) {
    for (int64_t i = 0; i < count; ++i) value[i] = value[i] / divisor;
}
void multiply(double* value, double factor, int64_t count) {
    for (int64_t i = 0; i < count; ++i) value[i] = value[i] * factor;
}
void multiply_each(double* value, const double* factor, int64_t count) {
    for (int64_t i = 0; i < count; ++i) value[i] = value[i] * factor[i];
}
void add(double* value, const double* other, int64_t count) {
    for (int64_t i = 0; i < count; ++i) value[i] = value[i] + other[i];
}

void subtract(double* value, const double* other, int64_t count) {
    for (int64_t i = 0; i < count; ++i) value[i] = value[i] - other[i];
}
void divide_each(double* value, const double* other, int64_t count) {
    for (int64_t i = 0; i < count; ++i) value[i] = value[i] / other[i];
}
void absolute(double* value, int64_t count) {
    for (int64_t i = 0; i < count; ++i) value[i] = __builtin_fabs(value[i]);
}
void negate(double* value, int64_t count) {
    for (int64_t i = 0; i < count; ++i) value[i] = -value[i];
}
void truncate(double* value, int64_t count) {
    for (int64_t i = 0; i < count; ++i) value[i] = __builtin_trunc(value[i]);
}
void square_root(double* value, int64_t count) {
    for (int64_t i = 0; i < count; ++i) value[i] = __builtin_sqrt(value[i]);
}
void leaky(double* value, double alpha, int64_t count) {
    for (int64_t i = 0; i < count; ++i) value[i] = value[i] < 0 ? alpha * value[i] : value[i];
}

/// value = function(value, other), whole vectors at a time; the last one is filled up with ones.
template <class Function>
inline void map_real(double* value, const double* other, int64_t count, Function function) {
    constexpr int64_t width = Lanes::f64_width;
    int64_t i = 0;
    for (; i + width <= count; i += width) {
        Lanes::store_real(value + i, function(Lanes::load_real(value + i), Lanes::load_real(other + i)));
    }
    if (i == count) return;
    double a[width], b[width];
    for (int64_t j = 0; j < width; ++j) a[j] = b[j] = 1;
    for (int64_t j = i; j < count; ++j) {
        a[j - i] = value[j];
        b[j - i] = other[j];
    }
    Lanes::store_real(a, function(Lanes::load_real(a), Lanes::load_real(b)));
    for (int64_t j = i; j < count; ++j) value[j] = a[j - i];
}

using RealLanes = typename Lanes::Real;
void exp(double* value, int64_t count) {
    map_real(value, value, count, [](RealLanes v, RealLanes) { return Lanes::exp(v); });
}
void log(double* value, int64_t count) {
    map_real(value, value, count, [](RealLanes v, RealLanes) { return Lanes::log(v); });
}
void tanh(double* value, int64_t count) {
    map_real(value, value, count, [](RealLanes v, RealLanes) { return Lanes::tanh(v); });
}
void erfc(double* value, int64_t count) {
    map_real(value, value, count, [](RealLanes v, RealLanes) { return Lanes::erfc(v); });
}
void pow(double* value, const double* other, int64_t count) {
    map_real(value, other, count, [](RealLanes v, RealLanes w) { return Lanes::pow(v, w); });
}
void sigmoid(double* value, int64_t count) {
    negate(value, count);
    exp(value, count);
    for (int64_t i = 0; i < count; ++i) value[i] = 1.0 / (1.0 + value[i]);
}

constexpr int64_t factor_block = 128;
/// value = value * factor(value), by `make(values, factors, count)`.
template <class Make>
inline void multiply_by(double* value, int64_t count, Make make) {
    double factor[factor_block];
    for (int64_t first = 0; first < count; first += factor_block) {
        const int64_t size = count - first < factor_block ? count - first : factor_block;
        make(value + first, factor, size);
        multiply_each(value + first, factor, size);
    }
}
void silu(double* value, int64_t count) {
    multiply_by(value, count, [](const double* from, double* factor, int64_t size) {
        for (int64_t i = 0; i < size; ++i) factor[i] = from[i];
        sigmoid(factor, size);
    });
}
void gelu(double* value, int64_t count) {
    multiply_by(value, count, [](double* from, double* factor, int64_t size) {
        for (int64_t i = 0; i < size; ++i) factor[i] = -from[i] * 0.70710678118654752440;
        for (int64_t i = 0; i < size; ++i) from[i] = 0.5 * from[i];
        erfc(factor, size);
    });
}

void fma_each(float* acc, const float* a, const float* b, int64_t count) {
    for (int64_t i = 0; i < count; ++i) acc[i] = __builtin_fmaf(a[i], b[i], acc[i]);
}
void mac_each(uint32_t* acc, const int32_t* a, const int32_t* b, int64_t count) {
    for (int64_t i = 0; i < count; ++i) acc[i] += static_cast<uint32_t>(a[i]) * static_cast<uint32_t>(b[i]);
}

void maximum(double* value, const double* other, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        const double a = value[i];
        const double b = other[i];
        const double larger = a > b ? a : b;  // b when either is NaN
        const double number = a == b ? a + b : larger;
        // equal zeros: -0 + -0 = -0, other sums of zeros are +0; other equal numbers are themselves
        const double zeros_right = a == b && a != 0.0 ? a : number;
        value[i] = a != a ? a : zeros_right;
    }
}

void minimum(double* value, const double* other, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        const double a = value[i];
        const double b = other[i];
        const double smaller = a < b ? a : b;  // b when either is NaN
        // equal zeros: the sum of the negated ones is -0 only if both are +0
        const double number = a == b ? -(-a + -b) : smaller;
        const double zeros_right = a == b && a != 0.0 ? a : number;
        value[i] = a != a ? a : zeros_right;
    }
}

#define KPU_KERNEL_COMMON(label, f16_in, f16_out, i8_rows, i8_columns, i8_tile)                              \
    {                                                                                                        \
        label, Lanes::rows, Lanes::f32_vectors *Lanes::f32_width, f32_tile, Lanes::rows,                     \
            Lanes::i32_vectors *Lanes::i32_width, i16_tile, i8_rows, i8_columns, i8_tile, f16_in,            \
            f32_of_bf16, f16_out, bf16_of_f32, canonical_f32, odd_f32_of_f64, f32_of_f64, largest_magnitude, \
            requantize, quantize, from_f32_steps, to_f32_steps, dequantize, divide, multiply, multiply_each, \
            add, subtract, divide_each, absolute, negate, truncate, square_root, leaky, exp, log, tanh,      \
            sigmoid, silu, gelu, pow, fma_each, mac_each, maximum, minimum                                   \
    }

}  // namespace
}  // namespace kpu::values::fast
