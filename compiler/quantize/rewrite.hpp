#pragma once
#include "compiler/quantize/plan.hpp"
#include "compiler/quantize/quantize.hpp"

namespace kpu::quantize {

/// Returns the graph as its plan says.
graph::Graph rewrite(const graph::Graph& graph, const Plan& plan, const QuantizeOptions& options);

}  // namespace kpu::quantize
