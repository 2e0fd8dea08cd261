#pragma once

// Helpers that the sources beside this one share: each adds the rows of one family, in the order in which
// lists and docs show them.

#include "isa/shapes.hpp"

namespace kpu::opcodes {

using Table = std::vector<OpcodeSpec>;

void add_movement(Table& table);  ///< transfer, store: written transfer.async(dst=..., src=...)
void add_products(Table& table);
void add_elementwise(Table& table);
void add_pools_and_norms(Table& table);
void add_views(Table& table);
void add_reductions(Table& table);
void add_conversions(Table& table);
void add_refused(Table& table);

inline const AttrSpec pads{"pads", AttrKind::ints, true, "", "[top, left, bottom, right]"};
inline const AttrSpec strides{"strides", AttrKind::ints, true, "", "[vertical, horizontal]"};
inline const AttrSpec axis{"axis", AttrKind::integer, true, "", "dimension; negative counts from the last"};

inline const AttrSpec block_size{"block_size", AttrKind::integer, false, "32",
                                 "elements that share an exponent; the last block may be shorter"};

inline const OperandSpec a{"A"}, b{"B"}, x{"X"}, y{"Y"}, src{"src"}, dst{"dst"};

// energy keys
inline const EnergyKeys per_element{"vector.op.TYPE"};
inline const EnergyKeys special_function{"vector.op.transcendental"};
inline const EnergyKeys data_moved{"vector.move"};

// Answers to what compilers ask (isa/traits.hpp), by their types: with_traits(row, Needs::row, Grouping::anchor).
inline void answer(Traits& traits, Needs is) { traits.needs = is; }
inline void answer(Traits& traits, Grouping is) { traits.grouping = is; }
inline void answer(Traits& traits, Shares is) { traits.shares = is; }
inline void answer(Traits& traits, OfLow is) { traits.of_low = is; }
inline void answer(Traits& traits, InSteps is) { traits.in_steps = is; }
inline void answer(Traits& traits, Homogeneous is) { traits.homogeneous = is; }
inline void answer(Traits& traits, Finite is) { traits.finite = is; }
template <class... Answers>
OpcodeSpec with_traits(OpcodeSpec row, Answers... answers) {
    (answer(row.traits, answers), ...);
    return row;
}

// Type rules (types.cpp).
/// Data operands have one type, which is a number; others hold integers or conditions.
bool same_numbers(const OpcodeSpec& spec, const std::vector<ElemType>& in, const std::vector<ElemType>& out);
bool same_floats(const OpcodeSpec& spec, const std::vector<ElemType>& in, const std::vector<ElemType>& out);
bool is_number(ElemType type);          ///< float or integer
bool is_narrow_integer(ElemType type);  ///< i4, i8, i16, u8
/// True for elements of 8 bits or fewer with E8M0 exponents in u8 (MXFP8, MXFP6, MXFP4, MXINT8), or f4e2m1
/// with f8e4m3 (NVFP4).
bool is_block_format(ElemType element, ElemType scale);

// Shape rules of several families (shape_rules.cpp).
/// Every operand has the shape of the output.
std::vector<Dims> same_shape(const ShapeCase& c);
/// Positions of a window along one axis; 0 when it does not fit at all.
int64_t window_positions(int64_t size, int64_t before, int64_t behind, int64_t window, int64_t stride);
/// Refuses windows that do not fit into X.
void check_window_fits(const ShapeCase& c, const std::vector<int64_t>& positions);
void append(const ShapeCase& c, Dims& shape, int64_t size);
/// Returns the blocks of `block_size` along an extent.
int64_t block_count(const ShapeCase& c, int64_t extent);

}  // namespace kpu::opcodes
