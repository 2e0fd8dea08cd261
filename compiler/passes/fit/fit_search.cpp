// Searches in rows that are longer than a tile: where the largest or least element is, and which the first k are.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/graph/data.hpp"
#include "compiler/passes/fit/fit_tiles.hpp"

namespace kpu::passes {
namespace {

/// Adds nodes in the place of a node.
class Pieces {
  public:
    Pieces(Rewriter& rewriter, const Node& node) : rewriter_(rewriter), node_(node) {}

    const graph::Value& of(ValueId id) const { return rewriter_.graph.value(id); }
    /// Adds a node whose result has the type of its first operand, or this one.
    ValueId add(std::string_view opcode, std::vector<ValueId> operands, BoundAttrs attrs = {},
                ElemType elem = ElemType::none) {
        const graph::Value& first = of(operands[0]);
        const bool same = elem == ElemType::none || elem == first.elem;
        const graph::NodeOptions options{
            node_.source, {}, same ? first.elem : elem, same ? first.quant : BoundQuant{}};
        return rewriter_.add(opcode, std::move(operands), std::move(attrs), options);
    }
    ValueId reshape(ValueId x, std::vector<int64_t> shape) {
        return add("reshape", {x}, graph::attributes({graph::ints("target_shape", std::move(shape))}));
    }
    ValueId concat(const std::vector<ValueId>& parts, int64_t axis) {
        return add("concat", parts, graph::attributes({graph::integer("axis", axis)}));
    }
    ValueId gathered(ValueId x, ValueId places, int64_t axis) {
        return add("gather_elements", {x, places}, graph::attributes({graph::integer("axis", axis)}));
    }
    /// Positions in parts, as positions in all: part i begins at i * size.
    ValueId from_start(ValueId places, int64_t first, int64_t count, int64_t size,
                       std::vector<int64_t> shape) {
        std::vector<double> starts;
        for (int64_t i = 0; i < count; ++i) starts.push_back(static_cast<double>(first + i * size));
        const ValueId constant =
            rewriter_.add_constant(node_.source.name + "/starts", ElemType::i32, graph::dims(shape),
                                   graph::make_numbers(ElemType::i32, starts));
        return add("add", {places, constant});
    }
    ValueId number(int64_t value) {
        return rewriter_.add_constant(node_.source.name + "/number", ElemType::i32, graph::dims({1}),
                                      graph::make_numbers(ElemType::i32, {static_cast<double>(value)}));
    }
    ValueId choice(ValueId condition, ValueId a, ValueId b) {
        return rewriter_.add("where", {condition, a, b}, {}, {node_.source, {}, of(a).elem, of(a).quant});
    }
    void finish(NodeId id, const std::vector<ValueId>& results) {
        for (size_t i = 0; i < results.size(); ++i) rewriter_.replace(node_.outputs[i], results[i]);
        rewriter_.remove(id);
    }

  private:
    Rewriter& rewriter_;
    const Node node_;
};

// ---- where the largest element is

/// Results along `axis`, which stays with size 1.
struct Found {
    ValueId greatest, place;
};

class Search {
  public:
    Search(Pieces& pieces, const Node& node) : pieces_(pieces), node_(node), largest_(is(node, "argmax")) {}

    ValueId place(ValueId x, int64_t axis) {
        BoundAttrs attrs = node_.attrs;
        set_integer(attrs, "axis", axis);
        set_integer(attrs, "keepdims", 1);
        return pieces_.add(node_.spec().name, {x}, attrs, ElemType::i32);
    }
    Found found(ValueId x, int64_t axis) {
        const BoundAttrs attrs =
            graph::attributes({graph::ints("axes", {axis}), graph::integer("keepdims", 1)});
        return {pieces_.add(largest_ ? "reduce_max" : "reduce_min", {x}, attrs), place(x, axis)};
    }
    /// Returns, of several that were found, side by side along an axis, the place of the best.
    ValueId best(const Found& of, int64_t axis) {
        return pieces_.gathered(of.place, place(of.greatest, axis), axis);
    }

