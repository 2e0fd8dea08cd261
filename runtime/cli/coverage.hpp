#pragma once

#include <string>
#include <vector>

#include "compiler/front_end.hpp"
#include "isa/bound_program.hpp"

namespace kpu::cli {

/// Returns a line for each node of a network: types of its numbers and the units it runs on, the operation
/// that does its work too, or why it is not taken. `program` null: it could not be compiled, and nobody knows
/// where nodes would run.
std::string coverage_text(const std::vector<compiler::NodeSupport>& nodes, const BoundProgram* program);

}  // namespace kpu::cli
