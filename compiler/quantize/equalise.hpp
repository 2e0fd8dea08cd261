#pragma once
// Channels that share the scale of a tensor are brought to like ranges.
#include <optional>

#include "compiler/graph/graph.hpp"
#include "compiler/graph/supports.hpp"
#include "compiler/quantize/samples.hpp"

namespace kpu::quantize {

/// Returns the network with other constants: where a channel's numbers are small beside those of its tensor,
/// the products before make them larger, and the weights of the products after it take that back, if all that
/// stands between lets factors through. Values are the same up to the rounding of f32. A clamp becomes a relu
/// and a `min` with a bound for each channel, which int8 steps saturate at wherever they did at the clamp's.
/// The factors are those of a few candidates that int8 adds least noise with, by the ranges and powers of
/// channels on the samples (quantize.md); null: with none of them less. `graph` has come from
/// split_addends().
///
/// The factors are those of a few candidates that int8 adds least noise with, by the ranges and powers of channels on the
/// samples (quantize.md); null: with none of them less. `graph` has come from split_addends().
std::optional<graph::Graph> equalise_channels(const graph::Graph& graph, const Samples& samples,
                                              const graph::Supports& supports = {});

}  // namespace kpu::quantize
