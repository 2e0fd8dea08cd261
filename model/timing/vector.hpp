#pragma once

#include <cstdint>

#include "isa/bound_program.hpp"
#include "platforms/platform.pb.h"

namespace kpu::timing {

/// Time of one task of a vector unit, core cycles. model/timing/vector.md has the formula.
struct VectorTime {
    uint64_t elements = 0;  ///< processed, one pass
    uint32_t passes = 1;    ///< times the operands are read
    Cycles steady = 0;      ///< ceil(ceil(elements / lanes) * cycles_per_element * passes)
    Cycles latency = 0;     ///< of the pipeline, before the first result
    Cycles total() const { return steady + latency; }
};

/// Elements a task processes in one pass: those of its results; of its first operand for reductions;
/// results times window for pooling.
uint64_t vector_elements(const BoundProgram& program, const BoundTask& task);
VectorTime vector_time(const proto::Vector& vector, const BoundProgram& program, const BoundTask& task);
/// The same for plain numbers; an opcode without a row costs 1 cycle per element and lane and 1 pass.
VectorTime vector_time(const proto::Vector& vector, std::string_view opcode_name, uint64_t elements);

}  // namespace kpu::timing
