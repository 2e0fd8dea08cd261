#pragma once
// From a plan to the program that it is: buffers, tasks and their order.
#include <cstdint>
#include <map>

#include "compiler/kernels/operations.hpp"
#include "compiler/plan/plan.hpp"
#include "isa/module.hpp"

namespace kpu::compiler {

struct Emitted {
    Module module;
    uint64_t weight_bytes = 0;
    BlockPlaces weights;                         ///< where DDR holds blocks of the graph's constants
    std::map<uint32_t, kernels::Work> launches;  ///< launches of kernels, by statement
    bool needs_values = false;                   ///< the time of some of them depends on values
};

/// Emits the program of a plan: the same plan gives the same bytes, also from several threads. The bytes of the
/// weights are not in the program yet.
Emitted emit(const Plan& plan, const Target& target);

/// A plan and its program.
struct Lowered {
    Plan plan;
    Emitted emitted;
};
Lowered lower(Plan plan, const Target& target);

/// Gives a program the bytes of its weights.
void add_weights(Lowered& lowered);
/// Gives it their number alone, where nobody reads them.
void promise_weights(Lowered& lowered);

}  // namespace kpu::compiler
