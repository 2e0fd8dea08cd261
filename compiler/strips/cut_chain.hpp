#pragma once
// A graph in which chains are cut: each of their steps stands there once for each strip.
#include <vector>

#include "compiler/strips/chains.hpp"

namespace kpu::compiler {

/// `chains`: in order, cut, none overlaps another.
graph::Graph with_strips(const Steps& steps, const std::vector<Chain>& chains);

}  // namespace kpu::compiler
