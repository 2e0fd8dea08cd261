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

bool to_blocks(const OpcodeSpec&, const Types& in, const Types& out) {
    return is_float(in[0]) && !is_small_float(in[0]) && is_block_format(out[0], out[1]);
}
bool from_blocks(const OpcodeSpec&, const Types& in, const Types& out) {
    return is_block_format(in[0], in[1]) && is_float(out[0]) && !is_small_float(out[0]);
}

/// Returns the shape of X with a place for each block along `axis`.
Dims blocks_of(const ShapeCase& c) {
    Dims result = c.in(0);
    const int64_t rank = result.rank, given = c.attrs.integer("axis", -1);
    const int64_t at = given < 0 ? given + rank : given;
    if (at < 0 || at >= rank)
        c.fail("axis is {}, but X has {} dimensions. Fix: use one of them.", given, rank);
    result[static_cast<size_t>(at)] = block_count(c, result[static_cast<size_t>(at)]);
    return result;
}
std::vector<Dims> block_shapes(const ShapeCase& c) { return {c.in(0), blocks_of(c)}; }
std::vector<Dims> whole_shape(const ShapeCase& c) {
    if (!(c.in(1) == blocks_of(c)))
        c.fail("S must be {}, a scale for each block: {}. Fix: change its shape.", shape_text(blocks_of(c)),
               c.operands_text());
    return {c.in(0)};
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
    row.traits.needs = Needs::place;
    row.traits.grouping = Grouping::link;
    row.traits.converts = row.traits.any_order = row.traits.strips = true;
    return row;
}

}  // namespace

void add_conversions(Table& t) {
    t.push_back(conversion("cast", numbers,
                           "Y = X in the type of Y; float to integer truncates and saturates, integers "
                           "saturate"));
    t.back().attributes = {
        {"saturate", AttrKind::boolean, false, "true",
         "of a Y of 8 bits or fewer: numbers beyond its range and infinities become its greatest number; "
         "false: infinities of f8e5m2, NaN of f8e4m3, no other type's"}};
    t.back().inputs = {x};
    t.back().outputs = {y};
    t.back().unit = UnitKind::cstl;
    t.back().traits.of_low = OfLow::low;
    t.push_back(conversion(
        "quantize", float_to_integer,
        "dst = saturate(round_half_even(f32(f32(src) / scale)) + zero_point), quantization of dst"));
    t.push_back(
        conversion("dequantize", integer_to_float, "dst = (src - zero_point) * scale, quantization of src"));
    const AttrSpec along{"axis", AttrKind::integer, false, "-1", "dimension that blocks lie along"};
    const OperandSpec exponents{"S", false, OperandRole::data};
    t.push_back(conversion("quantize.mx", to_blocks,
                           "S in u8 = E8M0 exponent of each block: floor(log2(max |X|)) less that of dst's "
                           "greatest number, plus 127, in 0..254, 255 of NaN and infinities; S in f8e4m3 = "
                           "max |X| / dst's greatest number, at least 2^-9; dst = X / scale, saturating; i8 "
                           "counts steps of 1/64"));
    t.back().outputs = {dst, exponents};
    t.back().attributes = {block_size, along};
    t.back().shapes = block_shapes;
    t.back().traits.needs = Needs::block;
    t.push_back(conversion("dequantize.mx", from_blocks,
                           "dst = src * scale: 2^(S - 127), NaN where S is 255, or S in f8e4m3"));
    t.back().inputs = {src, exponents};
    t.back().attributes = {block_size, along};
    t.back().shapes = whole_shape;
    t.back().traits.needs = Needs::block;
    t.push_back(
        conversion("requant", narrowing,
                   "dst = saturate(round_half_even((src - zp_src) * (scale_src / scale_dst)) + zp_dst) in "
                   "binary64; i32 to i8 or i16"));
}

}  // namespace kpu::opcodes