  private:
    Pieces& pieces_;
    const Node& node_;
    bool largest_;
};

}  // namespace

bool fit_search(Rewriter& rewriter, NodeId id, const TileRoom& room) {
    const Node node = rewriter.graph.nodes[id];
    if (!is_any(node, {"argmax", "argmin"})) return false;
    const graph::Value x = rewriter.graph.value(node.inputs[0]);
    const std::vector<int64_t> shape = shape_list(x.shape),
                               result = shape_list(rewriter.graph.value(node.outputs[0]).shape);
    const size_t d = from_front(node.attrs.integer("axis", 0), shape.size());
    const int64_t length = shape[d], run = run_behind(x, d), axis = static_cast<int64_t>(d);
    if (room.fits(x.elem, length * run)) return false;
    Pieces pieces(rewriter, node);
    Search search(pieces, node);
    const int64_t part = divisor_that_fits(length, run, x.elem, room);
    if (part > 1 && x.shape.rank < max_rank) {
        std::vector<int64_t> cut = shape, starts(shape.size() - d, 1);
        cut[d] = starts[0] = length / part;
        cut.insert(cut.begin() + axis + 1, part);
        Found of = search.found(pieces.reshape(node.inputs[0], cut), axis + 1);
        cut.erase(cut.begin() + axis + 1);
        of = {pieces.reshape(of.greatest, cut), pieces.reshape(of.place, cut)};
        of.place = pieces.from_start(of.place, 0, length / part, part, starts);
        pieces.finish(id, {pieces.reshape(search.best(of, axis), result)});
        return true;
    }
    const int64_t first = length - rest_of_parts(length, run, x.elem, room);
    if (first == length) return false;
    std::vector<ValueId> greatest, places;
    for (const auto& [from, to] : {std::pair<int64_t, int64_t>{0, first}, {first, length}}) {
        const Found of = search.found(pieces.add("slice", {node.inputs[0]}, slice_of(axis, from, to)), axis);
        greatest.push_back(of.greatest);
        places.push_back(from == 0 ? of.place : pieces.from_start(of.place, from, 1, 0, {1}));
    }
    const Found of{pieces.concat(greatest, axis), pieces.concat(places, axis)};
    pieces.finish(id, {pieces.reshape(search.best(of, axis), result)});
    return true;
}

// ---- what was found there

namespace {

/// Positions that a search of the same operator gives: none is outside, or counts from the end.
bool is_search(const Node* maker, const Node& node) {
    return maker != nullptr && maker->source.name == node.source.name &&
           is_any(*maker, {"top_k", "argmax", "argmin", "gather_elements", "where"});
}

}  // namespace

bool fit_gathered(Rewriter& rewriter, NodeId id, const TileRoom& room) {
    const Node node = rewriter.graph.nodes[id];
    if (!is(node, "gather_elements") || !is_search(rewriter.producer(node.inputs[1]), node)) return false;
    const graph::Value x = rewriter.graph.value(node.inputs[0]);
    const size_t d = from_front(node.attrs.integer("axis", 0), x.shape.rank);
    const int64_t length = x.shape[d], run = run_behind(x, d), axis = static_cast<int64_t>(d);
    const int64_t size = most_that_fit(length, run, x.elem, room);
    if (size == length || size == 1) return false;
    Pieces pieces(rewriter, node);
    const ValueId place = node.inputs[1];
    ValueId result = 0;
    for (int64_t first = 0; first < length; first += size) {
        const int64_t end = std::min(length, first + size);
        ValueId inside = place;
        if (first > 0)
            inside = pieces.add("max", {pieces.add("sub", {place, pieces.number(first)}), pieces.number(0)});
        inside = pieces.add("min", {inside, pieces.number(end - first - 1)});
        const ValueId piece = pieces.add("slice", {node.inputs[0]}, slice_of(axis, first, end));
        const ValueId found = pieces.gathered(piece, inside, axis);
        if (first == 0) {
            result = found;
            continue;
        }
        const ValueId here = pieces.add("greater_equal", {place, pieces.number(first)}, {}, ElemType::u8);
        result = pieces.choice(here, found, result);
    }
    pieces.finish(id, {result});
    return true;
}

// ---- the first k

namespace {

int64_t power_of_two(int64_t least) {
    int64_t power = 1;
    while (power < least) power *= 2;
    return power;
}

/// Returns the bytes that a row of top_k has in a tile: elements, places of all, and of k both.
uint64_t row_bytes(ElemType elem, int64_t n, int64_t k) {
    const auto count = static_cast<uint64_t>(n + k);
    return packed_bytes(elem, count) + 4 * static_cast<uint64_t>(power_of_two(n) + k);
}

}  // namespace

bool fit_top_k(Rewriter& rewriter, NodeId id, const TileRoom& room) {
    const Node node = rewriter.graph.nodes[id];
    if (!is(node, "top_k")) return false;
    const graph::Value x = rewriter.graph.value(node.inputs[0]);
    const int64_t rows = x.shape[0], n = x.shape[1], k = node.attrs.integer("k", 1);
    if (room.has(row_bytes(x.elem, n, k))) return false;
    int64_t block = power_of_two(n) / 2;
    while (4 * block >= 5 * k && !room.has(row_bytes(x.elem, block, k))) block /= 2;
    if (4 * block < 5 * k && !room.has(row_bytes(x.elem, k, k) / 4))
        throw UserError(fmt::format(
            "{} ({}): the first {} of rows of {} are kept in order in L1 while a row passes, and do not fit "
            "it: a sort "
            "of a row that is longer than L1 is not taken. Fix: choose a device with a larger L1 (--set "
            "engine.l1.size_bytes=N), or a smaller k.",
            node.source.name, node.source.type, k, n));
    if (4 * block < 5 * k) return false;
    Pieces pieces(rewriter, node);
    const auto top = [&](ValueId of, int64_t count) {
        BoundAttrs attrs = node.attrs;
        set_integer(attrs, "k", count);
        const ValueId values = pieces.add("top_k", {of}, attrs);
        return std::pair{values, values + 1};
    };
    const int64_t blocks = n / block, whole = blocks * block;
    ValueId front = node.inputs[0];
    if (whole < n) front = pieces.add("slice", {front}, slice_of(1, 0, whole));
    auto [values, places] = top(pieces.reshape(front, {rows * blocks, block}), k);
    places = pieces.from_start(pieces.reshape(places, {rows, blocks, k}), 0, blocks, block, {1, blocks, 1});
    values = pieces.reshape(values, {rows, blocks * k});
    places = pieces.reshape(places, {rows, blocks * k});
    if (whole < n) {
        const auto [more, at] =
            top(pieces.add("slice", {node.inputs[0]}, slice_of(1, whole, n)), std::min(k, n - whole));
        values = pieces.concat({values, more}, 1);
        places = pieces.concat({places, pieces.from_start(at, whole, 1, 0, {1})}, 1);
    }
    const auto [best, chosen] = top(values, k);
    pieces.finish(id, {best, pieces.gathered(places, chosen, 1)});
    return true;
}

}  // namespace kpu::passes
