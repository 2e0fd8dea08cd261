#pragma once

#include "values/problem.hpp"

namespace kpu::values::reference {

/// Scalar code straight from the definitions; operands are already checked (check_operands). The fast engine
/// uses these for what is too rare to be worth a kernel of its own.
void contraction(Op op, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                 const BoundAttrs& attrs);
void pointwise(const PointwiseProblem& p, const std::vector<Tensor>& inputs, const Tensor& y);
void convert(Op op, const Tensor& x, const Tensor& y);
void pool(Op op, const PoolProblem& p);
void norm(const NormProblem& p, const Tensor& x, const Tensor& y);
void reduce(const ReduceProblem& p, const Tensor& x, const Tensor& y);
void execute(Op op, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
             const BoundAttrs& attrs);

/// Quantised: dequantised. Otherwise the element.
double real_value(const Tensor& tensor, const QuantMap& map, int64_t index);
/// Rounds once to a float type; requantises; or rounds half to even and saturates.
void store_real(const Tensor& tensor, const QuantMap& map, int64_t index, double value);

}  // namespace kpu::values::reference
