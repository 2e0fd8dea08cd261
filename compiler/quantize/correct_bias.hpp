#pragma once
#include "compiler/graph/graph.hpp"
#include "compiler/quantize/samples.hpp"

namespace kpu::quantize {

/// Rounding shifts the mean of what a product makes, by the rounding of its weights and by what came before it.
/// Biases of int8 products take the shift back: each is measured on the samples, from the inputs to the outputs, so
/// that later ones see earlier ones corrected. Of a shift only the part counts that samples agree upon.
///
/// `exact` is the float graph that `steps` was made of; their products are known by the names of their results.
void correct_biases(graph::Graph& steps, const graph::Graph& exact, const Samples& samples);

}  // namespace kpu::quantize
