#pragma once
// Constants that several operations read, such as the steps of an LSTM. Whoever reads a block of one first
// leaves it in L2, as it stands in DDR, for later readers.
#include <cstdint>
#include <vector>

#include "compiler/plan/plan.hpp"

namespace kpu::compiler {

/// Returns the constants that more than one of the operations bring to L1 from DDR, with what it saves to
/// keep them. `inferences`: how often the operations run, one after the other; what is shared stays through
/// all.
std::vector<SharedConstant> shared_constants(const graph::Graph& graph, const std::vector<PlannedOp>& ops,
                                             uint64_t inferences);

/// Blocks are those that most of the operations cut a constant into.
std::map<graph::ValueId, BlockCut> cuts_of_shared(const Plan& plan);

/// Says what the first reader of each takes, which brings it: Tiling::cycles and dram.
void judge_first(Plan& plan, const Target& target);

}  // namespace kpu::compiler
