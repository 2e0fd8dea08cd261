// Caches: constant starts make slices and a concatenation, which can stay in place; computed ones a kernel that scatters.
#include "compiler/onnx/caches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "compiler/onnx/indexing.hpp"
#include "compiler/onnx/operators.hpp"

namespace kpu::onnx {

std::optional<int64_t> Starts::same() const {
    const bool equal = std::all_of(known.begin(), known.end(), [&](int64_t s) { return s == known[0]; });
    return computed || known.empty() || !equal ? std::nullopt : std::optional(known[0]);
}

std::string Starts::text() const {
    if (computed) return fmt::format("%{}", *computed);
    if (const auto start = same()) return fmt::format("{}", *start);
    return text_of(known);
}

Starts starts_of(Call& call, size_t operand, int64_t batch, int64_t plus) {
    const int64_t count = elements_of(call.shape(operand));
    if (count != batch && count != 1)
        Call::refuse(
            fmt::format("`{}` has {} numbers for {} batches", call.node.inputs[operand], count, batch));
    Call::check_made({batch});
    Starts starts;
    if (call.in(operand).constant()) {
        for (const int64_t start : call.ints_of(operand, "positions")) starts.known.push_back(start + plus);
        starts.known.resize(static_cast<size_t>(batch), starts.known[0]);
        return starts;
    }
    const ValueId from = call.value(operand);
    starts.computed = call.once(fmt::format("starts %{} {} {}", from, batch, plus), [&] {
        const ValueId given = call.reshape(call.cast(from, ElemType::i32), {count});
        const ValueId moved =
            plus == 0 ? given
                      : call.binary("add", given, call.number(static_cast<double>(plus), ElemType::i32));
        return call.expand(moved, {batch});
    });
    return starts;
}

namespace {

/// Rows [from, to) of x along the axis, if there are any.
void add_rows(Call& call, std::vector<ValueId>& parts, ValueId x, size_t axis, int64_t from, int64_t to) {
    if (from >= to) return;
    const bool all = from == 0 && to == call.sizes(x)[axis];
    parts.push_back(all ? x : call.slice(x, static_cast<int64_t>(axis), from, to));
}

ValueId written_at(Call& call, ValueId cache, ValueId update, size_t axis, int64_t start, bool circular) {
    const int64_t rows = call.sizes(cache)[axis], count = call.sizes(update)[axis];
    if (circular) start = ((start % rows) + rows) % rows;
    const int64_t end = start + count, wrapped = circular ? std::max<int64_t>(end - rows, 0) : 0;
    if (start < 0 || end - wrapped > rows)
        Call::refuse(fmt::format("{} new rows from {} on leave a cache of {}", count, start, rows));
    std::vector<ValueId> parts;
    add_rows(call, parts, update, axis, count - wrapped, count);
    add_rows(call, parts, cache, axis, wrapped, start);
    add_rows(call, parts, update, axis, 0, count - wrapped);
    add_rows(call, parts, cache, axis, end, rows);
    return call.concat(parts, static_cast<int64_t>(axis));
}

/// Each batch's rows by the kernel.
ValueId scattered_rows(Call& call, ValueId cache, ValueId update, size_t axis, ValueId starts,
                       bool circular) {
    const Sizes shape = call.sizes(cache);
    const int64_t rows = shape[axis], count = call.sizes(update)[axis], batch = shape[0];
    const auto at = shape.begin() + static_cast<std::ptrdiff_t>(axis);
    const int64_t outer = elements_of({shape.begin(), at}), width = elements_of({at + 1, shape.end()});
    ValueId places =
        call.binary("add", call.reshape(starts, {batch, 1, 1}),
                    positions_constant(call, identity_perm(static_cast<size_t>(count)), {1, 1, count}));
    if (circular)
        places = call.binary("floor_mod", places, call.number(static_cast<double>(rows), ElemType::i32));
    places = call.reshape(call.expand(places, {batch, outer / batch, count}), {outer, count, 1, 1});
    const ValueId made = scatter_kernel(call, call.reshape(cache, {outer, rows, width}), places, {rows},
                                        call.reshape(update, {outer, count, width}), "");
    return call.reshape(made, shape);
}

}  // namespace

ValueId written(Call& call, ValueId cache, ValueId update, size_t axis, const Starts& starts, bool circular) {
    const Sizes shape = call.sizes(cache);
    Sizes fits = shape;
    fits.at(axis) = call.sizes(update).at(axis);
    if (axis == 0 || call.sizes(update) != fits || fits[axis] > shape[axis])
        Call::refuse(
            fmt::format("new rows {} do not fit to a cache {}", text_of(call.sizes(update)), text_of(shape)));
    if (starts.computed) return scattered_rows(call, cache, update, axis, *starts.computed, circular);
    if (const auto start = starts.same()) return written_at(call, cache, update, axis, *start, circular);
    std::vector<ValueId> batches;
    for (int64_t b = 0; b < shape[0]; ++b) {
        batches.push_back(written_at(call, call.slice(cache, 0, b, b + 1), call.slice(update, 0, b, b + 1),
                                     axis, starts.known[static_cast<size_t>(b)], circular));
    }
    return call.concat(batches, 0);
}

namespace {

/// What a computed value depends on: inputs that follow from the position, and nothing else.
bool follows_position(const graph::Graph& graph, ValueId value) {
    std::map<ValueId, bool> inputs;
    for (const graph::Port& port : graph.inputs) inputs[port.value] = port.follows != graph::Follows::none;
    std::map<ValueId, const graph::Node*> makers;
    for (const graph::Node& node : graph.nodes) {
        for (const ValueId id : node.outputs) makers[id] = &node;
    }
    bool follows = false;
    std::set<ValueId> seen{value};
    for (std::vector<ValueId> open{value}; !open.empty();) {
        const ValueId id = open.back();
        open.pop_back();
        if (const auto input = inputs.find(id); input != inputs.end()) {
            if (!input->second) return false;
            follows = true;
        }
        if (makers.count(id) == 0) continue;
        for (const ValueId from : makers[id]->inputs) {
            if (seen.insert(from).second) open.push_back(from);
        }
    }
    return follows;
}

}  // namespace

ValueId written_at_position(Call& call, ValueId cache, ValueId update, size_t axis, ValueId starts) {
    graph::Positions& positions = call.graph.positions;
    const int64_t rows = call.sizes(update)[axis], room = call.sizes(cache)[axis];
    if (!follows_position(call.graph, starts))
        Call::refuse(
            "--positions: where its new rows go does not follow from the position (--bind INPUT=position, "
            "--bind INPUT=upto(position) say which inputs do)");
    if (positions.count - 1 + rows > room)
        Call::refuse(fmt::format("--positions: a cache of {} rows has {} positions for {} new rows", room,
                                 room - rows + 1, rows));
    positions.rows = rows;
    return call.emit(
        "insert_rows", {cache, update},
        {graph::integer("axis", static_cast<int64_t>(axis)), graph::integer("start", positions.count - 1)});
}

Sizes keys_of_forms(const Call& call, int64_t rows) {
    const graph::Positions& positions = call.graph.positions;
    const int64_t most = positions.count - 1 + positions.rows;
    Sizes keys;
    for (int64_t all = positions.step; all - positions.step < most; all += positions.step)
        keys.push_back(std::min(all, rows));
    return keys;
}

namespace {

/// past_cache, update, write_indices.
void tensor_scatter(Call& call) {
    const std::string mode = call.text("mode", "linear");
    if (mode != "linear" && mode != "circular") Call::refuse(fmt::format("mode {} is not known", mode));
    const size_t axis = call.axis("axis", -2, call.rank(0));
    const int64_t batch = call.rank(0) == 0 ? 1 : call.shape(0)[0];
    const Starts starts = call.has(2) ? starts_of(call, 2, batch) : Starts{Sizes(size_t(batch), 0), {}};
    call.result(written(call, call.value(0), call.value(1), axis, starts, mode == "circular"));
}

}  // namespace

void add_caches(Operators& t) { t.push_back({"TensorScatter", tensor_scatter, 24}); }

}  // namespace kpu::onnx
