#pragma once
// Bound that no schedule of a compiled program can beat: the work of each resource at its peak, operation by
// operation.
#include <array>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "compiler/target/target.hpp"
#include "isa/bound_program.hpp"

namespace kpu::estimate {

struct Bound {
    std::string_view name;  ///< array, vector, dma or dram; empty: it has no work
    double cycles = 0;
};

/// Returns, for each of BoundProgram::ops, the resource that needs the most cycles for what its tasks do,
/// which is not necessarily less than the operation is charged: operations overlap. Units share their work
/// evenly, memories deliver at the peak of their pins, nothing is refreshed, and no descriptor, row or burst
/// costs anything. `instances`: by BoundProgram::tasks, how often each comes; `launches`: what kernels do, by
/// statement.
std::vector<Bound> bounds(const BoundProgram& program, const compiler::Target& target,
                          const std::vector<uint64_t>& instances,
                          const std::map<uint32_t, kernels::Work>& launches);

}  // namespace kpu::estimate
