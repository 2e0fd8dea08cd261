#pragma once

#include "values/fast/fast.hpp"

namespace kpu::values::fast {

/// Elements [first, first + count) as binary64, exactly; quantisation is not applied.
void to_real(const Kernels& kernels, const Tensor& tensor, int64_t first, int64_t count, double* to);
/// Rounds once to the float type of the tensor.
void from_real(const Kernels& kernels, const double* from, const Tensor& tensor, int64_t first,
               int64_t count);
/// saturate(round_half_even(steps) + zero) in the integer type of the tensor.
void from_steps(const Kernels& kernels, const double* steps, int64_t zero, const Tensor& tensor,
                int64_t first, int64_t count);

/// A tensor read and written as real numbers; per-tensor quantisation only.
struct Real {
    const Kernels& kernels;
    const Tensor& tensor;
    const QuantMap map;

    Real(const Kernels& k, const Tensor& t) : kernels(k), tensor(t), map(t) {}
    bool usable() const { return map.uniform(); }
    void read(int64_t first, int64_t count, double* to) const {
        to_real(kernels, tensor, first, count, to);
        if (has_quant(tensor))
            kernels.from_f32_steps(to, static_cast<double>(map.zero_point(0)), map.scale(0), count);
    }
    /// Uses the values as scratch.
    void write(double* from, int64_t first, int64_t count) const {
        if (is_float(tensor.type)) return from_real(kernels, from, tensor, first, count);
        if (has_quant(tensor)) kernels.to_f32_steps(from, map.scale(0), count);
        from_steps(kernels, from, map.zero_point(0), tensor, first, count);
    }
};

}  // namespace kpu::values::fast
