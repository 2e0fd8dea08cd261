#pragma once

#include "isa/bound_program.hpp"

namespace kpu {

/// Whether two windows of one level and engine share a byte of an element, gaps excluded. Exact while each
/// has at most 65536 contiguous runs; beyond that, whether their extents overlap.
bool windows_overlap(const BoundRegion& a, int64_t address_a, const BoundRegion& b, int64_t address_b);

/// Whether two elements of the region share a byte of storage. Assumes that strides nest, as those of tensors
/// do; strides that do not nest count as overlapping.
bool overlaps_itself(const BoundRegion& region);

}  // namespace kpu
