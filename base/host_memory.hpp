#pragma once

#include <cstdint>

namespace kpu {

/// Returns memory that this process may still take: of the machine, or of its control group or address space
/// (ulimit -v) where that has less. 0: unknown.
uint64_t available_bytes();

/// Gives the pages of memory that was freed back to the system: after many small pieces that nothing alike follows.
void give_back_freed_memory();

}  // namespace kpu
