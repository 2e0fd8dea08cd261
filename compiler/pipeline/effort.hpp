#pragma once
// Effort to find mappings: the closed forms of one operation alone, or a look at the best few in the program.
#include <optional>

#include "compiler/emit/emit.hpp"
#include "compiler/front_end.hpp"

namespace kpu::pipeline {

/// Returns the guide with as many alternatives as this effort compares: who searches with it before finds
/// what it will ask.
compiler::Guide for_effort(compiler::Guide guide, const compiler::Target& target, int effort);

/// 1: closed forms choose. 2: the best few of them are compared by schedules of the program's tasks (compiler/estimate).
/// 3: those, and what 2 has chosen, are compared by simulations, so what comes out is not slower than that of 2. Throws
/// UserError when it is 3 and `simulate` is null. `first`: the program that closed forms choose, if it is there already.
compiler::Lowered lower_with_effort(const graph::Graph& graph, const compiler::Target& target,
                                    compiler::Guide guide, int effort, const compiler::Simulate& simulate,
                                    std::optional<compiler::Lowered> first = std::nullopt);

}  // namespace kpu::pipeline
