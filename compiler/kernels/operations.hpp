#pragma once
// Operations of graphs that no opcode computes: each is a kernel of operators.kern.
//
// An operation has a row as opcodes have one (isa/opcodes.hpp), so graphs, passes and numbers treat it like any other
// node; beside that the row says how it is launched and along which dimensions it may be cut.
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "isa/bound_program.hpp"
#include "isa/opcodes.hpp"

namespace kpu::kernels {

using Shapes = std::vector<Dims>;

/// An axis that tiles are cut along: the dimension of each operand that follows it, -1 where all of it is needed.
/// Dimensions of 1 beside longer ones are needed whole, too.
struct Cut {
    std::string_view name;
    std::vector<int> inputs, outputs;
};

/// Predicted work of a launch.
struct Work {
    int64_t invocations = 32;                 ///< invocations of a workgroup: lanes that work at once
    double lane_operations = 0;               ///< operations of all lanes together
    double copies = 0, length_of_a_copy = 0;  ///< from memory, that it makes itself; elements
};

/// A launch on operands of certain shapes.
struct Launch {
    int64_t workgroups = 1;
    std::vector<int64_t> scalars;
    Work work;
    /// Words of the kernel's text and what stands for them: kernels that copy are made for certain sizes, and `lengths`
    /// that follow from them.
    std::vector<std::pair<std::string, int64_t>> sizes = {}, lengths = {};
};

/// The kernel's buffers are the operands of the row in their order, inputs first.
struct Operation {
    OpcodeSpec spec;
    std::vector<Cut> cuts;
    Launch (*launch)(const Shapes& inputs, const Shapes& outputs, const BoundAttrs& attrs) = nullptr;
    /// The input that stays in memory, of which the kernel copies parts; -1: all are brought to L1.
    int in_place = -1;
};

/// Returns one row for each, in the order of their ids.
const std::vector<Operation>& operations();
/// Ids of operations follow those of opcodes; null: an opcode.
const Operation* find(OpcodeId id);
/// Returns an opcode or an operation.
const OpcodeSpec& spec_of(OpcodeId id);
std::optional<OpcodeId> find_spec(std::string_view name);

/// The kernel of an operation on tensors of one type.
struct Instance {
    proto::KernelBody body;
    std::shared_ptr<const kernel::Code> code;
    bool needs_values = false;  ///< to know how long it takes
};
/// Returns the instance, made once for each type, and for the sizes of a launch.
const Instance& instance_of(const Operation& operation, ElemType data, const Launch& launch);
/// Returns the type that an operation works on: that of its first data operand, integers for posits; u8 if it
/// has none.
ElemType data_type(const Operation& operation, const std::vector<ElemType>& inputs);

}  // namespace kpu::kernels
