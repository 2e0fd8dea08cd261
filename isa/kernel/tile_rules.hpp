#pragma once
// Helpers that the rules for types and shapes of tiles share.
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

void infer_gather(TileExpr& expr, const Operands& in);
void infer_dot(TileExpr& expr, const Operands& in, Type type);
void infer_reduce(TileExpr& expr, const TileExpr& x);
/// Infers operations along one dimension.
void infer_along(TileExpr& expr, const Operands& in);

}  // namespace kpu::kernel::tile_rules
