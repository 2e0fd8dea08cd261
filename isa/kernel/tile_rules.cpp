// Types and shapes of gather, dot, reductions and what goes along a dimension.
#include "isa/kernel/tile_rules.hpp"

namespace kpu::kernel::rules {

using namespace tile_rules;

void gather(TileExpr& expr, const Operands& in, Type /*type*/) {
    need_operands(in, 2, 3);
    const TileExpr &x = *in[0], &index = *in[1];
    need_type(index, tile_integers);
    if (index.shape.empty()) fail("indices without a last dimension. Fix: reshape them to [1].");
    if (in.size() == 3 && (!in[2]->shape.empty() || in[2]->type != x.type))
        fail("the fill is not a scalar of the operand's type. Fix: cast it.");
    if (expr.dims.empty() || (expr.dims[0] == 1) != (in.size() == 3))
        fail("fill is 1 with a third operand, else 0. Fix: write it so.");
    const std::vector<Shape> lists = lists_of(expr.dims, 1, 6);
    const Shape &offset = lists[0], &collapsed = lists[1], &start = lists[2], &batch = lists[3],
                &index_batch = lists[4], &sizes = lists[5];
    const auto in_list = [](const Shape& list, size_t i) {
        return std::find(list.begin(), list.end(), static_cast<int64_t>(i)) != list.end();
    };
    const size_t rank = x.shape.size(), batches = index.shape.size() - 1;
    bool good = sizes.size() == rank && static_cast<int64_t>(start.size()) == index.shape.back() &&
                offset.size() + collapsed.size() + batch.size() == rank && batch.size() == index_batch.size();
    for (const Shape* list : {&collapsed, &start, &batch})
        for (const int64_t d : *list) good &= d >= 0 && d < static_cast<int64_t>(rank);
    for (const int64_t d : index_batch) good &= d >= 0 && d < static_cast<int64_t>(batches);
    for (size_t i = 0; good && i < rank; ++i) {
        good &= sizes[i] >= 0 && sizes[i] <= x.shape[i];
        if (in_list(collapsed, i) || in_list(batch, i)) good &= sizes[i] <= 1;
    }
    for (size_t i = 0; good && i < batch.size(); ++i)
        good &= x.shape[static_cast<size_t>(batch[i])] == index.shape[static_cast<size_t>(index_batch[i])];
    if (!good)
        fail(fmt::format("its lists do not fit {} and {}. Fix: see docs/kernels.md.", text_of(x),
                         text_of(index)));
    Shape kept;
    for (size_t i = 0; i < rank; ++i)
        if (!in_list(collapsed, i) && !in_list(batch, i)) kept.push_back(sizes[i]);
    size_t next_kept = 0, next_batch = 0;
    for (size_t i = 0; i < batches + offset.size(); ++i) {
        const bool from_slice = in_list(offset, i);
        if (from_slice ? next_kept == kept.size() : next_batch == batches)
            fail("offset dimensions are not part of the result's. Fix: name ascending ones.");
        expr.shape.push_back(from_slice ? kept[next_kept++] : index.shape[next_batch++]);
    }
    expr.type = x.type;
}

void dot(TileExpr& expr, const Operands& in, Type type) {
    need_operands(in, 2, 2);
    for (const TileExpr* operand : in) need_type(*operand, tile_numbers);
    const std::vector<Shape> lists = lists_of(expr.dims, 0, 4);
    std::array<std::vector<bool>, 2> taken;
    for (size_t side = 0; side < 2; ++side) {
        taken[side].resize(in[side]->shape.size());
        for (const size_t which : {side, side + 2})
            for (const int64_t d : lists[which]) {
                const bool known = d >= 0 && d < static_cast<int64_t>(taken[side].size()) &&
                                   !taken[side][static_cast<size_t>(d)];
                if (!known)
                    fail("no such dimension, or named twice. Fix: contract or batch each dimension once.");
                taken[side][static_cast<size_t>(d)] = true;
            }
    }
    for (const size_t which : {size_t{0}, size_t{2}}) {
        bool good = lists[which].size() == lists[which + 1].size();
        for (size_t i = 0; good && i < lists[which].size(); ++i)
            good = in[0]->shape[static_cast<size_t>(lists[which][i])] ==
                   in[1]->shape[static_cast<size_t>(lists[which + 1][i])];
        if (!good)
            fail(fmt::format(
                "{} and {} differ in what is contracted or batched. Fix: name dimensions of equal sizes.",
                text_of(*in[0]), text_of(*in[1])));
    }
    for (const int64_t d : lists[2]) expr.shape.push_back(in[0]->shape[static_cast<size_t>(d)]);
    for (size_t side = 0; side < 2; ++side)
        for (size_t i = 0; i < taken[side].size(); ++i)
            if (!taken[side][i]) expr.shape.push_back(in[side]->shape[i]);
    const bool real = contains(tile_floats, in[0]->type);
    if (real != contains(tile_floats, in[1]->type)) fail("an integer and a float. Fix: cast one of them.");
    const Type wanted = type != Type::none ? type : real ? Type::f32 : Type::i32;
    if (!contains(real ? tile_floats : tile_integers, wanted))
        fail("its sums do not have such a type. Fix: cast the result.");
    expr.type = wanted;
}

namespace {

TypeSet types_of(const TileExpr& expr) { return operation(expr.op).tile_operands; }

void reduce(TileExpr& expr, const Operands& in, bool of_some) {
    need_operands(in, 1, 1);
    const TileExpr& x = *in[0];
    need_type(x, types_of(expr));
    std::vector<bool> gone(x.shape.size());
    for (size_t i = 0; i < expr.dims.size(); ++i) gone[axis_of(expr, i, x)] = true;
    for (size_t i = 0; i < x.shape.size(); ++i) {
        if (!gone[i]) expr.shape.push_back(x.shape[i]);
        if (gone[i] && of_some && x.shape[i] == 0)
            fail("the greatest or least of nothing. Fix: reduce dimensions that are not empty.");
    }
    expr.type = x.type;
}

/// Takes the dimension of operations along one, their first number: the result is like the first operand.
size_t along(TileExpr& expr, const Operands& in) {
    need_operands(in, 1, 64);
    const size_t axis = axis_of(expr, 0, *in[0]);
    expr.shape = in[0]->shape;
    expr.type = in[0]->type;
    return axis;
}

}  // namespace

void reduce(TileExpr& expr, const Operands& in, Type /*type*/) { reduce(expr, in, false); }
void extreme(TileExpr& expr, const Operands& in, Type /*type*/) { reduce(expr, in, true); }

void search(TileExpr& expr, const Operands& in, Type /*type*/) {
    const size_t axis = along(expr, in);
    need_operands(in, 1, 1);
    need_numbers(expr, 1);
    need_type(*in[0], types_of(expr));
    if (in[0]->shape[axis] == 0)
        fail("the greatest or least of nothing. Fix: use a dimension that is not empty.");
    expr.shape.erase(expr.shape.begin() + static_cast<ptrdiff_t>(axis));
    expr.type = Type::i32;
}

void sort_index(TileExpr& expr, const Operands& in, Type /*type*/) {
    along(expr, in);
    need_numbers(expr, 2);
    for (const TileExpr* key : in)
        if (key->shape != in[0]->shape) fail("keys of other shapes. Fix: use keys of one shape.");
    expr.type = Type::i32;
}

void permute(TileExpr& expr, const Operands& in, Type /*type*/) {
    const size_t axis = along(expr, in);
    need_operands(in, 2, 2);
    need_numbers(expr, 1);
    need_type(*in[1], set_of(Type::i32));
    const TileExpr& x = *in[0];
    Shape index = in[1]->shape;
    if (index.size() == x.shape.size()) index[axis] = x.shape[axis];
    if (index != x.shape)
        fail(fmt::format("{} does not index {} along that dimension. Fix: use equal other dimensions.",
                         text_of(*in[1]), text_of(x)));
    expr.shape = in[1]->shape;
}

void roll(TileExpr& expr, const Operands& in, Type /*type*/) {
    along(expr, in);
    need_operands(in, 2, 2);
    need_index(*in[1]);
    if (expr.dims.size() == 1) expr.dims.insert(expr.dims.end(), {0, 0});
    need_numbers(expr, 3);
    axis_of(expr, 2, *in[0]);
}

void sort(TileExpr& expr, const Operands& in, Type /*type*/) {
    along(expr, in);
    need_operands(in, 1, 1);
    need_numbers(expr, 1);
}

void scan(TileExpr& expr, const Operands& in, Type /*type*/) {
    along(expr, in);
    need_operands(in, 1, 1);
    need_numbers(expr, 2);
    need_type(*in[0], types_of(expr));
}

}  // namespace kpu::kernel::rules
