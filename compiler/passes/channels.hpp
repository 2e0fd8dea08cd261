#pragma once
// Channels, the last dimension, of convolutions that become several.
#include "compiler/passes/match.hpp"
#include "compiler/passes/rewriter.hpp"

namespace kpu::passes {

/// Channels [first, first + count) of an operand of the node: of a constant with its scales; of other values a slice, which costs
/// nothing, as it is a view.
ValueId channels_of(Rewriter& rewriter, const Node& node, ValueId id, int64_t first, int64_t count);

/// True if its channels have scales of their own.
bool is_per_channel(const graph::Value& value);

}  // namespace kpu::passes
