#pragma once
// The element types that an opcode takes, for tests that try them all.
#include <algorithm>
#include <string_view>
#include <vector>

#include "isa/opcodes.hpp"
#include "values/compute.hpp"

namespace kpu::values::testing {

using Types = std::vector<ElemType>;

constexpr ElemType numbers[] = {ElemType::i4,     ElemType::i8,     ElemType::i16,    ElemType::i32,
                                ElemType::u8,     ElemType::u16,    ElemType::u32,    ElemType::f16,
                                ElemType::bf16,   ElemType::f32,    ElemType::posit8, ElemType::posit16,
                                ElemType::f8e4m3, ElemType::f8e5m2, ElemType::f6e2m3, ElemType::f6e3m2,
                                ElemType::f4e2m1};

/// Elementwise opcodes: one type for all data; conditions are u8.
inline std::vector<Types> elementwise_combinations(const ComputeBackend& backend, OpcodeId id) {
    const OpcodeSpec& spec = opcode(id);
    const auto types_of = [](const std::vector<OperandSpec>& operands, ElemType data) {
        Types types;
        for (const OperandSpec& operand : operands)
            types.push_back(operand.role == OperandRole::data ? data : ElemType::u8);
        return types;
    };
    std::vector<Types> found;
    for (const ElemType data : numbers) {
        Types types = types_of(spec.inputs, data);
        const Types outputs = types_of(spec.outputs, data);
        if (!backend.supports(id, types, outputs)) continue;
        types.push_back(outputs[0]);
        if (found.empty() || found.back() != types) found.push_back(types);
    }
    return found;
}

/// Returns combinations of operands, scales of groups, and sums.
inline std::vector<Types> group_combinations(const ComputeBackend& backend, OpcodeId id) {
    std::vector<Types> found;
    for (const ElemType a : numbers) {
        for (const ElemType b : numbers) {
            for (const ElemType s : numbers) {
                if (backend.supports(id, {a, b, s}, {ElemType::f32}))
                    found.push_back({a, b, s, ElemType::f32});
            }
        }
    }
    return found;
}

/// Returns combinations of the block formats: factors, exponents, results.
inline std::vector<Types> block_combinations(const ComputeBackend& backend, OpcodeId id) {
    std::vector<Types> found;
    for (const ElemType a : numbers) {
        for (const ElemType b : numbers) {
            for (const ElemType scale : {ElemType::u8, ElemType::f8e4m3}) {
                if (backend.supports(id, {a, b, scale, scale}, {ElemType::f32}))
                    found.push_back({a, b, scale, scale, ElemType::f32});
                if (backend.supports(id, {a}, {b, scale})) found.push_back({a, b, scale});
                if (backend.supports(id, {a, scale}, {b})) found.push_back({a, scale, b});
            }
        }
    }
    return found;
}

/// Products of float8 with each other, f16 and f32 alone, and of narrower ones in blocks alone: all floats with each other would be
/// many.
inline bool too_many(const Types& types) {
    const auto any = [&](auto matches) { return std::any_of(types.begin(), types.end(), matches); };
    if (any([](ElemType type) { return is_small_float(type) && !is_float8(type); })) return true;
    return any(is_float8) && any([](ElemType type) { return is_posit(type) || type == ElemType::bf16; });
}

/// The combinations of element types an opcode takes: of two inputs (a third is a bias) and the output.
inline std::vector<Types> combinations(const ComputeBackend& backend, OpcodeId id) {
    if (opcode(id).group_scales) return group_combinations(backend, id);
    const std::string_view name = opcode(id).name;
    if (name.size() > 3 && name.substr(name.size() - 3) == ".mx") return block_combinations(backend, id);
    if (opcode(id).op_class == OpcodeClass::elementwise) return elementwise_combinations(backend, id);
    const bool single = opcode(id).op_class != OpcodeClass::gemm &&
                        opcode(id).op_class != OpcodeClass::conv &&
                        (opcode(id).inputs.size() == 1 || opcode(id).op_class == OpcodeClass::norm);
    std::vector<Types> found;
    for (const ElemType a : numbers) {
        for (const ElemType b : numbers) {
            if (single && b != numbers[0]) continue;
            for (const ElemType y : numbers) {
                const Types inputs = single ? Types{a} : Types{a, b};
                if (!backend.supports(id, inputs, {y})) continue;
                Types types = inputs;
                types.push_back(y);
                if (!single && too_many(types)) continue;
                found.push_back(types);
            }
        }
    }
    return found;
}

}  // namespace kpu::values::testing
