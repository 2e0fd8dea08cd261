#pragma once
// Local rules of simplify and patterns.
#include <vector>

#include "compiler/passes/match.hpp"

namespace kpu::passes {

/// Looks at one living node; true when it changed the graph. Each must make the graph smaller, cheaper or
/// closer to a form that no rule changes: rules run until none applies.
using Rule = bool (*)(Rewriter& graph, NodeId node);

/// Applies the rules, the first that fits, to every node until none fits any more.
void apply_rules(Rewriter& graph, const std::vector<Rule>& rules);

/// Readers of the node's only output read `value` instead, which is the same; the node goes.
void replace_by(Rewriter& graph, NodeId node, ValueId value);

/// Makes the node compute the same in another way; makers of operands that nobody needs any more go into it.
void become(Rewriter& graph, NodeId node, std::string_view opcode, std::vector<ValueId> operands,
            BoundAttrs attrs = {});

/// Moves an elementwise node of one operand from after a concatenation of products to each part
/// (sink_reshapes.cpp).
bool compute_parts(Rewriter& graph, NodeId node);

extern const std::vector<Rule> arithmetic_rules;  ///< identities, clamps, casts
extern const std::vector<Rule> view_rules;        ///< transposes, reshapes, slices
extern const std::vector<Rule> product_rules;     ///< products of what is repeated
extern const std::vector<Rule> norm_rules;        ///< layernorm, rmsnorm, softmax
extern const std::vector<Rule> activation_rules;  ///< gelu, silu, hard_swish, ...
extern const std::vector<Rule> guard_rules;       ///< remove tests for NaN after what gives none

}  // namespace kpu::passes
