#pragma once
// Parts that an output is joined of.
#include <vector>

#include "compiler/graph/graph.hpp"
#include "values/compute.hpp"

namespace kpu::precision {

/// Returns the part of each element of the host's array of an output, in C order, from 0: boxes and
/// probabilities that a `concat` joins are two. What views make of parts are parts still; an output that is
/// not joined is one.
std::vector<size_t> parts_of_output(const graph::Graph& graph, const graph::Port& output,
                                    values::ComputeBackend& engine);

}  // namespace kpu::precision
