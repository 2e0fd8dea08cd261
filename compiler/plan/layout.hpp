#pragma once
// The first half of a plan: operations and where their tensors live, before any tiling is known.
#include "compiler/plan/plan.hpp"

namespace kpu::compiler {

/// Returns a plan whose operations have no tilings yet. Throws UserError as plan() does.
Plan lay_out(graph::Graph graph, const Target& target, const Guide& guide);

}  // namespace kpu::compiler
