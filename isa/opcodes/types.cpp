// Element types that arithmetic is defined for. Devices may take fewer: their type families say so.
#include "isa/opcodes/rows.hpp"

namespace kpu::opcodes {
namespace {

template <class Fits>
bool all_fit(const std::vector<OperandSpec>& operands, const std::vector<ElemType>& types, Fits fits) {
    for (size_t i = 0; i < types.size(); ++i) {
        if (!fits(operand_spec(operands, i).role, types[i])) return false;
    }
    return true;
}

/// Returns the element type of the data operands; none when there are only conditions.
ElemType data_type(const OpcodeSpec& spec, const std::vector<ElemType>& in) {
    for (size_t i = 0; i < in.size(); ++i) {
        if (operand_spec(spec.inputs, i).role == OperandRole::data) return in[i];
    }
    return ElemType::none;
}

}  // namespace

bool is_number(ElemType type) { return is_float(type) || is_integer(type); }

bool is_narrow_integer(ElemType type) {
    return type == ElemType::i4 || type == ElemType::i8 || type == ElemType::i16 || type == ElemType::u8;
}

bool is_block_format(ElemType element, ElemType scale) {
    if (scale == ElemType::f8e4m3) return element == ElemType::f4e2m1;
    return scale == ElemType::u8 && (is_small_float(element) || element == ElemType::i8);
}

bool same_numbers(const OpcodeSpec& spec, const std::vector<ElemType>& in, const std::vector<ElemType>& out) {
    const ElemType data = data_type(spec, in);
    const auto fits = [data](OperandRole role, ElemType type) {
        if (role == OperandRole::data) return type == data && is_number(type);
        if (role == OperandRole::condition) return type == ElemType::u8;
        return is_integer(type) && type != ElemType::i4;
    };
    return all_fit(spec.inputs, in, fits) && all_fit(spec.outputs, out, fits);
}

bool same_floats(const OpcodeSpec& spec, const std::vector<ElemType>& in, const std::vector<ElemType>& out) {
    return is_float(data_type(spec, in)) && same_numbers(spec, in, out);
}

}  // namespace kpu::opcodes
