#pragma once

#include <optional>
#include <vector>

#include "isa/bound_program.hpp"

namespace kpu {

/// Applies one step of the stack machine: returns `a op b` (NEG: -b). Throws UserError saying why there is
/// none.
int64_t apply_operator(proto::ExprToken::Kind op, int64_t a, int64_t b);
bool is_binary_operator(proto::ExprToken::Kind kind);
bool is_leaf(proto::ExprToken::Kind kind);

/// Folds constants and parameters into `expr`. The expression must have passed check_structure.
/// Throws UserError when a folded part overflows or divides by zero.
BoundExpr compile_expr(const proto::Expr& expr, const std::vector<int64_t>& constants,
                       const std::vector<int64_t>& params);

/// Returns the values of the constants of a program, in order (each is over earlier ones only). Throws
/// UserError naming the constant.
std::vector<int64_t> eval_constants(const Module& module);

/// Defaults overridden by `params`, each in its range. Throws UserError naming the parameter.
std::vector<int64_t> bind_params(const KPUProgram& program, const ParamBindings& params);

/// True if a parameter decides how often a loop runs: not at all may be what is meant.
bool follows_parameter(const proto::Loop& loop);

/// Smallest and largest value an expression can take when loop variable d lies in [lo[d], hi[d]].
struct Interval {
    int64_t lo = 0, hi = 0;
};
/// Returns the values that the expression can have; nothing when they cannot be bounded in 64 bits (overflow,
/// division by an interval that holds 0, ...).
std::optional<Interval> bound_of(const BoundExpr& expr, const std::vector<Interval>& loops);

}  // namespace kpu
