// Operators that move elements: views, slices, pads, repetitions. Shapes and amounts have to be constants.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compiler/onnx/fold/shape_rules.hpp"
#include "compiler/onnx/operators.hpp"
#include "compiler/onnx/products/windows.hpp"

namespace kpu::onnx {
namespace {

using graph::ints;

/// Views the first operand in another shape; constants stay constants.
void view(Call& call, const Sizes& shape) {
    const Operand& from = call.in(0);
    if (elements_of(from.shape) != elements_of(shape))
        Call::refuse(fmt::format("{} cannot be reshaped to {}", text_of(from.shape), text_of(shape)));
    if (!from.constant()) return call.result(call.reshape(call.value(0), shape));
    Operand to;
    to.type = from.type;
    to.shape = shape;
    if (from.tensor != nullptr) {
        auto tensor = std::make_shared<Tensor>(*from.tensor);
        tensor->shape = shape;
        to.tensor = std::move(tensor);
    } else {
        auto known = std::make_shared<Known>(*from.known);
        known->shape = shape;
        to.known = std::move(known);
    }
    call.result(0, std::move(to));
}

void reshape(Call& call) {
    view(call,
         reshape_target(call.shape(0), call.ints_of(1, "target sizes"), call.integer("allowzero", 0) != 0));
}

void flatten(Call& call) {
    const int64_t rank = call.rank(0), given = call.integer("axis", 1),
                  axis = given < 0 ? given + rank : given;
    if (axis < 0 || axis > rank)
        Call::refuse(fmt::format("axis {} is outside the {} dimensions", given, rank));
    const Sizes& shape = call.shape(0);
    const auto middle = shape.begin() + axis;
    view(call, {elements_of({shape.begin(), middle}), elements_of({middle, shape.end()})});
}

void squeeze(Call& call) { view(call, squeezed(call, call.shape(0), call.ints("axes", 1, 13))); }

void unsqueeze(Call& call) { view(call, unsqueezed(call, call.shape(0), call.ints("axes", 1, 13))); }

void transpose(Call& call) {
    const ValueId x = call.value(0);
    call.result(call.transpose(x, transpose_perm(call)));
}

void concat(Call& call) {
    std::vector<ValueId> parts;
    for (size_t i = 0; i < call.inputs(); ++i) parts.push_back(call.value(i));
    call.result(call.concat(parts, static_cast<int64_t>(call.axis("axis", 1, call.rank(0)))));
}

/// Returns the first operand without elements along one dimension: only a concat takes it.
Known nothing(const Call& call, size_t axis) {
    Known empty{call.type(0), call.shape(0), {}, {}};
    empty.shape[axis] = 0;
    return empty;
}

void split(Call& call) {
    const size_t axis = call.axis("axis", 0, call.rank(0));
    const Sizes sizes = split_sizes(call, call.shape(0)[axis]);
    const ValueId x = call.value(0);
    int64_t start = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
        if (sizes[i] == 0) {
            call.result(i, nothing(call, axis));
        } else if (call.wants(i)) {
            const bool whole = sizes.size() == 1;
            call.result(i, whole ? x : call.slice(x, static_cast<int64_t>(axis), start, start + sizes[i]),
                        call.type(0));
        }
        start += sizes[i];
    }
}

void slice(Call& call) {
    const SliceSpec spec = slice_spec(call);
    const ValueId x = call.value(0);
    SliceSpec needed;  // a slice that takes a whole dimension is none
    for (size_t i = 0; i < spec.axes.size(); ++i) {
        const auto axis = static_cast<size_t>(spec.axes[i]);
        const int64_t size = call.shape(0)[axis];
        if (spec.steps[i] != 0 && slice_range(size, spec.starts[i], spec.ends[i], spec.steps[i]).count == 0)
            return call.result(0, nothing(call, axis));
        if (spec.steps[i] == 1 && (spec.starts[i] == 0 || spec.starts[i] <= -size) && spec.ends[i] >= size)
            continue;
        needed.starts.push_back(spec.starts[i]);
        needed.ends.push_back(spec.ends[i]);
        needed.axes.push_back(spec.axes[i]);
        needed.steps.push_back(spec.steps[i]);
    }
    if (needed.axes.empty()) return call.result(0, call.in(0));
    call.result(call.emit("slice", {x},
                          {ints("starts", needed.starts), ints("ends", needed.ends),
                           ints("axes", needed.axes), ints("steps", needed.steps)},
                          ElemType::none, call.graph.value(x).quant));
}

/// Copies of the other end: what mode wrap puts around.
ValueId wrapped(Call& call, ValueId x, size_t axis, int64_t before, int64_t behind) {
    const int64_t size = call.sizes(x)[axis], d = static_cast<int64_t>(axis);
    if (before > size || behind > size)
        Call::refuse("mode wrap with pads wider than the operand is not taken");
    std::vector<ValueId> parts;
    if (before > 0) parts.push_back(call.slice(x, d, size - before, size));
    parts.push_back(x);
    if (behind > 0) parts.push_back(call.slice(x, d, 0, behind));
    return call.concat(parts, d);
}

void pad(Call& call) {
    const size_t rank = call.shape(0).size();
    Sizes pads = pad_amounts(call);
    ValueId x = call.value(0);
    for (size_t d = 0; d < rank; ++d) {  // negative pads cut
        int64_t &before = pads[d], &behind = pads[d + rank];
        if (before >= 0 && behind >= 0) continue;
        const int64_t size = call.sizes(x)[d], start = std::max<int64_t>(0, -before),
                      end = size + std::min<int64_t>(0, behind);
        x = call.slice(x, static_cast<int64_t>(d), start, end);
        before = std::max<int64_t>(before, 0);
        behind = std::max<int64_t>(behind, 0);
    }
    const std::string mode = call.text("mode", "constant");
    if (mode == "constant") {
        double value = call.opset < 11 ? call.real("value", 0) : 0;
        if (call.opset >= 11 && call.has(2)) value = call.number_of(2, "constant value");
        // the model pads with a step, the opcode with what it stands for
        if (const BoundQuant& quant = call.graph.value(x).quant; quant.kind == proto::Quant::PER_TENSOR)
            value = (value - static_cast<double>(quant.zero_points[0])) * quant.scales[0];
        return call.result(call.pad(x, pads, value));
    }
    if (mode == "wrap") {
        for (size_t d = 0; d < rank; ++d) x = wrapped(call, x, d, pads[d], pads[d + rank]);
        return call.result(x);
    }
    call.result(call.emit("pad", {x}, {ints("pads", pads), graph::word("mode", mode)}));
}

void expand(Call& call) {
    const Sizes target = call.ints_of(1, "target sizes");
    call.result(call.expand(call.value(0), target));
}

/// Copies along one dimension: a new dimension in front of it, expanded.
ValueId repeated(Call& call, ValueId x, size_t axis, int64_t times) {
    Sizes shape = call.sizes(x);
    if (times == 1) return x;
    if (times < 0) Call::refuse(fmt::format("{} repetitions are not taken", times));
    const auto middle = shape.begin() + static_cast<std::ptrdiff_t>(axis);
    const int64_t outer = elements_of({shape.begin(), middle}), inner = elements_of({middle, shape.end()});
    x = call.expand(call.reshape(x, {outer, 1, inner}), {outer, times, inner});
    shape[axis] *= times;
    return call.reshape(x, shape);
}

void tile(Call& call) {
    const Sizes& repeats = call.ints_of(1, "repetitions");
    if (repeats.size() != call.shape(0).size()) Call::refuse("it needs as many repetitions as dimensions");
    ValueId x = call.value(0);
    for (size_t d = 0; d < repeats.size(); ++d) x = repeated(call, x, d, repeats[d]);
    call.result(x);
}

/// Reshuffles channels, which the opcodes have last.
void reshuffle(Call& call) {
    const bool spread = call.node.type == "DepthToSpace";
    const int64_t block = call.integer("blocksize", 0);
    if (call.rank(0) != 4 || block < 1) Call::refuse("it needs four dimensions and a blocksize");
    const std::string mode = call.text("mode", "DCR");
    call.result(channels_first(
        call, call.emit(spread ? "depth_to_space" : "space_to_depth", {channels_last(call, call.value(0))},
                        {graph::integer("block", block), graph::word("mode", mode)})));
}

/// Keeps the triangle, and makes the rest zero.
void trilu(Call& call) {
    if (call.rank(0) < 2) Call::refuse("it needs two dimensions");
    const Sizes& shape = call.shape(0);
    const int64_t rows = shape[shape.size() - 2], columns = shape.back();
    const int64_t diagonal = call.has(1) ? call.integer_of(1, "diagonals") : 0;
    const bool upper = call.integer("upper", 1) != 0;
    Call::check_made({rows, columns});
    Known mask{Type::boolean, {rows, columns}, {}, {}};
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c)
            mask.ints.push_back((upper ? c - r >= diagonal : c - r <= diagonal) ? 1 : 0);
    }
    const ValueId x = call.value(0);
    call.result(call.emit("where", {call.constant(mask, ElemType::u8), x, call.number(0, call.elem(x))}, {},
                          call.elem(x)));
}

}  // namespace

void add_shapes(Operators& t) {
    t.push_back({"Reshape", reshape});
    t.push_back({"Flatten", flatten});
    t.push_back({"Squeeze", squeeze});
    t.push_back({"Unsqueeze", unsqueeze});
    t.push_back({"Transpose", transpose});
    t.push_back({"Concat", concat});
    t.push_back({"Split", split});
    t.push_back({"Slice", slice});
    t.push_back({"Pad", pad});
    t.push_back({"Expand", expand, 8});
    t.push_back({"Tile", tile});
    t.push_back({"DepthToSpace", reshuffle});
    t.push_back({"SpaceToDepth", reshuffle});
    t.push_back({"Trilu", trilu, 14});
    add_constants(t);
}

}  // namespace kpu::onnx
