#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"
#include "isa/unit_kind.hpp"

namespace kpu {

/// Position in opcode_table(); stable only within one build. Files store names.
using OpcodeId = uint16_t;

enum class AttrKind : uint8_t { integer, real, boolean, elem_type, ints, text, word };

struct AttrSpec {
    std::string_view name;
    AttrKind kind;
    bool required;
    std::string_view default_text;  ///< as NEM text; empty when required or when leaving it out has a meaning
    std::string_view meaning;
};

struct OperandSpec {
    std::string_view name;  ///< the name type families bind: A B C Y, X W B Y, src dst
    bool optional = false;
};

/// How a unit's time for this opcode is computed.
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

/// One row of the opcode table (isa/opcode_table.cpp): parser, verifier, values, model, lists and docs read
/// this.
struct OpcodeSpec {
    std::string_view name;
    std::vector<OperandSpec> inputs;
    std::vector<OperandSpec> outputs;
    bool variadic_inputs = false;
    bool variadic_outputs = false;
    std::vector<AttrSpec> attributes;
    std::string_view
        family;     ///< prefix of the type families that bind it: gemm, conv2d, eltwise, ...; "" none
    UnitKind unit;  ///< the kind of unit that executes it
    OpcodeClass op_class;
    bool in_place_allowed = false;  ///< an input region may be the output region
    bool movement = false;  ///< transfer, store: listed, but written with dst= and src=, never a compute task
    bool future = false;    ///< not stable in NEM: executable, flagged when the device lacks it
    bool refused = false;   ///< known to the language, but has no defined result: never executed
    bool integers_need_quant = false;  ///< plain integers are refused: the formula has no integer meaning
    bool transcendental = false;       ///< charged as a special function, whatever the element type
    double cycles = 1;         ///< default of the platform's cost table: per element and lane, one pass
    uint32_t passes = 1;       ///< default of the platform's cost table: times the operand is read
    std::string_view formula;  ///< one line, for lists and docs
};

const std::vector<OpcodeSpec>& opcode_table();
const OpcodeSpec& opcode(OpcodeId id);
std::optional<OpcodeId> find_opcode(std::string_view name);
/// The known name nearest to `name` by edit distance; for "did you mean".
std::string nearest_opcode(std::string_view name);

}  // namespace kpu
