#pragma once
#include "compiler/passes/rewriter.hpp"

namespace kpu::passes {

/// Applies a rule: a node that ends a normalisation which the model spells out becomes layernorm or rmsnorm,
/// followed by products by constants.
bool find_norm(Rewriter& rewriter, NodeId id);

}  // namespace kpu::passes
