// Operators that write elements by index.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/onnx/fold/fold.hpp"
#include "compiler/onnx/moves/indexing.hpp"
#include "compiler/onnx/operators.hpp"
#include "compiler/onnx/products/windows.hpp"

namespace kpu::onnx {
namespace {

/// Returns what an update does to an element.
std::string_view reduction_of(const Call& call) {
    const std::string kind = call.text("reduction", "none");
    if (kind == "add") return "add";
    if (kind == "mul") return "mul";
    if (kind == "max") return "max";
    if (kind == "min") return "min";
    if (kind != "none") Call::refuse(fmt::format("reduction {} is not known", kind));
    return "";
}

/// Replaces rows of `data` [rows, width] at `targets` by those of `updates` [count, width]: a gather from
/// both, joined. With an opcode updates are combined with the rows, one update of a row after the other.
ValueId scattered(Call& call, ValueId data, ValueId updates, const std::vector<int64_t>& targets,
                  std::string_view opcode) {
    const int64_t rows = call.sizes(data)[0];
    Call::check_made({rows});
    std::vector<std::vector<int64_t>> rounds;  // of each round: the update of each row, or -1
    std::vector<size_t> seen(static_cast<size_t>(rows), 0);
    for (size_t u = 0; u < targets.size(); ++u) {
        const auto row = static_cast<size_t>(targets[u]);
        const size_t round = opcode.empty() ? 0 : seen[row]++;
        if (round == rounds.size()) rounds.emplace_back(static_cast<size_t>(rows), -1);
        rounds[round][row] = static_cast<int64_t>(u);
    }
    for (std::vector<int64_t>& round : rounds) {
        Known mask{Type::boolean, {rows, 1}, std::vector<int64_t>(opcode.empty() ? 0 : round.size()), {}};
        for (size_t row = 0; row < round.size(); ++row) {
            const bool touched = round[row] >= 0;
            if (!opcode.empty()) mask.ints[row] = touched ? 1 : 0;
            round[row] = touched ? rows + round[row] : static_cast<int64_t>(row);
        }
        const ValueId both = call.concat({data, updates}, 0);
        const ValueId chosen = gathered(call, both, positions_constant(call, std::move(round), {rows}), 0);
        if (opcode.empty()) {
            data = chosen;
            continue;
        }
        const ValueId combined = call.binary(opcode, data, chosen);
        data = call.emit("where", {call.constant(mask, ElemType::u8), combined, data}, {}, call.elem(data));
    }
    return data;
}

/// Limit of updates of one element that become gathers one after the other; more are a kernel's.
constexpr size_t most_rounds = 4;

/// Targets of constant indices that gathers are for; none: a kernel it is.
bool gathers(const std::vector<int64_t>& targets, std::string_view opcode, int64_t rows) {
    Call::check_made({rows});
    std::vector<size_t> seen(static_cast<size_t>(rows), 0);
    return opcode.empty() || std::all_of(targets.begin(), targets.end(), [&](int64_t row) {
               return ++seen[static_cast<size_t>(row)] <= most_rounds;
           });
}

}  // namespace

ValueId scatter_kernel(Call& call, ValueId data, ValueId indices, const Sizes& dims, ValueId updates,
                       std::string_view opcode) {
    const ValueId sizes = positions_constant(call, dims, {static_cast<int64_t>(dims.size())});
    if (opcode.empty()) return call.emit("scatter_nd", {data, indices, sizes, updates});
    const ElemType elem = call.elem(data), wide = is_float(elem) ? ElemType::f32 : elem;
    const int64_t how = opcode == "add" ? 1 : opcode == "mul" ? 2 : opcode == "max" ? 3 : 4;
    const ValueId made =
        call.emit("scatter_reduce", {call.cast(data, wide), indices, sizes, call.cast(updates, wide)},
                  {graph::integer("how", how)});
    if (is_float(elem)) call.graph.nodes.back().kept = ElemType::f32;  // sums of many
    return call.cast(made, elem);
}

namespace {

void scatter_nd(Call& call) {
    const Sizes shape = call.shape(0), of_indices = call.shape(1);
    if (of_indices.empty() || of_indices.back() < 1 || of_indices.back() > call.rank(0))
        Call::refuse("its indices name more dimensions than there are");
    const int64_t depth = of_indices.back(), tuples = elements_of(of_indices) / depth;
    const Sizes dims(shape.begin(), shape.begin() + depth);
    const int64_t rows = elements_of(dims);
    const std::string_view opcode = reduction_of(call);
    if (call.in(1).constant()) {
        const std::vector<int64_t> targets = constant_rows(call.known(1, "indices"), dims, depth);
        if (gathers(targets, opcode, rows)) {
            const ValueId data = flat(call, call.value(0), rows), updates = flat(call, call.value(2), tuples);
            return call.result(call.reshape(scattered(call, data, updates, targets, opcode), shape));
        }
    }
    const int64_t width = elements_of(shape) / rows;
    const ValueId indices = call.reshape(call.cast(call.value(1), ElemType::i32), {1, tuples, 1, depth});
    const ValueId data = call.reshape(call.value(0), {1, rows, width}),
                  updates = call.reshape(call.value(2), {1, tuples, width});
    call.result(call.reshape(scatter_kernel(call, data, indices, dims, updates, opcode), shape));
}

/// Returns where the elements of constant indices go.
std::vector<int64_t> element_targets(const Known& indices, const Sizes& shape, const Sizes& of_indices,
                                     size_t axis) {
    if (indices.real()) Call::refuse("its indices are not integers");
    const Sizes strides = strides_of(shape), inner = strides_of(of_indices);
    std::vector<int64_t> targets;
    for (size_t i = 0; i < indices.size(); ++i) {
        int64_t at = 0;
        for (size_t d = 0; d < shape.size(); ++d) {
            int64_t index = static_cast<int64_t>(i) / inner[d] % of_indices[d];
            if (d == axis) index = indices.ints[i] < 0 ? indices.ints[i] + shape[d] : indices.ints[i];
            if (index < 0 || index >= shape[d])
                Call::refuse(fmt::format("its index {} is outside {} elements", index, shape[d]));
            at += index * strides[d];
        }
        targets.push_back(at);
    }
    return targets;
}

/// Returns the part of the operand that the indices reach beside the axis is scattered to, the rest put back
/// around it.
ValueId scatter_box(Call& call, ValueId data, const Sizes& of_indices, size_t axis, std::string_view opcode) {
    const Sizes shape = call.sizes(data);
    for (size_t d = 0; d < shape.size(); ++d) {
        if (d == axis || shape[d] == of_indices[d]) continue;
        if (of_indices[d] > shape[d]) Call::refuse("its indices are larger than its operand");
        const auto along = static_cast<int64_t>(d);
        const ValueId part =
            scatter_box(call, call.slice(data, along, 0, of_indices[d]), of_indices, axis, opcode);
        return call.concat({part, call.slice(data, along, of_indices[d], shape[d])}, along);
    }
    int64_t outer = 1, inner = 1;
    for (size_t d = 0; d < shape.size(); ++d) {
        if (d != axis) (d < axis ? outer : inner) *= shape[d];
    }
    const int64_t n = shape[axis], m = of_indices[axis];
    const ValueId indices = call.reshape(call.cast(call.value(1), ElemType::i32), {outer, m, inner, 1}),
                  updates = call.reshape(call.value(2), {outer, m, inner});
    const ValueId made =
        scatter_kernel(call, call.reshape(data, {outer, n, inner}), indices, {n}, updates, opcode);
    return call.reshape(made, shape);
}

void scatter_elements(Call& call) {
    const Sizes shape = call.shape(0), of_indices = call.shape(1);
    const size_t axis = call.axis("axis", 0, call.rank(0));
    if (of_indices.size() != shape.size()) Call::refuse("its indices have another rank than its operand");
    const std::string_view opcode = reduction_of(call);
    if (call.in(1).constant()) {
        Call::check_made(shape);
        const std::vector<int64_t> targets =
            element_targets(call.known(1, "indices"), shape, of_indices, axis);
        if (gathers(targets, opcode, elements_of(shape))) {
            const ValueId data = flat(call, call.value(0), elements_of(shape)),
                          updates = flat(call, call.value(2), static_cast<int64_t>(targets.size()));
            return call.result(call.reshape(scattered(call, data, updates, targets, opcode), shape));
        }
    }
    call.result(scatter_box(call, call.value(0), of_indices, axis, opcode));
}

/// Inverts a MaxPool by its Indices, which count the elements of all planes; zeros where it took none. With
/// an output_shape there are more zeros at the end.
void max_unpool(Call& call) {
    const Sizes shape = call.shape(0), spatial = spatial_of(shape);
    if (call.shape(1) != shape) Call::refuse("its indices have another shape than its operand");
    const Window window = window_of(call, call.ints("kernel_shape"), spatial);
    const size_t rank = window.rank();
    Sizes made{shape[0], shape[1]}, pads(2 * shape.size(), 0);
    for (size_t d = 0; d < rank; ++d)
        made.push_back((spatial[d] - 1) * window.strides[d] + window.kernel[d] - window.pads[d] -
                       window.pads[d + rank]);
    const Sizes wanted = call.has(2) ? call.ints_of(2, "output sizes") : made;
    if (wanted.size() != made.size()) Call::refuse("its output_shape has another rank than its operand");
    for (size_t d = 0; d < made.size(); ++d) {
        pads[d + made.size()] = wanted[d] - made[d];
        if (made[d] < 1 || wanted[d] < made[d] || wanted[d] > INT32_MAX)
            Call::refuse(fmt::format("its output {} is not within {}", text_of(made), text_of(wanted)));
    }
    const int64_t planes = shape[0] * shape[1], plane = elements_of(made) / planes,
                  count = elements_of(spatial);
    Call::check_made({planes});
    std::vector<int64_t> starts;
    for (int64_t i = 0; i < planes; ++i) starts.push_back(i * plane);
    const ValueId places = call.reshape(call.cast(call.value(1), ElemType::i32), {planes, count, 1, 1});
    const ValueId inside = call.binary("sub", places, positions_constant(call, starts, {planes, 1, 1, 1}));
    const ValueId x = call.value(0);
    const ValueId y = scatter_kernel(call, call.zeros({planes, plane, 1}, call.elem(x)), inside, {plane},
                                     call.reshape(x, {planes, count, 1}), "");
    call.result(call.pad(call.reshape(y, made), pads, 0));
}

}  // namespace

void add_scatters(Operators& t) {
    t.push_back({"Scatter", scatter_elements, 9, 10});
    t.push_back({"ScatterElements", scatter_elements, 11});
    t.push_back({"ScatterND", scatter_nd, 11});
    t.push_back({"MaxUnpool", max_unpool, 9});
}

}  // namespace kpu::onnx
