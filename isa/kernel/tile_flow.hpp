#pragma once

namespace kpu::kernel {

struct Code;

/// Marks the variables whose values may depend on what buffers hold.
void mark_data(Code& code);

}  // namespace kpu::kernel
