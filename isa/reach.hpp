#pragma once

#include <vector>

#include "isa/bound_program.hpp"

namespace kpu {

/// Bytes [first, last) of a buffer, from its base.
struct ByteRange {
    uint64_t first = 0, last = 0;
};

/// Returns, for each buffer, the bytes that tasks may read or write in any iteration: ascending, apart from
/// each other. Never fewer than they do, and more where a region moves or has gaps.
std::vector<std::vector<ByteRange>> reach_of_buffers(const BoundProgram& program);

/// Returns the part of some ranges in [first, last), and what they leave of it.
std::vector<ByteRange> inside(const std::vector<ByteRange>& ranges, uint64_t first, uint64_t last);
std::vector<ByteRange> outside(const std::vector<ByteRange>& ranges, uint64_t first, uint64_t last);

}  // namespace kpu
