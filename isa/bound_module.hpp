#pragma once

#include <memory>

#include "isa/bound_program.hpp"

namespace kpu {

/// Returns a module whose program is bound without its statements and regions, which are most of a long
/// program; the module itself where they are still needed: operations name tasks by their statements,
/// parameters can get other values, and data stands in it.
std::shared_ptr<const Module> without_text(const std::shared_ptr<const Module>& module);

/// Leaves a bound program, and its owner's `module`, without the text, where nobody else has it.
void shed_text(BoundProgram& program, std::shared_ptr<const Module>& module);

}  // namespace kpu
