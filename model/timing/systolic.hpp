#pragma once

#include <cstdint>
#include <string>

#include "isa/bound_program.hpp"
#include "isa/types.hpp"
#include "platforms/platform.pb.h"

namespace kpu::timing {

/// A (grouped) matrix product: `groups` independent products of M x K by K x N.
struct GemmShape {
    uint64_t m = 0, n = 0, k = 0;
    uint64_t groups = 1;
    uint64_t macs() const { return m * n * k * groups; }
};

/// The product an NMU task computes; a convolution is its implicit GEMM: M = batch * output pixels,
/// N = Cout / groups, K = window * Cin / groups. Throws InternalError for other opcodes.
GemmShape gemm_shape(const BoundProgram& program, const BoundTask& task);

/// An array as the formulas see it.
struct SystolicArray {
    uint64_t rows = 0, cols = 0;
    proto::SystolicArray::Dataflow dataflow = proto::SystolicArray::os;
    proto::SystolicArray::Timing timing = proto::SystolicArray::physical;
    double rate = 1;  ///< MACs per cycle / (rows * cols) of the operand types, in steady state

    /// MACs per cycle in steady state, in 1/65536 MAC.
    uint64_t peak_q16() const;
};

/// Time and traffic of one product, all in core cycles or elements. model/timing/systolic.md has the
/// formulas.
struct SystolicTime {
    uint64_t folds = 0;  ///< tiles of the stationary operand, over all groups
    Cycles fill = 0;     ///< operands (or weights) enter, no result leaves
    Cycles steady = 0;   ///< operands stream: useful MACs and padding
    Cycles drain = 0;    ///< the last results leave, and waits for the drain of earlier folds
    Cycles total() const { return fill + steady + drain; }
    Cycles padding = 0;             ///< of steady: cycles worth of idle processing elements
    Cycles first_result = 0;        ///< from the start until the first result leaves the array
    uint64_t a_reads = 0;           ///< elements of the first operand (inputs) read from SRAM
    uint64_t b_reads = 0;           ///< elements of the second operand (weights)
    uint64_t writes = 0;            ///< elements of the result written, partial sums of folds over K included
    double mapping_efficiency = 0;  ///< used share of the processing elements, over all folds
};

SystolicTime systolic_time(const SystolicArray& array, const GemmShape& shape);

/// The array of an engine for operand types "i8", "f16" or "i8xi4". Throws UserError when it has no rate for
/// them.
SystolicArray array_for(const proto::SystolicArray& array, ElemType a, ElemType b);
/// The name a rate row has for these operand types.
std::string rate_name(ElemType a, ElemType b);

}  // namespace kpu::timing
