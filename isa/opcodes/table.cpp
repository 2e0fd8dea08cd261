// The opcode table: the families, one after the other. Each source beside this one holds the rows of a
// family; what an opcode computes stands in values/.
#include <algorithm>
#include <unordered_map>

#include "base/diagnostics.hpp"
#include "base/text.hpp"
#include "isa/opcodes/rows.hpp"

namespace kpu {
namespace {

opcodes::Table make_table() {
    opcodes::Table table;
    opcodes::add_movement(table);
    opcodes::add_products(table);
    opcodes::add_elementwise(table);
    opcodes::add_pools_and_norms(table);
    opcodes::add_views(table);
    opcodes::add_reductions(table);
    opcodes::add_conversions(table);
    opcodes::add_refused(table);
    return table;
}

}  // namespace

const OperandSpec& operand_spec(const std::vector<OperandSpec>& operands, size_t i) {
    return operands[std::min(i, operands.size() - 1)];
}

const std::vector<OpcodeSpec>& opcode_table() {
    static const std::vector<OpcodeSpec> table = make_table();
    return table;
}

const OpcodeSpec& opcode(OpcodeId id) {
    if (id >= opcode_table().size()) throw InternalError("opcode id out of range");
    return opcode_table()[id];
}

std::optional<OpcodeId> find_opcode(std::string_view name) {
    static const std::unordered_map<std::string_view, OpcodeId> ids = [] {
        std::unordered_map<std::string_view, OpcodeId> by_name;
        for (const OpcodeSpec& spec : opcode_table())
            by_name.emplace(spec.name, static_cast<OpcodeId>(by_name.size()));
        return by_name;
    }();
    const auto found = ids.find(name);
    return found == ids.end() ? std::nullopt : std::optional<OpcodeId>(found->second);
}

std::string nearest_opcode(std::string_view name) {
    std::vector<std::string_view> names;
    for (const OpcodeSpec& spec : opcode_table()) names.push_back(spec.name);
    return nearest_name(name, names);
}

std::string_view energy_action(const OpcodeSpec& spec, ElemType type) {
    constexpr std::string_view component = "vector.";
    const std::string_view key = spec.energy.back();
    if (key.substr(0, component.size()) != component) throw InternalError("not an opcode of a vector unit");
    if (key != opcodes::per_element.back()) return key.substr(component.size());
    switch (without_es(type)) {
        case ElemType::i16:
        case ElemType::u16:
            return "op.i16";
        case ElemType::i32:
        case ElemType::u32:
            return "op.i32";
        case ElemType::f16:
        case ElemType::f8e4m3:  // lanes widen them
        case ElemType::f8e5m2:
        case ElemType::f6e2m3:
        case ElemType::f6e3m2:
        case ElemType::f4e2m1:
            return "op.f16";
        case ElemType::posit8:
            return "op.posit8";
        case ElemType::posit16:
            return "op.posit16";
        case ElemType::bf16:
            return "op.bf16";
        case ElemType::f32:
            return "op.f32";
        default:
            return "op.i8";
    }
}

}  // namespace kpu
