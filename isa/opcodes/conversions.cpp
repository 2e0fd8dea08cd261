// Conversions between element types.
#include "isa/opcodes/rows.hpp"

namespace kpu::opcodes {
namespace {

using Types = std::vector<ElemType>;

bool numbers(const OpcodeSpec&, const Types& in, const Types& out) {
    return is_number(in[0]) && is_number(out[0]);
}
bool float_to_integer(const OpcodeSpec&, const Types& in, const Types& out) {
    return is_float(in[0]) && is_integer(out[0]);
}
bool integer_to_float(const OpcodeSpec&, const Types& in, const Types& out) {
    return is_integer(in[0]) && is_float(out[0]);
}
bool narrowing(const OpcodeSpec&, const Types& in, const Types& out) {
    return in[0] == ElemType::i32 && is_narrow_integer(out[0]);
}

OpcodeSpec conversion(std::string_view name, TypeRule types, std::string_view formula) {
    OpcodeSpec row;
    row.name = row.family = name;
    row.inputs = {src};
    row.outputs = {dst};
    row.formula = formula;
    row.op_class = OpcodeClass::convert;
    row.types = types;
    row.shapes = same_shape;
    row.unit = UnitKind::vpu;
    row.energy = per_element;
    return row;
}

}  // namespace

void add_conversions(Table& t) {
    t.push_back(conversion("cast", numbers,
                           "Y = X in the type of Y; float to integer truncates and saturates, integers "
                           "saturate"));
    t.back().attributes = {
        {"saturate", AttrKind::boolean, false, "true",
         "of a float8 Y: numbers beyond its range and infinities become its greatest number; "
         "false: infinities of f8e5m2, NaN of f8e4m3"}};
    t.back().inputs = {x};
    t.back().outputs = {y};
    t.back().unit = UnitKind::cstl;
    t.push_back(conversion(
        "quantize", float_to_integer,
        "dst = saturate(round_half_even(f32(f32(src) / scale)) + zero_point), quantization of dst"));
    t.push_back(
        conversion("dequantize", integer_to_float, "dst = (src - zero_point) * scale, quantization of src"));
    t.push_back(
        conversion("requant", narrowing,
                   "dst = saturate(round_half_even((src - zp_src) * (scale_src / scale_dst)) + zp_dst) in "
                   "binary64; i32 to i8 or i16"));
}

}  // namespace kpu::opcodes
