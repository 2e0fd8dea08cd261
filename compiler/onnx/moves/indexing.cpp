// Operators that take elements by index.
#include "compiler/onnx/moves/indexing.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/onnx/fold/fold.hpp"
#include "compiler/onnx/operators.hpp"

namespace kpu::onnx {

/// Returns the rows of x [rows, ...] by indices of any rank; gather of the opcode needs at least one
/// dimension of them.
ValueId gathered(Call& call, ValueId x, ValueId indices, int64_t axis) {
    const Sizes of_x = call.sizes(x), of_indices = call.sizes(indices);
    if (of_indices.empty()) indices = call.reshape(indices, {1});
    Sizes shape(of_x.begin(), of_x.begin() + axis);
    shape.insert(shape.end(), of_indices.begin(), of_indices.end());
    shape.insert(shape.end(), of_x.begin() + axis + 1, of_x.end());
    if (of_x.size() + call.sizes(indices).size() - 1 > max_rank) {
        // too many dimensions on the way: the indices as one
        indices = call.reshape(indices, {elements_of(of_indices)});
    }
    return call.reshape(call.emit("gather", {x, indices}, {graph::integer("axis", axis)}), shape);
}

ValueId flat(Call& call, ValueId x, int64_t rows) {
    if (rows < 1 || elements_of(call.sizes(x)) % rows != 0) Call::refuse("its operands do not fit together");
    return call.reshape(x, {rows, elements_of(call.sizes(x)) / rows});
}

ValueId positions_constant(Call& call, std::vector<int64_t> positions, Sizes shape) {
    return call.constant(Known{Type::i64, std::move(shape), std::move(positions), {}}, ElemType::i32);
}

std::vector<int64_t> constant_rows(const Known& indices, const Sizes& dims, int64_t depth) {
    const Sizes strides = strides_of(dims);
    if (indices.real()) Call::refuse("its indices are not integers");
    std::vector<int64_t> rows;
    for (size_t i = 0; i < indices.size(); i += static_cast<size_t>(depth)) {
        int64_t row = 0;
        for (size_t k = 0; k < static_cast<size_t>(depth); ++k) {
            const int64_t index = indices.ints[i + k], at = index < 0 ? index + dims[k] : index;
            if (at < 0 || at >= dims[k])
                Call::refuse(fmt::format("its index {} is outside {} elements", index, dims[k]));
            row += at * strides[k];
        }
        rows.push_back(row);
    }
    return rows;
}

namespace {

constexpr int64_t most_positions = int64_t{1} << 24;

void gather(Call& call) {
    const auto axis = static_cast<int64_t>(call.axis("axis", 0, call.rank(0)));
    const ValueId x = call.value(0);
    if (call.in(1).constant()) {
        for (const int64_t index : call.ints_of(1, "indices")) {
            const int64_t size = call.shape(0)[static_cast<size_t>(axis)];
            if (index < -size || index >= size)
                Call::refuse(fmt::format("its index {} is outside {} elements", index, size));
        }
    }
    call.result(gathered(call, x, call.value(1), axis));
}

void gather_elements(Call& call) {
    const auto axis = static_cast<int64_t>(call.axis("axis", 0, call.rank(0)));
    call.result(call.emit("gather_elements", {call.value(0), call.value(1)}, {graph::integer("axis", axis)}));
}

/// Slices by tuples of indices: rows of a matrix by their number.
void gather_nd(Call& call) {
    const Sizes shape = call.shape(0), of_indices = call.shape(1);
    const int64_t batch = call.integer("batch_dims", 0);
    if (of_indices.empty() || batch < 0 || batch >= call.rank(1))
        Call::refuse("its indices have too few dimensions");
    const int64_t depth = of_indices.back();
    if (depth < 1 || batch + depth > call.rank(0))
        Call::refuse("its indices name more dimensions than there are");
    const Sizes batches(shape.begin(), shape.begin() + batch),
        dims(shape.begin() + batch, shape.begin() + batch + depth);
    if (!std::equal(batches.begin(), batches.end(), of_indices.begin()))
        Call::refuse("its indices have other batches than its operand");
    Sizes result(of_indices.begin(), of_indices.end() - 1);
    const Sizes index_shape = result;
    result.insert(result.end(), shape.begin() + batch + depth, shape.end());
    const int64_t each = elements_of(dims), of_batches = elements_of(batches),
                  tuples = elements_of(index_shape);
    Call::check_made({tuples});
    Call::check_made(batches);
    if (!call.in(1).constant()) {
        const ValueId indices =
            call.reshape(call.cast(call.value(1), ElemType::i32), {of_batches, tuples / of_batches, depth});
        const ValueId data = call.reshape(
            call.value(0), {of_batches, each, elements_of(shape) / std::max<int64_t>(of_batches * each, 1)});
        const ValueId picked =
            call.emit("gather_nd", {data, indices, positions_constant(call, dims, {depth})});
        return call.result(call.reshape(picked, result));
    }
    std::vector<int64_t> numbers = constant_rows(call.known(1, "indices"), dims, depth);
    for (size_t i = 0; i < numbers.size(); ++i)
        numbers[i] += static_cast<int64_t>(i) / (tuples / of_batches) * each;
    const ValueId matrix = flat(call, call.value(0), of_batches * each);
    const ValueId rows = positions_constant(call, std::move(numbers), {tuples});
    call.result(call.reshape(gathered(call, matrix, rows, 0), result));
}

/// Sets places along a new dimension that equal the index; negative indices count from the end.
void one_hot(Call& call) {
    const double given = call.number_of(1, "depths");
    if (!(given >= 1 && given <= static_cast<double>(most_positions)))
        Call::refuse(fmt::format("a depth of {} is not taken", given));
    const auto depth = static_cast<int64_t>(given);
    const size_t axis = call.axis("axis", -1, call.rank(0) + 1);
    if (depth < 1 || depth > most_positions) Call::refuse(fmt::format("a depth of {} is not taken", depth));
    Sizes shape = call.shape(0), places(shape.size() + 1, 1);
    shape.insert(shape.begin() + static_cast<int64_t>(axis), 1);
    places[axis] = depth;
    const ValueId indices = call.reshape(call.cast(call.value(0), ElemType::i32), shape);
    const auto among = [&](int64_t first) {
        std::vector<int64_t> numbers;
        for (int64_t i = 0; i < depth; ++i) numbers.push_back(first + i);
        return call.emit("equal", {indices, positions_constant(call, numbers, places)}, {}, ElemType::u8);
    };
    const ValueId hit = call.emit("or", {among(0), among(-depth)}, {}, ElemType::u8);
    const ValueId values = call.value(2);
    if (call.shape(2) != Sizes{2}) Call::refuse("its values are not two");
    const ValueId off = call.slice(values, 0, 0, 1), on = call.slice(values, 0, 1, 2);
    call.result(0, call.emit("where", {hit, on, off}, {}, call.elem(values)), call.type(2));
}

/// Sets 1 at the first of the greatest elements, else 0.
void hard_max(Call& call) {
    const ValueId x = call.value(0);
    const Sizes shape = call.shape(0);
    size_t axis = call.axis("axis", call.opset < 13 ? 1 : -1, call.rank(0));
    Sizes flat_shape = shape;
    if (call.opset < 13) {  // all dimensions from the axis on, as one
        int64_t size = 1;
        for (size_t d = axis; d < shape.size(); ++d) size *= shape[d];
        flat_shape = {elements_of(shape) / size, size};
        axis = 1;
    }
    const ValueId rows = call.reshape(x, flat_shape);
    const ValueId found = call.emit(
        "argmax", {rows}, {graph::integer("axis", static_cast<int64_t>(axis)), graph::integer("keepdims", 1)},
        ElemType::i32);
    Sizes places(flat_shape.size(), 1);
    places[axis] = flat_shape[axis];
    const ValueId hit = call.emit(
        "equal",
        {found, positions_constant(call, identity_perm(static_cast<size_t>(flat_shape[axis])), places)}, {},
        ElemType::u8);
    call.result(call.reshape(call.cast(hit, call.elem(x)), shape));
}

}  // namespace

void add_indexing(Operators& t) {
    t.push_back({"Gather", gather});
    t.push_back({"GatherElements", gather_elements, 11});
    t.push_back({"GatherND", gather_nd, 11});
    t.push_back({"OneHot", one_hot, 9});
    t.push_back({"Hardmax", hard_max});
}

}  // namespace kpu::onnx
