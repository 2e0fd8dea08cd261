#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "isa/expr.hpp"

namespace kpu {

/// Returns the statement indices of the loops around a statement, outermost first.
std::vector<uint32_t> loops_around(const BoundProgram& program, uint32_t statement);

/// Ranges of the variables of the loops around a statement, outermost first; a range with lo > hi: no
/// iteration, and inner loops are left out. Nothing when a bound cannot be bounded in 64 bits.
std::optional<std::vector<Interval>> loop_ranges(const BoundProgram& program, uint32_t statement);

enum class Visited : uint8_t { all, stopped, too_many };

/// Calls `visit` with the loop values of every iteration of the loops around a statement, in order, until it
/// returns false, or until `budget` loop steps were taken. The budget is reduced by the steps that were.
Visited for_each_iteration(const BoundProgram& program, uint32_t statement, uint64_t& budget,
                           const std::function<bool(const LoopValues&)>& visit);

/// Returns variable and value of the loops around a statement, outermost first, as far as `loops` has values.
std::vector<std::pair<std::string, int64_t>> iteration_of(const BoundProgram& program, uint32_t statement,
                                                          const LoopValues& loops);
/// Returns "i=3, j=0": the iteration that a statement stands in, as far as `loops` has values.
std::string iteration_text(const BoundProgram& program, uint32_t statement, const LoopValues& loops);
/// Returns the same for messages: " (i=3, j=0)", empty outside loops.
std::string in_iteration(const BoundProgram& program, uint32_t statement, const LoopValues& loops);
/// Returns " at file:line:column" of a statement; empty when the program carries no positions.
std::string place_text(const BoundProgram& program, uint32_t statement);
/// Returns the same of a task of a program that carries places; else empty.
std::string place_text(const BoundProgram& program, const BoundTask& task);

}  // namespace kpu
