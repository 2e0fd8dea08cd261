#pragma once

#include <string>
#include <vector>

#include "isa/bound_program.hpp"

namespace kpu {

/// Row-major strides of a shape, in elements.
Dims row_major(const Dims& shape);

/// The `axis` attribute as a dimension of `shape`. Throws UserError when there is no such dimension.
size_t axis_of(const Dims& shape, const BoundAttrs& attrs);

/// What slice takes along one dimension: indices first, first + step, ... (count of them).
struct SliceRange {
    int64_t first = 0, count = 0, step = 1;
};
/// One range per dimension of X. Throws UserError on lists that do not fit, a step of 0, an empty slice.
std::vector<SliceRange> slice_ranges(const Dims& x, const BoundAttrs& attrs);

/// Which dimensions of X `axes` names. Throws UserError on an empty list, repetitions, unknown dimensions.
std::vector<bool> reduced_axes(const Dims& x, const BoundAttrs& attrs);

/// Shapes of the outputs that a view, reduction or arg-reduction gives. Throws UserError, without the
/// opcode's name, on attributes that do not fit the inputs. Verifier and engines read the same rules here.
std::vector<Dims> output_shapes(const OpcodeSpec& spec, const std::vector<Dims>& inputs,
                                const BoundAttrs& attrs);

/// Throws UserError, without the opcode's name, when the outputs are not output_shapes().
void check_output_shapes(const OpcodeSpec& spec, const std::vector<Dims>& inputs,
                         const std::vector<Dims>& outputs, const BoundAttrs& attrs);

}  // namespace kpu
