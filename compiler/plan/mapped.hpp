#pragma once
// The second half of a plan: how its operations are cut into tiles, and what follows from that for L2.
#include "compiler/plan/plan.hpp"

namespace kpu::compiler {

/// Returns what operation `number` takes with its tiling where its operands have other homes; `first`: it is
/// the first of the program.
Tiling with_homes(const Plan& plan, const Target& target, size_t number, const std::vector<Home>& homes,
                  bool first);

/// Sets what a tiling of operation `number` takes. False: it does not fit.
bool evaluated(const Plan& plan, const Target& target, size_t number, Tiling& tiling);

}  // namespace kpu::compiler
