#pragma once

#include <string>

#include "isa/bound_program.hpp"

namespace kpu::analysis {

/// Returns "task `tA` (i=3)"; with_place: "... at gemm.nem:21:7".
std::string task_text(const BoundProgram& program, uint32_t statement, const LoopValues& loops,
                      bool with_place);
/// Returns "bytes 0..63 of L2 buffer `S`"; first and last from the buffer's base.
std::string bytes_text(const BoundProgram& program, uint32_t buffer, uint64_t first, uint64_t last);
/// Returns the bytes as "3", an address relative to its buffer.
uint64_t offset_in(const BoundProgram& program, uint32_t buffer, uint64_t address);

}  // namespace kpu::analysis
