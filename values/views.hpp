#pragma once

#include "values/problem.hpp"

namespace kpu::values {

/// transpose, reshape, slice, concat, split, pad, gather: elements are copied as they are, so both engines
/// use the same code. Shapes are already checked (check_output_shapes). Throws UserError on an index of
/// gather outside its dimension.
void move_elements(Op op, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                   const BoundAttrs& attrs);

}  // namespace kpu::values
