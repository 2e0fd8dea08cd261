#pragma once
// Division of L2 between staging and tensors: each engine that works has staging in L2, at most as large as
// its L1. Where that drives tensors to DRAM, or inputs are read more than once, less staging or fewer engines
// may be faster.
#include "compiler/pipeline/best_strips.hpp"

namespace kpu::pipeline {

struct Division {
    compiler::Target target;       ///< the device, with the engines that work and their staging
    compiler::Guide guide;         ///< guide with what was searched for it
    InBestStrips cut;              ///< the graph, and its program if one was made
    bool is_part = false;          ///< not all of the device is used
    uint64_t left_to_tensors = 0;  ///< bytes of L2 that all of it would leave, if it is not
};

/// All engines, with staging as large as their L1; where tensors live in DRAM that L2 could hold, or inputs come from there more
/// than once, and that traffic matters, also halves, quarters and eighths of the staging and fewer engines (each count below
/// eight, halves above): those whose program takes the least by the estimate.
/// A mapping that is wished is one for the whole device, unless it names a part. Throws UserError for one that the device does not
/// have.
Division best_division(const graph::Graph& graph, const compiler::Target& target,
                       const compiler::Guide& guide);

/// True if tensors between operations live in DRAM that L2 would hold if nothing else were there.
bool crowds_out(const compiler::Plan& plan, const compiler::Target& target);
/// Writes one line: what of L2 is staging, what else it holds, how many bytes of tensors live in DRAM.
std::string division_text(const compiler::Plan& plan, const compiler::Target& target);

}  // namespace kpu::pipeline
