#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "isa/bound_program.hpp"
#include "platforms/platform.pb.h"

namespace kpu::timing {

/// A (grouped) matrix product: `groups` independent products of M x K by K x N.
struct GemmShape {
    uint64_t m = 0, n = 0, k = 0;
    uint64_t groups = 1;
    uint64_t blocks = 1;  ///< on the diagonal of K x N, which holds zeros beside them
    uint64_t run = 0;     ///< rows of M in one row of a convolution's output; 0: all of M
    /// Returns the multiply-accumulates; those with the zeros are padding.
    uint64_t macs() const { return m * n * k * groups / blocks; }
};

/// Returns the product an NMU task computes; a convolution is its implicit GEMM: M = batch * output pixels, N
/// = Cout / groups, K = window * Cin / groups. Throws InternalError for other opcodes.
GemmShape gemm_shape(const BoundProgram& program, const BoundTask& task);

/// An array as the formulas see it.
struct SystolicArray {
    uint64_t rows = 0, cols = 0;
    proto::SystolicArray::Dataflow dataflow = proto::SystolicArray::os;
    proto::SystolicArray::Timing timing = proto::SystolicArray::physical;
    double rate = 1;              ///< MACs per cycle / (rows * cols) of the operand types, in steady state
    uint64_t command_rows = 0;    ///< engine.array.command_rows
    uint64_t command_cycles = 0;  ///< engine.array.command_cycles

    /// MACs per cycle in steady state, in 1/65536 MAC.
    uint64_t peak_q16() const;
};

/// Time and traffic of one product, all in core cycles or elements. model/timing/systolic.md has the
/// formulas.
struct SystolicTime {
    uint64_t folds = 0;      ///< tiles of the stationary operand, over all groups
    Cycles weight_load = 0;  ///< the first stationary tile enters (ws, is); compat: every one
    Cycles fill = 0;         ///< the streamed operands enter, until the whole array works
    Cycles waits = 0;        ///< short folds wait for a drain (os) or a weight load (ws, is)
    Cycles steady = 0;       ///< operands stream: useful MACs and padding
    Cycles drain = 0;        ///< the last results leave
    Cycles total() const { return weight_load + fill + waits + steady + drain; }
    Cycles padding = 0;        ///< part of steady: cycles worth of idle processing elements
    Cycles stationary_in = 0;  ///< ws, is: from the start until the last stationary element has entered
    Cycles operands_in = 0;    ///< ... until the last operand has entered
    /// Cycles from the start on in which no other product's operands may enter.
    Cycles occupancy = 0;
    Cycles entry_gap = 0;           ///< the array stays free this long between another product and this one
    Cycles first_result = 0;        ///< from the start until the first result stands at the array's foot
    uint64_t a_reads = 0;           ///< elements of the first operand (inputs) read from SRAM
    uint64_t b_reads = 0;           ///< elements of the second operand (weights)
    uint64_t writes = 0;            ///< elements of the result written, partial sums of folds over K included
    uint64_t partial_reads = 0;     ///< partial sums read back to be added to (physical)
    double mapping_efficiency = 0;  ///< used share of the processing elements, over all folds
};

SystolicTime systolic_time(const SystolicArray& array, const GemmShape& shape);
/// Returns the products that follow each other on one array, the next as soon as the array takes it: from the
/// start of the first to the last result of the last one.
Cycles back_to_back_cycles(const SystolicArray& array, const std::vector<GemmShape>& shapes);

/// Ports through which operands come, in bits a cycle, and the bits of an element.
struct OperandPorts {
    uint64_t a_port_bits = 0, b_port_bits = 0;
    uint32_t a_bits = 8, b_bits = 8;
};

/// SystolicTime::operands_in of a physical array whose ports may be too narrow: folds that ask for more than
/// their ports deliver last longer, and folds that ask for less do not make up for it. Nothing where no fold
/// waits, or where more than 2^20 operand words pass.
std::optional<Cycles> starved_operands_in(const SystolicArray& array, const GemmShape& shape,
                                          const OperandPorts& ports);

/// Returns the array of an engine for operand types "i8", "f16" or "i8xi4". Throws UserError when it has no
/// rate for them.
SystolicArray array_for(const proto::SystolicArray& array, ElemType a, ElemType b);
/// Returns the name a rate row has for these operand types.
std::string rate_name(ElemType a, ElemType b);

}  // namespace kpu::timing
