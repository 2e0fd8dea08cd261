#pragma once

#include "isa/bound_program.hpp"

namespace kpu {

/// Maximal contiguous byte runs of a region's elements in ascending address order, as a strided pattern:
/// run_bytes contiguous bytes, repeated count[d] times at stride_bytes[d]. Dimension 0 is the innermost
/// (smallest stride), strides are positive, counts at least 2; dimensions that continue a run or each other
/// are merged, so a dense region has dims == 0. A dimension of stride 0 (elements that repeat) adds nothing.
/// i4 runs are rounded out to whole bytes; i4 dimensions of odd stride (in elements) are covered together with
/// their gaps. Untyped regions are one run of their extent.
struct Footprint {
    uint64_t address = 0;
    uint64_t run_bytes = 0;
    int dims = 0;
    int64_t count[max_rank] = {};
    int64_t stride_bytes[max_rank] = {};
    uint64_t total_bytes() const;  ///< run_bytes * product(count)
    uint64_t end() const;          ///< one past the last byte touched
};
Footprint footprint_of(const BoundRegion& region, uint64_t address);
/// True when the two touch a common byte (exact, gaps do not count). Patterns of many unrelated strides, for
/// which the exact answer would take millions of steps, are answered true.
bool overlap(const Footprint& a, const Footprint& b);

/// Does the same for two windows at addresses that nobody has checked: one outside every memory touches
/// nothing.
bool windows_overlap(const BoundRegion& a, int64_t address_a, const BoundRegion& b, int64_t address_b);

/// True if two elements of the region share a byte of storage. Assumes that strides nest, as those of tensors
/// do; strides that do not nest count as overlapping.
bool overlaps_itself(const BoundRegion& region);

}  // namespace kpu
