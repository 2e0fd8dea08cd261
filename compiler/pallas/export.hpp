#pragma once
// Exported Pallas calls, as kpusim.pallas writes them (.pallas.json): pallas.md has the form.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_document.hpp"
#include "isa/kernel/tile_code.hpp"

namespace kpu::compiler::pallas {

using Json = JsonValue;
using kernel::Shape;
using kernel::Type;

constexpr int no_variable = -1;

/// A variable, or a scalar literal.
struct Atom {
    uint64_t bits = 0;  ///< bits of a literal
    int variable = no_variable;
    Type type = Type::none;  ///< type of a literal
    bool is_literal() const { return variable == no_variable; }
};

struct IndexDim {
    bool slice = false;
    Atom start;  ///< start of the slice, or the index itself
    int64_t size = 1, stride = 1;
};
struct Transform {
    enum class Kind : uint8_t { index, bitcast, reshape, transpose } kind = Kind::index;
    std::vector<IndexDim> dims;  ///< index
    Type type = Type::none;      ///< bitcast
    Shape numbers;               ///< shape, permutation
};
struct Ref {
    int variable = no_variable;
    std::vector<Transform> at;
};

struct Equation;
struct Block {
    std::vector<int> inputs;
    std::vector<Equation> equations;
    std::vector<Atom> results;
};
struct Equation {
    std::string_view op;
    std::vector<Atom> in;
    std::vector<Ref> refs;
    std::vector<int> out;
    std::vector<Block> blocks;
    Json parameters;  ///< indexed by name
    std::string_view line;

    Shape list(const char* name) const;
    int64_t number(const char* name) const;
    bool flag(const char* name) const;
};

struct VariableType {
    Type type = Type::none;  ///< none: a semaphore
    Shape shape;
    std::string space;  ///< empty: a value
    bool is_semaphore = false;
    bool in_ddr() const { return space == "any" || space == "hbm"; }
};

struct BlockDim {
    enum class Kind : uint8_t { blocked, squeezed, element } kind = Kind::blocked;
    int64_t size = 1, low = 0;
};
struct BlockSpec {
    std::vector<BlockDim> dims;
    Block map;
    int64_t buffers = 2;
};
struct Operand {
    enum class Role : uint8_t { bound, prefetch, input, output } role = Role::input;
    size_t array = 0;
    Shape shape;
    int ref = no_variable;
    std::optional<BlockSpec> block;
};
struct GridAxis {
    int64_t size = 0;
    int bound = -1;  ///< operand that has it
};
struct Call {
    std::string name, line;
    std::vector<GridAxis> grid;
    std::vector<VariableType> types;  ///< at least one
    std::vector<uint32_t> variables;  ///< the type of each
    std::vector<Operand> operands;
    std::vector<int> scratch;
    std::vector<std::pair<size_t, size_t>> aliases;
    Block body;
    const VariableType& type_of(int variable) const {
        return types[variables[static_cast<size_t>(variable)]];
    }
};
struct Move {
    size_t from = 0, to = 0;
    int64_t from_offset = 0, to_offset = 0;
    Shape size, from_stride, to_stride;
    std::string line;
};
struct Step {
    std::optional<Call> call;
    std::optional<Move> move;
};
struct Array {
    enum class Role : uint8_t { input, output, between, constant } role = Role::input;
    std::string name;
    Type type = Type::none;
    Shape shape;
    std::string data;  ///< bytes of a constant
};
struct Export {
    std::string name;
    std::shared_ptr<const JsonDocument> document;  ///< owns the texts and parameters of equations
    std::vector<Array> arrays;
    std::vector<Step> steps;
};

/// Throws UserError that names what is wrong and where.
Export read_export(const std::string& bytes, const std::string& origin);

}  // namespace kpu::compiler::pallas
