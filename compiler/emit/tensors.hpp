#pragma once

#include "compiler/emit/emission.hpp"

namespace kpu::compiler {

/// Adds tensors of the host, and those between operations. Throws UserError where one has too many dimensions
/// for several inferences.
void add_tensors(Emission& emission);

}  // namespace kpu::compiler
