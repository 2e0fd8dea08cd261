#pragma once
// Tasks of one group: stages (tiles that are statements of their own), each with what is loaded once and loops over
// the rest. All order between tasks comes from Order; slots and arenas only decide how much can overlap.
#include <functional>
#include <vector>

#include "compiler/emit/emission.hpp"

namespace kpu::compiler {

/// The tasks of a group in the two parts that groups take turns in: what a stage loads beforehand (constants), and
/// the rest.
struct Stage {
    std::function<void()> prologue, body;
    bool alone =
        false;  ///< takes both halves of L1: nothing can be loaded for it, or for the next stage, beforehand
};

/// Returns the stages of an operation of the plan, on the inputs and outputs of an inference. The closures
/// refer to `emission`.
std::vector<Stage> stages_of(Emission& emission, size_t number, uint64_t inference);

}  // namespace kpu::compiler
