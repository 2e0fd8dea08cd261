#pragma once

#include <cstdint>

namespace kpu::kernel {

struct Code;

/// Marks the variables whose values may depend on what buffers hold.
void mark_data(Code& code);
/// True if an expression depends on what buffers hold.
bool tile_reads_data(const Code& code, uint32_t root);

}  // namespace kpu::kernel
