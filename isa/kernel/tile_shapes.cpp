// Types and shapes of operations on tiles.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "isa/kernel/tile_rules.hpp"

namespace kpu::kernel {

int64_t elements_of(const Shape& shape) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    return count;
}

std::string tile_text(Type type, const Shape& shape) {
    return fmt::format("{}[{}]", name_of(type), fmt::join(shape, ", "));
}

unsigned tile_bytes(Type type) { return (tile_bits(type) + 7) / 8; }

unsigned tile_bits(Type type) { return type == Type::boolean ? 8 : storage_bits(type); }

std::vector<Shape> lists_of(const Shape& dims, size_t from, size_t count) {
    std::vector<Shape> lists;
    for (size_t at = from; lists.size() < count;) {
        const int64_t length = at < dims.size() ? dims[at] : -1;
        if (length < 0 || static_cast<size_t>(length) > dims.size() - at - 1)
            throw TileMistake(fmt::format(
                "its numbers are not {} lists. Fix: write each list's length, then its members.", count));
        lists.emplace_back(dims.begin() + static_cast<ptrdiff_t>(at) + 1,
                           dims.begin() + static_cast<ptrdiff_t>(at) + 1 + length);
        at += static_cast<size_t>(length) + 1;
        if (lists.size() == count && at != dims.size())
            throw TileMistake("numbers follow its lists. Fix: leave them out.");
    }
    return lists;
}

