#pragma once
// Whether a kernel needs what a ref held before.
#include "compiler/pallas/export.hpp"

namespace kpu::compiler::pallas {

/// True if the first thing that a body does with a ref of this shape is to write all of it.
bool is_overwritten(const Block& body, int ref, const Shape& shape);

}  // namespace kpu::compiler::pallas
