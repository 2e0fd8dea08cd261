#pragma once

#include <vector>

#include "values/fast/kernels.hpp"
#include "values/problem.hpp"

namespace kpu::values::fast {

/// Memory that grows and is kept between calls; contents are not.
template <class T>
class Buffer {
  public:
    T* get(int64_t count) {
        if (static_cast<int64_t>(data_.size()) < count) data_.resize(static_cast<size_t>(count));
        return data_.data();
    }

  private:
    std::vector<T> data_;
};

struct Scratch {
    Buffer<float> left, right, panels, acc, addend;
    Buffer<uint8_t> left8, rows8;
    Buffer<int8_t> panels8;
    Buffer<int16_t> left16, rows16, panels16;
    Buffer<uint32_t> acc32, column_terms;
    Buffer<int32_t> narrow, image32, weights32;
    Buffer<double> real, other, factor, offset, squares;
};

/// Each returns false when it leaves the case to the reference engine. values.md lists these cases.
void float_gemm(const Kernels& kernels, Scratch& scratch, const GemmProblem& p);
bool float_conv(const Kernels& kernels, Scratch& scratch, const ConvProblem& p);
bool int_gemm(const Kernels& kernels, Scratch& scratch, const GemmProblem& p);
bool int_conv(const Kernels& kernels, Scratch& scratch, const ConvProblem& p);
bool pointwise(const Kernels& kernels, const PointwiseProblem& p, const std::vector<Tensor>& inputs,
               const Tensor& y);
bool convert(const Kernels& kernels, Op op, const Tensor& x, const Tensor& y);
bool maxpool(const Kernels& kernels, Scratch& scratch, const PoolProblem& p);
bool avgpool(const Kernels& kernels, Scratch& scratch, const PoolProblem& p);
void norm(const Kernels& kernels, Scratch& scratch, const NormProblem& p, const Tensor& x, const Tensor& y);
bool reduce(const Kernels& kernels, Scratch& scratch, const ReduceProblem& p, const Tensor& x,
            const Tensor& y);

/// Elements [first, first + count) of a float tensor as f32.
void widen(const Kernels& kernels, const Tensor& tensor, int64_t first, int64_t count, float* to);
/// One rounding to the tensor's float type, canonical NaN.
void narrow(const Kernels& kernels, const float* from, const Tensor& tensor, int64_t first, int64_t count);
/// Saturated integers to the tensor's type.
void narrow_integers(const int32_t* from, const Tensor& tensor, int64_t first, int64_t count);

inline int64_t round_up(int64_t value, int64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

/// One backend for one set of kernels; make_fast_backend() takes the best of this processor.
std::unique_ptr<ComputeBackend> make_backend(const Kernels& kernels);

}  // namespace kpu::values::fast
