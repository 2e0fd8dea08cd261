#pragma once

#include <string>

#include "execution/controller.hpp"
#include "isa/bound_program.hpp"

namespace kpu::execution {

/// Returns "task `tA` (i=3) at gemm.nem:21:7"; iteration and position only where there are any.
std::string statement_text(const BoundProgram& program, uint32_t statement, const LoopValues& loops);

}  // namespace kpu::execution