namespace rules {

using namespace tile_rules;

namespace {

/// Joins equal shapes, or scalars beside them.
Shape joined(const Operands& in) {
    Shape shape;
    for (const TileExpr* operand : in)
        if (!operand->shape.empty()) shape = operand->shape;
    for (const TileExpr* operand : in)
        if (!operand->shape.empty() && operand->shape != shape)
            fail(fmt::format("operands of shapes [{}] and [{}]. Fix: broadcast one of them.",
                             fmt::join(shape, ", "), fmt::join(operand->shape, ", ")));
    return shape;
}

}  // namespace

void binary(TileExpr& expr, const Operands& in, Type /*type*/) {
    need_operands(in, 2, 2);
    for (const TileExpr* operand : in) need_type(*operand, operation(expr.op).tile_operands);
    if (in[0]->type != in[1]->type)
        fail(fmt::format("operands of types `{}` and `{}`. Fix: cast one of them.", name_of(in[0]->type),
                         name_of(in[1]->type)));
    expr.shape = joined(in);
    expr.type = in[0]->type;
}

void comparison(TileExpr& expr, const Operands& in, Type type) {
    binary(expr, in, type);
    expr.type = Type::boolean;
}

void unary(TileExpr& expr, const Operands& in, Type /*type*/) {
    need_operands(in, 1, 1);
    need_type(*in[0], operation(expr.op).tile_operands);
    expr.shape = in[0]->shape;
    expr.type = in[0]->type;
}

void classification(TileExpr& expr, const Operands& in, Type type) {
    unary(expr, in, type);
    expr.type = Type::boolean;
}

void integer_pow(TileExpr& expr, const Operands& in, Type type) {
    need_numbers(expr, 1);
    unary(expr, in, type);
}

void erf(TileExpr& expr, const Operands& in, Type type) {
    if (!expr.dims.empty()) need_numbers(expr, 1);
    unary(expr, in, type);
}

void reduce_precision(TileExpr& expr, const Operands& in, Type type) {
    need_numbers(expr, 2);
    if (expr.dims[0] < 2 || expr.dims[0] > 8 || expr.dims[1] < 0 || expr.dims[1] > 23)
        fail("no such precision. Fix: 2 to 8 bits of exponent, 0 to 23 of mantissa.");
    unary(expr, in, type);
}

void select(TileExpr& expr, const Operands& in, Type /*type*/) {
    need_operands(in, 3, 3);
    need_type(*in[0], set_of(Type::boolean));
    if (in[1]->type != in[2]->type)
        fail(fmt::format("cases of types `{}` and `{}`. Fix: cast one of them.", name_of(in[1]->type),
                         name_of(in[2]->type)));
    expr.shape = joined(in);
    expr.type = in[1]->type;
}

void cast(TileExpr& expr, const Operands& in, Type type) {
    need_operands(in, 1, 1);
    if (!contains(tile_types, type))
        fail(fmt::format("no tiles of `{}`. Fix: use one of {}.", name_of(type), names_of(tile_types)));
    expr.type = type;
    expr.shape = in[0]->shape;
}

void bitcast(TileExpr& expr, const Operands& in, Type type) {
    need_operands(in, 1, 1);
    const TileExpr& x = *in[0];
    if (!contains(tile_types, type)) fail("it needs a type. Fix: write bitcast{i32}(x).");
    const unsigned from = tile_bits(x.type), to = tile_bits(type);
    expr.type = type;
    expr.shape = x.shape;
    if (from == to) return;
    if (x.shape.size() < 2)
        fail(fmt::format("{} has no second last dimension. Fix: use a type of the same width.", text_of(x)));
    int64_t& rows = expr.shape[x.shape.size() - 2];
    if (from < to && rows % (to / from) != 0)
        fail(fmt::format("rows of {} make no whole rows of `{}`. Fix: use as many as fit.", text_of(x),
                         name_of(type)));
    rows = from > to ? rows * (from / to) : rows / (to / from);
}

void broadcast(TileExpr& expr, const Operands& in, Type /*type*/) {
    need_operands(in, 1, 1);
    const TileExpr& x = *in[0];
    const size_t rank = x.shape.size();
    if (expr.dims.size() < rank)
        fail(
            "it needs the shape of the result, then a dimension of it for each of the operand's. Fix: write "
            "them.");
    expr.shape.assign(expr.dims.begin(), expr.dims.end() - static_cast<ptrdiff_t>(rank));
    expr.type = x.type;
    for (size_t i = 0; i < rank; ++i) {
        const int64_t to = expr.dims[expr.shape.size() + i];
        const bool fits = to >= 0 && to < static_cast<int64_t>(expr.shape.size()) &&
                          (i == 0 || expr.dims[expr.shape.size() + i - 1] < to) &&
                          (x.shape[i] == 1 || x.shape[i] == expr.shape[static_cast<size_t>(to)]);
        if (!fits)
            fail(fmt::format("{} does not fill [{}] so. Fix: name ascending dimensions of the same size.",
                             text_of(x), fmt::join(expr.shape, ", ")));
    }
}

void transpose(TileExpr& expr, const Operands& in, Type /*type*/) {
    need_operands(in, 1, 1);
    const TileExpr& x = *in[0];
    need_numbers(expr, x.shape.size());
    std::vector<bool> seen(x.shape.size());
    for (size_t i = 0; i < x.shape.size(); ++i) {
        const size_t from = axis_of(expr, i, x);
        if (seen[from]) fail("no permutation. Fix: name each dimension once.");
        seen[from] = true;
        expr.shape.push_back(x.shape[from]);
    }
    expr.type = x.type;
}

void slice(TileExpr& expr, const Operands& in, Type /*type*/) {
    need_operands(in, 1, 1);
    const TileExpr& x = *in[0];
    const size_t rank = x.shape.size();
    need_numbers(expr, 3 * rank);
    for (size_t i = 0; i < rank; ++i) {
        const int64_t start = expr.dims[i], limit = expr.dims[rank + i], stride = expr.dims[2 * rank + i];
        if (start < 0 || limit < start || limit > x.shape[i] || stride < 1)
            fail(fmt::format("no part of {}. Fix: slice within it.", text_of(x)));
        expr.shape.push_back((limit - start + stride - 1) / stride);
    }
    expr.type = x.type;
}

void concat(TileExpr& expr, const Operands& in, Type /*type*/) {
    need_operands(in, 1, 4096);
    need_numbers(expr, 1);
    const size_t axis = axis_of(expr, 0, *in[0]);
    expr.shape = in[0]->shape;
    expr.type = in[0]->type;
    expr.shape[axis] = 0;
    for (const TileExpr* part : in) {
        bool fits = part->type == expr.type && part->shape.size() == expr.shape.size();
        for (size_t i = 0; fits && i < expr.shape.size(); ++i)
            fits = i == axis || part->shape[i] == expr.shape[i];
        if (!fits)
            fail(fmt::format("{} beside {}. Fix: join tiles that differ in that dimension only.",
                             text_of(*part), text_of(*in[0])));
        expr.shape[axis] += part->shape[axis];
    }
}

void pad(TileExpr& expr, const Operands& in, Type /*type*/) {
    need_operands(in, 2, 2);
    const TileExpr& x = *in[0];
    const size_t rank = x.shape.size();
    need_numbers(expr, 3 * rank);
    if (!in[1]->shape.empty() || in[1]->type != x.type)
        fail("the padding is not a scalar of the operand's type. Fix: cast it.");
    constexpr int64_t most = int64_t{1} << 32;
    for (size_t i = 0; i < rank; ++i) {
        const int64_t low = expr.dims[i], high = expr.dims[rank + i], interior = expr.dims[2 * rank + i];
        if (interior < 0 || interior > most || std::abs(low) > most || std::abs(high) > most)
            fail("no such padding. Fix: write low, high and interior widths.");
        const int64_t size = low + high + x.shape[i] + std::max<int64_t>(x.shape[i] - 1, 0) * interior;
        if (size < 0) fail("the padding removes more than there is. Fix: remove less.");
        expr.shape.push_back(size);
    }
    expr.type = x.type;
}

namespace {

void dynamic(TileExpr& expr, const Operands& in, bool update) {
    const size_t first = update ? 2 : 1;
    if (in.empty()) fail("no operands. Fix: give it a tile.");
    const TileExpr& x = *in[0];
    need_operands(in, first + x.shape.size(), first + x.shape.size());
    for (size_t i = first; i < in.size(); ++i) need_index(*in[i]);
    const Shape part = update ? in[1]->shape : expr.dims;
    bool fits = part.size() == x.shape.size() && (!update || in[1]->type == x.type);
    for (size_t i = 0; fits && i < part.size(); ++i) fits = part[i] >= 0 && part[i] <= x.shape[i];
    if (!fits)
        fail(fmt::format("[{}] is not part of {}. Fix: use sizes within it.", fmt::join(part, ", "),
                         text_of(x)));
    expr.shape = update ? x.shape : part;
    expr.type = x.type;
}

}  // namespace

void dynamic_slice(TileExpr& expr, const Operands& in, Type /*type*/) { dynamic(expr, in, false); }
void dynamic_update(TileExpr& expr, const Operands& in, Type /*type*/) { dynamic(expr, in, true); }

void iota(TileExpr& expr, const Operands& in, Type type) {
    need_operands(in, 0, 0);
    if (expr.dims.empty()) fail("it needs a dimension and a shape. Fix: write iota{i32, 0, 8, 128}().");
    expr.type = type == Type::none ? Type::i32 : type;
    expr.shape.assign(expr.dims.begin() + 1, expr.dims.end());
    if (expr.dims[0] < 0 || expr.dims[0] >= static_cast<int64_t>(expr.shape.size()))
        fail("no such dimension. Fix: count from 0.");
}

void reshape(TileExpr& expr, const Operands& in, Type /*type*/) {
    need_operands(in, 1, 1);
    check_shape(expr.dims);
    expr.shape = expr.dims;
    expr.type = in[0]->type;
    if (elements_of(expr.shape) != elements_of(in[0]->shape))
        fail(fmt::format("{} has not as many elements. Fix: reshape to as many.", text_of(*in[0])));
}

void reverse(TileExpr& expr, const Operands& in, Type /*type*/) {
    need_operands(in, 1, 1);
    for (size_t i = 0; i < expr.dims.size(); ++i) axis_of(expr, i, *in[0]);
    expr.shape = in[0]->shape;
    expr.type = in[0]->type;
}

void scatter(TileExpr& expr, const Operands& in, Type /*type*/) {
    need_operands(in, 3, 3);
    need_type(*in[1], set_of(Type::i32));
    if (in[2]->type != in[0]->type || in[2]->shape != in[1]->shape)
        fail("values that are not those of the indices. Fix: give one for each index, of the tile's type.");
    expr.shape = in[0]->shape;
    expr.type = in[0]->type;
}

}  // namespace rules

void infer_tile(TileExpr& expr, const std::vector<const TileExpr*>& in, Type type) {
    using namespace tile_rules;
    const TileRule rule = operation(expr.op).tile_rule;
    if (rule == nullptr)
        fail("rule set `xla` has no such operation. Fix: see docs/kernels.md for those on tiles.");
    rule(expr, in, type);
    if (!contains(tile_types, expr.type))
        fail(fmt::format("no tiles of `{}`. Fix: use one of {}.", name_of(expr.type), names_of(tile_types)));
    check_shape(expr.shape);
}

bool has_products(const Code& code) {
    return code.tiles != nullptr && std::any_of(code.tiles->exprs.begin(), code.tiles->exprs.end(),
                                                [](const TileExpr& expr) { return expr.op == Op::dot; });
}

}  // namespace kpu::kernel
