#pragma once

#include <cstdint>

namespace kpu::values::fast {

/// Numbers of values that an integer type does not hold.
struct Outside {
    int64_t below = 0, above = 0;
};

/// Inner loops compiled once per instruction set; all variants give the same bits. Plain pointers only: these
/// sources are compiled with instruction-set flags, and an inline function of a shared header could leak such
/// code into programs that run on older machines.
///
/// A tile of rows x columns accumulates into acc, whose rows lie ld_acc apart, with k ascending. Row r of A
/// starts at a + r * lda. B is packed: all columns of a tile for k = 0, then those for k = 1, and so on; of
/// 16-bit operands two k's stand together, of 8-bit ones four.
struct Kernels {
    const char* name;

    int f32_rows, f32_columns;
    /// Does one fused multiply-add per step.
    void (*f32_tile)(int rows, int64_t k, const float* a, int64_t lda, const float* b, float* acc,
                     int64_t ld_acc);

    int i16_rows, i16_columns;
    /// Modulo 2^32; k2 pairs.
    void (*i16_tile)(int rows, int64_t k2, const int16_t* a, int64_t lda, const int16_t* b, uint32_t* acc,
                     int64_t ld_acc);

    int i8_rows, i8_columns;
    /// Unsigned A, signed B, modulo 2^32; k4 fours. Null without such an instruction.
    void (*u8i8_tile)(int rows, int64_t k4, const uint8_t* a, int64_t lda, const int8_t* b, uint32_t* acc,
                      int64_t ld_acc);

    /// Exact widening; NaNs stay NaNs.
    void (*f32_of_f16)(const uint16_t* from, float* to, int64_t count);
    void (*f32_of_bf16)(const uint16_t* from, float* to, int64_t count);
    /// Round once, with canonical NaN.
    void (*f16_of_f32)(const float* from, uint16_t* to, int64_t count);
    void (*bf16_of_f32)(const float* from, uint16_t* to, int64_t count);
    void (*canonical_f32)(const float* from, float* to, int64_t count);
    /// f32 with 24 bits rounded to odd: a later rounding to f16 or bf16 is then the only one.
    void (*odd_f32_of_f64)(const double* from, float* to, int64_t count);
    void (*f32_of_f64)(const double* from, float* to, int64_t count);

    /// Bits of the largest |number|, those of a NaN being above all: to see whether any is too large.
    uint32_t (*largest_magnitude)(const float* from, int64_t count);

    /// clamp(round_half_even(acc * multiplier) + zero, low, high); adds what was clamped to `outside`.
    void (*requantize)(const int32_t* acc, const double* multiplier, const double* zero, double low,
                       double high, int32_t* to, int64_t count, Outside& outside);
    /// clamp(round_half_even(value) + zero, low, high) of finite or infinite values, NaN as 0; low and high
    /// within i32. Adds the finite ones that were clamped to `outside`.
    void (*quantize)(const double* value, double zero, double low, double high, int32_t* to, int64_t count,
                     Outside& outside);
    /// value = f32((value - zero) * scale), and the inverse as in_steps() of values/scalar.hpp has it
    void (*from_f32_steps)(double* value, double zero, double scale, int64_t count);
    void (*to_f32_steps)(double* value, double scale, int64_t count);
    /// value = (value - zero) * scale
    void (*dequantize)(double* value, double zero, double scale, int64_t count);
    void (*divide)(double* value, double divisor, int64_t count);
    void (*multiply)(double* value, double factor, int64_t count);
    void (*multiply_each)(double* value, const double* factor, int64_t count);
    void (*add)(double* value, const double* other, int64_t count);
    void (*subtract)(double* value, const double* other, int64_t count);
    void (*divide_each)(double* value, const double* other, int64_t count);
    void (*absolute)(double* value, int64_t count);
    void (*negate)(double* value, int64_t count);
    void (*truncate)(double* value, int64_t count);
    void (*square_root)(double* value, int64_t count);
    /// value = value < 0 ? alpha * value : value
    void (*leaky)(double* value, double alpha, int64_t count);
    /// values/elementary.hpp, the same bits
    void (*exp)(double* value, int64_t count);
    void (*log)(double* value, int64_t count);
    void (*tanh)(double* value, int64_t count);
    void (*sigmoid)(double* value, int64_t count);
    void (*silu)(double* value, int64_t count);
    void (*gelu)(double* value, int64_t count);
    void (*pow)(double* value, const double* other, int64_t count);
    /// acc = fused a * b + acc, each on its own; acc = a * b + acc modulo 2^32
    void (*fma_each)(float* acc, const float* a, const float* b, int64_t count);
    void (*mac_each)(uint32_t* acc, const int32_t* a, const int32_t* b, int64_t count);
    /// value = IEEE 754-2019 maximum(value, other)
    void (*maximum)(double* value, const double* other, int64_t count);
    void (*minimum)(double* value, const double* other, int64_t count);
};

extern const Kernels portable_kernels;  ///< for processors without sets of their own
extern const Kernels baseline_kernels;  ///< these four: x86-64 only
extern const Kernels avx2_kernels;
extern const Kernels avx512_kernels;  ///< without 8-bit dot products
extern const Kernels avx512_vnni_kernels;

/// The variants this processor can run, slowest first.
struct KernelList {
    const Kernels* items[5];
    int count;
};
KernelList usable_kernels();

}  // namespace kpu::values::fast
