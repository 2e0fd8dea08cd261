#pragma once
// Weights that stay in L2 from one inference to the next.
#include "compiler/plan/plan.hpp"

namespace kpu::compiler {

/// Gives weights places among what L2 has left beside one inference, which they keep for the whole program: those of the
/// operations that DRAM holds up most come first. Changes where the operations keep them, not their tiles; sets
/// Plan::held_bytes and what each operation takes with them: PlannedOp::later.
void hold_weights(Plan& plan, const Target& target);

}  // namespace kpu::compiler
