#pragma once

#include <cstdint>

namespace kpu::dram {

inline uint32_t lowest(uint64_t mask) { return static_cast<uint32_t>(__builtin_ctzll(mask)); }

/// Visits the set bits of a mask, lowest first.
template <typename Visit>
void for_each_bit(uint64_t mask, Visit visit) {
    for (; mask != 0; mask &= mask - 1) visit(lowest(mask));
}

}  // namespace kpu::dram
