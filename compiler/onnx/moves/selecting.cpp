// Operators that choose among elements by their values: kernels (compiler/kernels). What has a length that depends on
// data has the length that it has at most; the rest is -1.
#include <algorithm>
#include <limits>

#include "compiler/onnx/moves/indexing.hpp"
#include "compiler/onnx/operators.hpp"

namespace kpu::onnx {
namespace {

// ---- TopK

struct Top {
    ValueId values, indices;  ///< [rows, k]
};

Top top_of_rows(Call& call, ValueId x, int64_t k, bool largest) {
    const ValueId values =
        call.emit("top_k", {x}, {graph::integer("k", k), graph::integer("largest", largest ? 1 : 0)});
    return {values, values + 1};
}

/// Rows are sorted in blocks, and what is left of each is sorted again: few of many need not sort them all, and
/// long rows need not fit L1.
int64_t block_for(int64_t k) {
    int64_t block = 256;
    while (block < 4 * k) block *= 2;
    return block;
}

Top top_of(Call& call, ValueId x, int64_t k, bool largest) {
    const int64_t rows = call.sizes(x)[0], n = call.sizes(x)[1], block = block_for(k);
    if (n < 2 * block) return top_of_rows(call, x, k, largest);
    const int64_t blocks = n / block, rest = n % block;
    const ValueId whole = rest == 0 ? x : call.slice(x, 1, 0, blocks * block);
    const Top best = top_of_rows(call, call.reshape(whole, {rows * blocks, block}), k, largest);
    Sizes starts;
    for (int64_t b = 0; b < blocks; ++b) starts.push_back(b * block);
    ValueId values = call.reshape(best.values, {rows, blocks * k});
    ValueId indices = call.binary("add", call.reshape(best.indices, {rows, blocks, k}),
                                  positions_constant(call, starts, {1, blocks, 1}));
    indices = call.reshape(indices, {rows, blocks * k});
    if (rest > 0) {
        const Top last = top_of_rows(call, call.slice(x, 1, blocks * block, n), std::min(k, rest), largest);
        const ValueId start = call.number(static_cast<double>(blocks * block), ElemType::i32);
        values = call.concat({values, last.values}, 1);
        indices = call.concat({indices, call.binary("add", last.indices, start)}, 1);
    }
    const Top chosen = top_of(call, values, k, largest);
    const ValueId where =
        call.emit("gather_elements", {indices, chosen.indices}, {graph::integer("axis", 1)});
    return {chosen.values, where};
}

void top_k(Call& call) {
    const size_t axis = call.axis("axis", -1, call.rank(0)), last = call.shape(0).size() - 1;
    const Sizes perm = swapped_perm(call.shape(0).size(), axis, last);
    const int64_t n = call.shape(0)[axis],
                  k = call.opset < 10 ? call.integer("k", 0) : call.integer_of(1, "K");
    if (k < 1 || k > n) Call::refuse(fmt::format("K is {} of {} elements", k, n));
    const bool largest = call.integer("largest", 1) != 0;
    const ValueId x = call.transpose(call.value(0), perm);
    Sizes shape = call.sizes(x);
    const Top top = top_of(call, call.reshape(x, {elements_of(shape) / n, n}), k, largest);
    shape[last] = k;
    call.result(0, call.transpose(call.reshape(top.values, shape), perm), call.type(0));
    call.result(1, call.transpose(call.reshape(top.indices, shape), perm), Type::i64);
}

// ---- elements that a mask leaves

struct Found {
    ValueId positions, coordinates, count;  ///< [n], [n, dims], [1]
};

/// Finds where a mask is set, in order.
Found found(Call& call, ValueId mask, const Sizes& dims) {
    const ValueId sizes = positions_constant(call, dims, {static_cast<int64_t>(dims.size())});
    const ValueId flat_mask = call.reshape(mask, {elements_of(call.sizes(mask))});
    const ValueId positions = call.emit("compact", {flat_mask, sizes}, {}, ElemType::i32);
    return {positions, positions + 1, positions + 2};
}

/// Finds where a position is -1.
ValueId is_none(Call& call, ValueId positions) {
    return call.emit("less", {positions, call.number(0, ElemType::i32)}, {}, ElemType::u8);
}

/// Gathers at positions, -1 where there is none.
ValueId gathered_or_none(Call& call, ValueId x, ValueId positions, int64_t axis) {
    const ValueId first = call.number(0, ElemType::i32);
    const ValueId made = gathered(call, x, call.binary("max", positions, first), axis);
    Sizes along(call.sizes(x).size(), 1);
    along[static_cast<size_t>(axis)] = elements_of(call.sizes(positions));
    const ValueId none = is_none(call, call.reshape(positions, along));
    return call.emit("where", {none, call.number(-1, call.elem(x)), made}, {}, call.elem(x));
}

ValueId is_set(Call& call, ValueId x) {
    return call.emit("not_equal", {x, call.number(0, call.elem(x))}, {}, ElemType::u8);
}

void non_zero(Call& call) {
    Sizes dims = call.shape(0);
    if (dims.empty()) dims = {1};
    const Found set = found(call, is_set(call, call.value(0)), dims);
    call.result(0, call.transpose(set.coordinates, {1, 0}), Type::i64);
    call.counted(0, set.count);
}

void compress(Call& call) {
    ValueId x = call.value(0);
    int64_t axis = 0;
    if (call.has_attribute("axis")) {
        axis = static_cast<int64_t>(call.axis("axis", 0, call.rank(0)));
    } else {
        x = call.reshape(x, {elements_of(call.shape(0))});
    }
    const int64_t size = call.sizes(x)[static_cast<size_t>(axis)];
    if (call.rank(1) != 1) Call::refuse("its condition has not one dimension");
    if (call.in(1).constant()) {
        Sizes positions;
        const Known& condition = call.known(1, "condition");
        for (int64_t i = 0; i < std::min<int64_t>(size, static_cast<int64_t>(condition.size())); ++i) {
            if (condition.ints[static_cast<size_t>(i)] != 0) positions.push_back(i);
        }
        if (positions.empty()) {
            Known nothing{call.type(0), call.sizes(x), {}, {}};
            nothing.shape[static_cast<size_t>(axis)] = 0;
            return call.result(0, std::move(nothing));
        }
        const auto count = static_cast<int64_t>(positions.size());
        return call.result(gathered(call, x, positions_constant(call, std::move(positions), {count}), axis));
    }
    ValueId condition = call.value(1);
    if (call.shape(1)[0] > size) condition = call.slice(condition, 0, 0, size);
    const Found kept = found(call, is_set(call, condition), call.sizes(condition));
    call.result(gathered_or_none(call, x, kept.positions, axis));
    call.counted(0, kept.count);
}

// ---- different elements

ValueId nonnegative_or(Call& call, ValueId x, double other) {
    return call.emit("where", {is_none(call, x), call.number(other, ElemType::i32), x}, {}, ElemType::i32);
}

/// Marks the elements of a sorted row that differ from the one before.
ValueId changes(Call& call, ValueId sorted, int64_t n) {
    const ValueId first = call.reshape(call.number(1, ElemType::u8), {1});
    if (n == 1) return first;
    const ValueId behind = call.slice(sorted, 0, 1, n), before = call.slice(sorted, 0, 0, n - 1);
    return call.concat({first, call.emit("not_equal", {behind, before}, {}, ElemType::u8)}, 0);
}

/// Finds unique elements: equal ones stand beside each other when sorted, the first of them in front.
void unique(Call& call) {
    const int64_t n = elements_of(call.shape(0));
    if (call.has_attribute("axis") && call.rank(0) != 1) Call::refuse("it compares slices along an axis");
    if (n == 0) Call::refuse("its operand is empty");
    const auto row = [&](ValueId x) { return call.reshape(x, {n}); };
    const auto ascending = [&](ValueId x) { return top_of(call, call.reshape(x, {1, n}), n, false); };
    const Top all = ascending(call.value(0));
    const ValueId values = row(all.values), order = row(all.indices), last = call.number(n, ElemType::i32);
    const ValueId mask = changes(call, values, n);
    const Found starts = found(call, mask, {n});
    const ValueId at = starts.positions;
    ValueId kept = gathered_or_none(call, values, at, 0), first = gathered_or_none(call, order, at, 0);
    ValueId next = call.reshape(last, {1});
    if (n > 1) next = call.concat({nonnegative_or(call, call.slice(at, 0, 1, n), double(n)), next}, 0);
    ValueId counts =
        call.emit("where", {is_none(call, at), call.number(-1, ElemType::i32), call.binary("sub", next, at)},
                  {}, ElemType::i32);
    const ValueId groups = call.binary(
        "sub", call.emit("cumsum", {call.cast(mask, ElemType::i32)}, {graph::integer("axis", 0)}), 1.0);
    ValueId inverse = gathered(call, groups, row(ascending(order).indices), 0);
    if (call.integer("sorted", 1) == 0) {  // in the order in which they first occur
        const Top by_first = ascending(nonnegative_or(call, first, double(n)));
        const ValueId from = row(by_first.indices);
        kept = gathered(call, kept, from, 0);
        first = gathered(call, first, from, 0);
        counts = gathered(call, counts, from, 0);
        inverse = gathered(call, row(ascending(from).indices), inverse, 0);
    }
    call.result(0, kept, call.type(0));
    call.counted(0, starts.count);
    if (call.wants(1)) call.result(1, first, Type::i64), call.counted(1, starts.count);
    if (call.wants(2)) call.result(2, inverse, Type::i64);
    if (call.wants(3)) call.result(3, counts, Type::i64), call.counted(3, starts.count);
}

// ---- boxes

ValueId threshold(Call& call, size_t operand, double absent) {
    if (!call.has(operand)) return call.constant(Known{Type::f32, {1}, {}, {absent}}, ElemType::f32);
    return call.reshape(call.value(operand), {1});
}

/// Lists [image, class, box], the best box of each class first.
void non_max_suppression(Call& call) {
    if (call.rank(0) != 3 || call.rank(1) != 3) Call::refuse("boxes and scores have not three dimensions");
    const int64_t images = call.shape(1)[0], classes = call.shape(1)[1], n = call.shape(1)[2];
    const int64_t most = call.has(2) ? call.integer_of(2, "max_output_boxes_per_class") : 0;
    if (most < 1) Call::refuse("it selects no box");
    const int64_t limit = std::min(most, n), all = images * classes * limit;
    const ValueId overlap = threshold(call, 3, 0);
    const ValueId least = threshold(call, 4, std::numeric_limits<float>::lowest());
    const ValueId selected = call.emit(
        "non_max_suppression", {call.value(0), call.value(1), overlap, least},
        {graph::integer("limit", limit), graph::integer("center", call.integer("center_point_box", 0))},
        ElemType::i32);
    call.graph.nodes.back().kept = ElemType::f32;  // what overlaps too much is a matter of the last bits
    const ValueId boxes = call.reshape(selected, {all});
    const ValueId there =
        call.emit("greater_equal", {boxes, call.number(0, ElemType::i32)}, {}, ElemType::u8);
    const Found kept = found(call, there, {images, classes, limit});
    const ValueId box = call.reshape(gathered_or_none(call, boxes, kept.positions, 0), {all, 1});
    call.result(0, call.concat({call.slice(kept.coordinates, 1, 0, 2), box}, 1), Type::i64);
    call.counted(0, kept.count);
}

}  // namespace

void add_selecting(Operators& t) {
    t.push_back({"TopK", top_k});
    t.push_back({"NonZero", non_zero, 9});
    t.push_back({"Compress", compress, 9});
    t.push_back({"Unique", unique, 11});
    t.push_back({"NonMaxSuppression", non_max_suppression, 10});
}

}  // namespace kpu::onnx
