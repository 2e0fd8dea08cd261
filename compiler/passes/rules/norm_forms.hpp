#pragma once
#include "compiler/passes/rewriter.hpp"

namespace kpu::passes {

/// A rule: a node that ends a normalisation which the model spells out becomes layernorm or rmsnorm, with products by
/// constants behind it.
bool find_norm(Rewriter& rewriter, NodeId id);

}  // namespace kpu::passes
