#pragma once

#include <cstdint>

#include "isa/bound_program.hpp"
#include "platforms/platform.pb.h"

namespace kpu::timing {

/// Work of a vector unit's task in one pass.
struct VectorWork {
    uint64_t amount = 0;  ///< elements; bytes of a view
    bool bytes = false;   ///< a view: it moves bytes at the width of the narrower port
};

/// Returns the elements of the results; of the first operand for reductions; results times window for
/// pooling; bytes of the results for views.
VectorWork vector_work(const BoundProgram& program, const BoundTask& task);

/// Time of one task of a vector unit, core cycles. model/timing/vector.md has the formula.
struct VectorTime {
    uint64_t work = 0;       ///< VectorWork::amount
    uint64_t per_cycle = 1;  ///< amount per cycle: lanes, or bytes of the narrower port
    uint32_t passes = 1;     ///< times the operands are read
    Cycles steady = 0;       ///< ceil(ceil(work / per_cycle) * cycles_per_element * passes)
    Cycles latency = 0;      ///< latency of the pipeline, before the first result
    Cycles total() const { return steady + latency; }
};

VectorTime vector_time(const proto::Vector& vector, const BoundProgram& program, const BoundTask& task);
/// Returns the same for plain numbers. An opcode without a cost row has the default of the opcode table.
VectorTime vector_time(const proto::Vector& vector, std::string_view opcode_name, const VectorWork& work);

}  // namespace kpu::timing
