#pragma once
// How many engines share L2. Each has staging in L2, as large as its L1: where that drives tensors to DRAM, fewer engines
// may be faster.
#include "compiler/pipeline/best_strips.hpp"

namespace kpu::pipeline {

struct Division {
    compiler::Target target;       ///< the device, with the engines that work
    compiler::Guide guide;         ///< with what was searched for it
    InBestStrips cut;              ///< the graph, and its program if one was made
    uint64_t left_to_tensors = 0;  ///< bytes of L2 that all engines would leave, if not all of them work
};

/// All engines; where tensors that L2 could hold live in DRAM, also fewer (each count below eight, halves above): those
/// whose program takes the least by the estimate. A mapping that is wished is one for all.
Division best_division(const graph::Graph& graph, const compiler::Target& target,
                       const compiler::Guide& guide);

}  // namespace kpu::pipeline
