#pragma once

#include "isa/values/problem.hpp"

namespace kpu::values::reference {

/// Scalar code straight from the definitions; operands are already checked (check_operands). The fast engine
/// uses these for what is too rare to be worth a kernel of its own.
void contraction(Op op, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                 const BoundAttrs& attrs);
void pointwise(Op op, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs);
void convert(Op op, const Tensor& x, const Tensor& y);
void maxpool(const PoolProblem& p);
void rmsnorm(const NormProblem& p, const Tensor& x, const Tensor& y);
void execute(Op op, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
             const BoundAttrs& attrs);

/// IEEE 754-2019 maximum: NaN propagates, -0 < +0.
double maximum(double a, double b);

}  // namespace kpu::values::reference
