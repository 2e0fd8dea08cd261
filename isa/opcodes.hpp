#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"
#include "isa/traits.hpp"
#include "isa/unit_kind.hpp"

namespace kpu {

struct BoundAttrs;
struct Dims;
struct OpcodeSpec;
class ShapeCase;

/// Position in opcode_table(); stable only within one build. Files store names.
using OpcodeId = uint16_t;

enum class AttrKind : uint8_t { integer, real, boolean, elem_type, ints, reals, text, word };

struct AttrSpec {
    std::string_view name;
    AttrKind kind;
    bool required;
    std::string_view default_text;  ///< as NEM text; empty when required or when leaving it out has a meaning
    std::string_view meaning;
};

/// data: the numbers that an opcode works on, all of one element type, quantised all or none (products and
/// conversions have rules of their own). integer: positions; 8, 16 or 32 bits, not quantised. condition: u8,
/// not quantised; 0 is false, anything else true; results are 0 or 1.
enum class OperandRole : uint8_t { data, integer, condition };

struct OperandSpec {
    std::string_view name;  ///< the name type families bind: A B C Y, X W B Y, src dst
    bool optional = false;
    OperandRole role = OperandRole::data;
};

/// The family of an opcode: groups lists and docs, and says which general rules of operands the verifier holds.
enum class OpcodeClass : uint8_t {
    gemm,
    conv,
    elementwise,
    pooling,
    norm,
    softmax,
    view,
    reduction,
    convert
};

/// Unit of the work that a vector unit counts, in each pass.
enum class WorkCount : uint8_t {
    results,       ///< elements of the outputs
    operands,      ///< elements of the first input
    windows,       ///< elements of the outputs, each kernel_shape times
    result_bytes,  ///< bytes of the outputs: data is only moved
};

/// Part of the first operand that a vector unit reads.
enum class OperandRead : uint8_t {
    whole,
    slice,  ///< the part that starts, ends, axes and steps name
    rows,   ///< as many rows along `axis` as the second operand has indices
};

/// Keys of the energy table, for lists and docs; TYPE stands for an element type. The last one of a vector
/// opcode is charged for each unit of work (energy_action).
using EnergyKeys = std::vector<std::string_view>;

/// Whether these operands have element types that the opcode's arithmetic is defined for.
using TypeRule = bool (*)(const OpcodeSpec& spec, const std::vector<ElemType>& inputs,
                          const std::vector<ElemType>& outputs);
/// Shapes of the outputs; refuses, through the case, operands and attributes that do not fit
/// (isa/shapes.hpp).
using ShapeRule = std::vector<Dims> (*)(const ShapeCase&);
/// Multiply-accumulates that make `results` elements.
using MacRule = uint64_t (*)(const Dims& first, const Dims& second, uint64_t results,
                             const BoundAttrs& attrs);

/// One row of the opcode table (isa/opcodes/): all that parser, binder, verifier, compiler, model, energy, lists,
/// docs and editors know of an opcode. What it computes stands in values/.
struct OpcodeSpec {
    std::string_view name;
    std::vector<OperandSpec> inputs;
    std::vector<OperandSpec> outputs;
    bool variadic_inputs = false;
    bool variadic_outputs = false;
    std::vector<AttrSpec> attributes;
    std::string_view formula;  ///< one line, for lists and docs
    OpcodeClass op_class = OpcodeClass::elementwise;

    std::string_view family;        ///< prefix of the type families that bind it: gemm, eltwise, ...; "" none
    TypeRule types = nullptr;       ///< null: no arithmetic (movement, refused)
    ShapeRule shapes = nullptr;     ///< null: as types
    bool in_place_allowed = false;  ///< an input region may be the output region
    bool integers_need_quant = false;  ///< plain integers are refused: the formula has no integer meaning
    uint8_t addend = 2;                ///< products: the operand that is added to the sums, if it is given
    bool accumulates = false;          ///< continues the sums of its addend, in order
    bool group_scales = false;         ///< products: the third operand has a scale for each group of K
    bool block_scales = false;  ///< products: each factor has an operand with a scale for each block of K
    uint8_t window_rank = 0;    ///< convolutions: dimensions that the window moves along
    bool depthwise = false;     ///< convolutions: as many groups as input channels
    bool transposed = false;    ///< convolutions: the window spreads each element of X over Y

    bool movement = false;  ///< transfer, store: listed, but written with dst= and src=, never a compute task
    bool future = false;    ///< not stable in NEM: executable, flagged when the device lacks it
    bool refused = false;   ///< known to the language, but has no defined result: never executed

    UnitKind unit = UnitKind::cstl;       ///< the kind of unit that executes it
    MacRule macs = nullptr;               ///< products; null: none
    WorkCount work = WorkCount::results;  ///< on vector units
    OperandRead reads = OperandRead::whole;
    double cycles = 1;    ///< default of the platform's cost table: per unit of work and lane, one pass
    uint32_t passes = 1;  ///< default of the platform's cost table: times the operands are read
    EnergyKeys energy;

    Traits traits;  ///< answers to what compilers ask
};

/// Returns the row's entry for operand i; variadic operands repeat the last one of the row.
const OperandSpec& operand_spec(const std::vector<OperandSpec>& operands, size_t i);

const std::vector<OpcodeSpec>& opcode_table();
const OpcodeSpec& opcode(OpcodeId id);
std::optional<OpcodeId> find_opcode(std::string_view name);
/// Returns the known name nearest to `name` by edit distance; for "did you mean".
std::string nearest_opcode(std::string_view name);

/// Returns the energy action that a vector unit is charged for each unit of work on elements of a type: a
/// name in the energy table, without its component ("op.i8", "op.transcendental", "move").
std::string_view energy_action(const OpcodeSpec& spec, ElemType type);

}  // namespace kpu
