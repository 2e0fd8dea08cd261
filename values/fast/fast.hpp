#pragma once

#include <vector>

#include "values/elementwise.hpp"
#include "values/fast/kernels.hpp"
#include "values/problem.hpp"
#include "values/reductions.hpp"

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
    Buffer<float> left, right, panels, rows, acc, addend;
    Buffer<uint8_t> left8, rows8;
    Buffer<int8_t> panels8;
    Buffer<int16_t> left16, rows16, panels16;
    Buffer<uint32_t> acc32, column_terms;
    Buffer<int32_t> narrow, image32, weights32;
    Buffer<double> real, other, factor, offset, squares;
    Buffer<uint8_t> phase_weights, phase_results;
};

/// Compute an opcode, or return false to leave the case to the reference engine.
bool gemm(const Kernels& kernels, Scratch& scratch, const Call& call);
bool conv(const Kernels& kernels, Scratch& scratch, const Call& call);
void float_gemm(const Kernels& kernels, Scratch& scratch, const GemmProblem& p);
bool float_conv(const Kernels& kernels, Scratch& scratch, const ConvProblem& p);
bool int_gemm(const Kernels& kernels, Scratch& scratch, const GemmProblem& p);
bool int_conv(const Kernels& kernels, Scratch& scratch, const ConvProblem& p);
bool group_gemm(const Kernels& kernels, Scratch& scratch, const Call& call);
bool group_conv(const Kernels& kernels, Scratch& scratch, const Call& call);
bool transposed_conv(const Kernels& kernels, Scratch& scratch, const ConvProblem& p);
bool elementwise(const Kernels& kernels, const Elementwise& row, const Call& call);
bool cast(const Kernels& kernels, Scratch& scratch, const Call& call);
bool quantize(const Kernels& kernels, Scratch& scratch, const Call& call);
bool dequantize(const Kernels& kernels, Scratch& scratch, const Call& call);
bool requant(const Kernels& kernels, Scratch& scratch, const Call& call);
bool maxpool(const Kernels& kernels, Scratch& scratch, const Call& call);
bool avgpool(const Kernels& kernels, Scratch& scratch, const Call& call);
bool norm(const Kernels& kernels, Scratch& scratch, const Call& call, bool centred);
bool resize(const Kernels& kernels, Scratch& scratch, const Call& call);
bool group_norm(const Kernels& kernels, Scratch& scratch, const Call& call);
bool softmax(const Kernels& kernels, Scratch& scratch, const Call& call, bool logarithm);
bool reduce(const Kernels& kernels, Scratch& scratch, const Reduction& row, const Call& call);
bool search(const Kernels& kernels, Scratch& scratch, const Search& row, const Call& call);

/// Sums of n columns before the first product: 0, or the addend where it comes first; `padded` of them.
void start_row(const Kernels& kernels, Scratch& scratch, const Addend& c, int64_t c_offset, int64_t n,
               int64_t padded, float* acc);
/// Turns sums into n elements of Y, with the addend where it comes last.
void finish_row(const Kernels& kernels, Scratch& scratch, const Addend& c, int64_t c_offset, int64_t n,
                float* acc, const Tensor& y, int64_t y_offset);
/// Returns a float operand as f32: in place, or widened into the buffer.
const float* as_f32(const Kernels& kernels, const Tensor& tensor, int64_t first, int64_t count,
                    Buffer<float>& buffer);

/// Elements [first, first + count) of a float tensor as f32.
void widen(const Kernels& kernels, const Tensor& tensor, int64_t first, int64_t count, float* to);
/// Rounds once to the tensor's float type, with canonical NaN.
void narrow(const Kernels& kernels, const float* from, const Tensor& tensor, int64_t first, int64_t count);
/// Counts for the tensor what its integer type does not hold.
void note_outside(const Tensor& tensor, const Outside& outside);
/// Saturated integers to the tensor's type.
void narrow_integers(const int32_t* from, const Tensor& tensor, int64_t first, int64_t count);

inline int64_t round_up(int64_t value, int64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

/// Makes a backend for one set of kernels; make_fast_backend() takes the best of this processor.
std::unique_ptr<ComputeBackend> make_backend(const Kernels& kernels);

}  // namespace kpu::values::fast
