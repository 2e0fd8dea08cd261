#pragma once

#include "values/elementwise.hpp"
#include "values/problem.hpp"
#include "values/reductions.hpp"

namespace kpu::values::reference {

/// Scalar code straight from the definitions. The fast engine uses these for what is too rare to be worth a
/// kernel of its own.
void gemm(const Call& call);
void conv(const Call& call);
void group_gemm(const Call& call);
void group_conv(const Call& call);
void block_gemm(const Call& call);
void quantize_blocks(const Call& call);
void dequantize_blocks(const Call& call);
void elementwise(const Elementwise& row, const Call& call);
void maxpool(const Call& call);
void avgpool(const Call& call);
void norm(const Call& call, bool centred);  ///< centred: layernorm, else rmsnorm
void softmax(const Call& call, bool logarithm);
void reduce(const Reduction& row, const Call& call);
void search(const Search& row, const Call& call);
void cumsum(const Call& call);
void group_norm(const Call& call);
void resize(const Call& call);
void cast(const Call& call);
void quantize(const Call& call);
void dequantize(const Call& call);
void requant(const Call& call);

/// The rest round a result and count it where it leaves the range of its type.
/// To a float type.
void put_float(const Tensor& tensor, int64_t index, double value);
/// Stores a value converted to float8 as the opcode `cast` does: what is beyond its numbers becomes the
/// greatest of them, infinities too, or what the format has for infinity.
void put_cast_small_float(const Tensor& tensor, int64_t index, double value, bool saturates);
/// saturate(round_half_even(steps) + zero)
void put_steps(const Tensor& tensor, int64_t index, double steps, int64_t zero);
/// Counts, after a product, its results whose f32 sums were infinite where the exact ones are not.
void count_infinite_products(const Call& call);

/// Quantised: dequantised. Otherwise the element.
double real_value(const Tensor& tensor, const QuantMap& map, int64_t index);
/// Rounds once to a float type; requantises; or rounds half to even and saturates.
void store_real(const Tensor& tensor, const QuantMap& map, int64_t index, double value);

}  // namespace kpu::values::reference
