#pragma once

#include <functional>
#include <optional>

#include "isa/expr.hpp"
#include "isa/structure.hpp"

namespace kpu {

/// Ranges of the variables of the loops around a statement, outermost first; a range with lo > hi: no
/// iteration. Nothing when a bound cannot be bounded in 64 bits.
std::optional<std::vector<Interval>> loop_ranges(const BoundProgram& program, const Nesting& nesting,
                                                 uint32_t statement);

enum class Visited : uint8_t { all, stopped, too_many };

/// Calls `visit` with the loop values of every iteration of the loops around a statement, in order, until it
/// returns false, or until `budget` loop steps were taken. The budget is reduced by the steps that were.
Visited for_each_iteration(const BoundProgram& program, const Nesting& nesting, uint32_t statement,
                           uint64_t& budget, const std::function<bool(const LoopValues&)>& visit);

}  // namespace kpu
