// Caches: constant starts make slices and a concatenation, which can stay in place; computed ones a kernel that scatters.
#include "compiler/onnx/attention/caches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "compiler/graph/data.hpp"
#include "compiler/graph/execute.hpp"
#include "compiler/onnx/moves/indexing.hpp"
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

/// Adds rows [from, to) of x along the axis, if there are any.
void add_rows(Call& call, std::vector<ValueId>& parts, ValueId x, size_t axis, int64_t from, int64_t to) {
    if (from >= to) return;
    const bool all = from == 0 && to == call.sizes(x)[axis];
    parts.push_back(all ? x : call.slice(x, static_cast<int64_t>(axis), from, to));
}

/// True if a value depends on inputs that follow from the position, and on nothing else.
bool follows_position(const graph::Graph& graph, ValueId value) {
    std::map<ValueId, bool> inputs;
    for (const graph::Port& port : graph.inputs) inputs[port.value] = port.follows != graph::Follows::none;
    const std::vector<int32_t> makers = graph::producers(graph);
    bool follows = false;
    std::set<ValueId> seen{value};
    for (std::vector<ValueId> open{value}; !open.empty();) {
        const ValueId id = open.back();
        open.pop_back();
        if (const auto input = inputs.find(id); input != inputs.end()) {
            if (!input->second) return false;
            follows = true;
        }
        if (makers[id] < 0) continue;
        for (const ValueId from : graph.nodes[static_cast<size_t>(makers[id])].inputs) {
            if (seen.insert(from).second) open.push_back(from);
        }
    }
    return follows;
}

/// Returns the contents at a position of an input that follows.
graph::Data input_at(const graph::Graph& graph, const graph::Port& port, int64_t position) {
    const graph::Value& value = graph.value(port.value);
    const int64_t last = value.shape.rank == 0 ? 1 : value.shape[value.shape.rank - 1U],
                  number = position + port.plus;
    std::vector<double> numbers;
    for (int64_t i = 0; i < static_cast<int64_t>(value.elements()); ++i)
        numbers.push_back(port.follows == graph::Follows::position ? double(number)
                          : i % last <= number                     ? 1
                                                                   : 0);
    return graph::make_numbers(value.elem, numbers);
}

/// Returns the graph of this value alone.
graph::Graph graph_of(const graph::Graph& graph, ValueId value) {
    graph::Graph part = graph;
    part.outputs = {{"value", value, part.value(value).elem, graph::HostType::same, {}}};
    part.inputs.clear();
    for (const graph::Port& port : graph.inputs) {
        if (port.follows != graph::Follows::none) part.inputs.push_back(port);
    }
    graph::remove_unused(part);
    return part;
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

/// Scatters each batch's rows by the kernel.
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

/// Writes new rows that begin at the position.
ValueId written_at_position(Call& call, ValueId cache, ValueId update, size_t axis, ValueId starts) {
    graph::Positions& positions = call.graph.positions;
    const int64_t rows = call.sizes(update)[axis], room = call.sizes(cache)[axis];
    if (positions.count - 1 + rows > room)
        Call::refuse(fmt::format("--positions: a cache of {} rows has {} positions for {} new rows", room,
                                 room - rows + 1, rows));
    check_position(call, starts, 0);
    positions.rows = rows;
    return call.emit(
        "insert_rows", {cache, update},
        {graph::integer("axis", static_cast<int64_t>(axis)), graph::integer("start", positions.count - 1)});
}

}  // namespace

ValueId written(Call& call, ValueId cache, ValueId update, size_t axis, const Starts& starts, bool circular) {
    const Sizes shape = call.sizes(cache);
    Sizes fits = shape;
    fits.at(axis) = call.sizes(update).at(axis);
    if (axis == 0 || call.sizes(update) != fits || fits[axis] > shape[axis])
        Call::refuse(
            fmt::format("new rows {} do not fit to a cache {}", text_of(call.sizes(update)), text_of(shape)));
    if (starts.computed && call.graph.positions.any() && !circular)
        return written_at_position(call, cache, update, axis, *starts.computed);
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

void check_numbers(const Call& call, ValueId numbers, int64_t plus) {
    if (!follows_position(call.graph, numbers))
        Call::refuse(
            "--positions: where its new rows go, or how many rows count, does not follow from the position "
            "(--bind "
            "INPUT=position, --bind INPUT=upto(position) say which inputs do)");
    const graph::Graph part = graph_of(call.graph, numbers);
    const auto backend = values::make_fast_backend();
    const int64_t last = call.graph.positions.count - 1;
    for (const int64_t position : {int64_t{0}, last / 2, last}) {
        std::vector<graph::Data> inputs;
        for (const graph::Port& port : part.inputs) inputs.push_back(input_at(part, port, position));
        graph::Value made = part.value(part.outputs[0].value);
        made.data = graph::GraphExecutor(part, *backend).run(inputs).at(0);
        for (const double number : graph::numbers(made)) {
            if (number != static_cast<double>(position + plus))
                Call::refuse(fmt::format(
                    "--positions: at position {} its rows {} {}, not {}: check what --bind says of its "
                    "inputs",
                    position, plus == 0 ? "begin at" : "that count are", number, position + plus));
        }
    }
}

}  // namespace

void check_position(Call& call, ValueId numbers, int64_t plus) {
    call.once(fmt::format("position %{} {}", numbers, plus), [&] {  // all layers ask alike
        check_numbers(call, numbers, plus);
        return numbers;
    });
}

ValueId chosen_form(Call& call, const std::vector<ValueId>& forms) {
    return call.emit("choose", forms, {graph::integer("index", static_cast<int64_t>(forms.size()) - 1)});
}

Sizes keys_of_forms(const Call& call, int64_t rows) {
    const graph::Positions& positions = call.graph.positions;
    Sizes keys;
    for (int64_t form = 1; form <= positions.forms(); ++form)
        keys.push_back(std::min(form * positions.step, rows));
    return keys;
}

namespace {

/// Imports past_cache, update, write_indices.
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
