#pragma once
// Rules of types and shapes of tiles, and what they share.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "isa/kernel/tile_code.hpp"

namespace kpu::kernel::tile_rules {

using Operands = std::vector<const TileExpr*>;

[[noreturn]] inline void fail(const std::string& what) { throw TileMistake(what); }

inline std::string text_of(const TileExpr& expr) { return tile_text(expr.type, expr.shape); }

inline void check_shape(const Shape& shape) {
    if (shape.size() > max_tile_rank)
        fail(fmt::format("a tile of more than {} dimensions. Fix: use fewer.", max_tile_rank));
    int64_t count = 1;
    for (const int64_t size : shape) {
        if (size < 0) fail("a negative size. Fix: write the size of the dimension.");
        if (size > 0 && count > max_tile_elements / size)
            fail(fmt::format("a tile of more than {} elements. Fix: use smaller blocks.", max_tile_elements));
        count *= size;
    }
}

inline void need_operands(const Operands& in, size_t least, size_t most) {
    if (in.size() < least || in.size() > most)
        fail(fmt::format("{} operands, not {}. Fix: give it {}.", in.size(), least, least));
}
inline void need_type(const TileExpr& operand, TypeSet types) {
    if (!contains(types, operand.type))
        fail(fmt::format("not defined for `{}`. Fix: cast the operand to one of {}.", name_of(operand.type),
                         names_of(types)));
}
inline void need_numbers(const TileExpr& expr, size_t count) {
    if (expr.dims.size() != count)
        fail(fmt::format("{} numbers in braces, not {}. Fix: give it {}.", expr.dims.size(), count, count));
}
inline size_t axis_of(const TileExpr& expr, size_t number, const TileExpr& operand) {
    if (number >= expr.dims.size() || expr.dims[number] < 0 ||
        expr.dims[number] >= static_cast<int64_t>(operand.shape.size()))
        fail(fmt::format("no such dimension of {}. Fix: count from 0.", text_of(operand)));
    return static_cast<size_t>(expr.dims[number]);
}
inline void need_index(const TileExpr& operand) {
    if (!operand.shape.empty() || !contains(tile_integers, operand.type))
        fail(fmt::format("{} is not an index. Fix: give an integer scalar.", text_of(operand)));
}

}  // namespace kpu::kernel::tile_rules

/// Rules of types and shapes, named by the operations of operations.cpp. Those that take operands of the row's types
/// read them there.
namespace kpu::kernel::rules {

using tile_rules::Operands;

void binary(TileExpr& expr, const Operands& in, Type type);
void comparison(TileExpr& expr, const Operands& in, Type type);
void unary(TileExpr& expr, const Operands& in, Type type);
void classification(TileExpr& expr, const Operands& in, Type type);
void integer_pow(TileExpr& expr, const Operands& in, Type type);
void erf(TileExpr& expr, const Operands& in, Type type);
void reduce_precision(TileExpr& expr, const Operands& in, Type type);
void select(TileExpr& expr, const Operands& in, Type type);
void cast(TileExpr& expr, const Operands& in, Type type);
void bitcast(TileExpr& expr, const Operands& in, Type type);
void iota(TileExpr& expr, const Operands& in, Type type);
void broadcast(TileExpr& expr, const Operands& in, Type type);
void reshape(TileExpr& expr, const Operands& in, Type type);
void transpose(TileExpr& expr, const Operands& in, Type type);
void slice(TileExpr& expr, const Operands& in, Type type);
void dynamic_slice(TileExpr& expr, const Operands& in, Type type);
void dynamic_update(TileExpr& expr, const Operands& in, Type type);
void concat(TileExpr& expr, const Operands& in, Type type);
void pad(TileExpr& expr, const Operands& in, Type type);
void reverse(TileExpr& expr, const Operands& in, Type type);
void gather(TileExpr& expr, const Operands& in, Type type);
void scatter(TileExpr& expr, const Operands& in, Type type);
void permute(TileExpr& expr, const Operands& in, Type type);
void roll(TileExpr& expr, const Operands& in, Type type);
void dot(TileExpr& expr, const Operands& in, Type type);
void reduce(TileExpr& expr, const Operands& in, Type type);
void extreme(TileExpr& expr, const Operands& in, Type type);
void search(TileExpr& expr, const Operands& in, Type type);
void scan(TileExpr& expr, const Operands& in, Type type);
void sort(TileExpr& expr, const Operands& in, Type type);
void sort_index(TileExpr& expr, const Operands& in, Type type);

}  // namespace kpu::kernel::rules
