// Identities of arithmetic: only of numbers that stand for themselves, since quantised results are rounded anew.
#include <cmath>
#include <limits>

#include "compiler/graph/data.hpp"
#include "compiler/graph/supports.hpp"
#include "compiler/passes/rules.hpp"

namespace kpu::passes {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// True for a node of one result that is not quantised, nor its operands.
bool is_plain(const Graph& graph, const Node& node) {
    for (const ValueId id : node.inputs) {
        if (has_quant(graph.value(id))) return false;
    }
    return node.outputs.size() == 1 && !has_quant(graph.value(node.outputs[0]));
}

/// A node f(x, c) with a constant c that is one number.
struct WithNumber {
    ValueId x = 0, constant = 0;
    double number = 0;
    bool second = false;  ///< c stands second
};

std::optional<WithNumber> with_number(const Graph& graph, const Node& node) {
    if (node.inputs.size() != 2 || !is_elementwise(node) || !is_plain(graph, node)) return {};
    for (const size_t c : {size_t{1}, size_t{0}}) {
        if (const auto number = uniform_number(graph.value(node.inputs[c])))
            return WithNumber{node.inputs[1 - c], node.inputs[c], *number, c == 1};
    }
    return {};
}

/// Returns a constant like another one, of this number.
ValueId number_like(Rewriter& rewriter, ValueId constant, double number) {
    const graph::Value c = rewriter.graph.value(constant);
    return rewriter.add_constant(c.name, c.elem, c.shape,
                                 graph::make_numbers(c.elem, std::vector<double>(c.elements(), number)));
}

/// Drops x + 0, x * 1, ...: x.
bool drop_identity(Rewriter& rewriter, NodeId id) {
    const Graph& graph = rewriter.graph;
    const Node& node = graph.nodes[id];
    const auto f = with_number(graph, node);
    if (!f) return false;
    const graph::Value &x = graph.value(f->x), &y = graph.value(node.outputs[0]);
    if (!(x.shape == y.shape) || x.elem != y.elem) return false;
    const std::string_view name = node.spec().name;
    const bool same = (name == "add" && f->number == 0) || (name == "mul" && f->number == 1) ||
                      (f->second && name == "sub" && f->number == 0) ||
                      (f->second && (name == "div" || name == "pow") && f->number == 1) ||
                      (name == "max" && f->number == -infinity) || (name == "min" && f->number == infinity);
    if (same) replace_by(rewriter, id, f->x);
    return same;
}

/// Divisions and powers that something cheaper computes with the same result.
bool cheapen(Rewriter& rewriter, NodeId id) {
    Graph& graph = rewriter.graph;
    const Node& node = graph.nodes[id];
    const auto f = with_number(graph, node);
    if (!f || !f->second || !is_float(graph.value(f->x).elem)) return false;
    const graph::Value& y = graph.value(node.outputs[0]);
    if (is(node, "pow") && graph.value(f->x).shape == y.shape) {
        if (f->number == 2) become(rewriter, id, "mul", {f->x, f->x});
        if (f->number == 0.5) become(rewriter, id, "sqrt", {f->x});
        return f->number == 2 || f->number == 0.5;
    }
    int exponent = 0;
    const bool power_of_two = std::fabs(std::frexp(f->number, &exponent)) == 0.5;
    if (!is(node, "div") || !power_of_two || std::abs(exponent) > 14)
        return false;  // 14: f16 has its inverse
    become(rewriter, id, "mul", {f->x, number_like(rewriter, f->constant, 1 / f->number)});
    return true;
}

/// relu, clamp, min and max with a number: the interval that they keep x in.
struct Interval {
    ValueId x = 0;
    double low = -infinity, high = infinity;
};

std::optional<Interval> interval_of(const Graph& graph, const Node& node) {
    if (!is_elementwise(node) || !is_plain(graph, node)) return {};
    if (is(node, "relu")) return Interval{node.inputs[0], 0, infinity};
    if (is(node, "clamp"))
        return Interval{node.inputs[0], node.attrs.real("min_val", 0), node.attrs.real("max_val", 0)};
    const bool smallest = is(node, "min");
    if (!smallest && !is(node, "max")) return {};
    const auto f = with_number(graph, node);
    if (!f || std::isnan(f->number) || !(graph.value(f->x).shape == graph.value(node.outputs[0]).shape))
        return {};
    return smallest ? Interval{f->x, -infinity, f->number} : Interval{f->x, f->number, infinity};
}

bool set_interval(Rewriter& rewriter, NodeId id, const Interval& wanted) {
    const Node& node = rewriter.graph.nodes[id];
    if (wanted.low == 0 && wanted.high == infinity) {
        if (is(node, "relu") && node.inputs[0] == wanted.x) return false;
        become(rewriter, id, "relu", {wanted.x});
        return true;
    }
    if (!std::isfinite(wanted.low) || !std::isfinite(wanted.high)) return false;
    become(rewriter, id, "clamp", {wanted.x},
           graph::attributes({graph::real("min_val", wanted.low), graph::real("max_val", wanted.high)}));
    return true;
}

/// Intervals of intervals become one; max(x, 0) is relu.
bool merge_clamps(Rewriter& rewriter, NodeId id) {
    const Graph& graph = rewriter.graph;
    const auto outer = interval_of(graph, graph.nodes[id]);
    if (!outer) return false;
    const Node* maker = rewriter.producer(outer->x);
    const auto inner = maker == nullptr ? std::nullopt : interval_of(graph, *maker);
    if (!inner) return !is(graph.nodes[id], "clamp") && set_interval(rewriter, id, *outer);
    const auto into = [&](double v) { return std::fmin(std::fmax(v, outer->low), outer->high); };
    return set_interval(rewriter, id, {inner->x, into(inner->low), into(inner->high)});
}

/// True if every number of `from` is one of `to`.
bool holds(ElemType to, ElemType from) {
    if (to == from) return true;
    if (is_float(from)) return to == ElemType::f32 && is_float(from);
    const int bits = bit_width(from);
    if (to == ElemType::f32) return bits <= 16;
    return to == ElemType::i32 && bits <= 16;
}

/// Drops a cast to its own type, or to a wider type and back.
bool drop_cast(Rewriter& rewriter, NodeId id) {
    const Graph& graph = rewriter.graph;
    const Node& node = graph.nodes[id];
    if (!is(node, "cast") || !is_plain(graph, node)) return false;
    const ElemType to = graph.value(node.outputs[0]).elem;
    if (graph.value(node.inputs[0]).elem == to) {
        replace_by(rewriter, id, node.inputs[0]);
        return true;
    }
    const Node* maker = rewriter.producer(node.inputs[0]);
    if (maker == nullptr || !is(*maker, "cast") || !is_plain(graph, *maker)) return false;
    const ElemType from = graph.value(maker->inputs[0]).elem, between = graph.value(node.inputs[0]).elem;
    // infinities of f8e5m2 would stay, which a cast to it makes its greatest number
    if (from != to || !holds(between, from) || to == ElemType::f8e5m2) return false;
    replace_by(rewriter, id, maker->inputs[0]);
    return true;
}

/// Drops -(-x), ||x||.
bool drop_double(Rewriter& rewriter, NodeId id) {
    const Graph& graph = rewriter.graph;
    const Node& node = graph.nodes[id];
    if (!is_any(node, {"neg", "abs"}) || !is_plain(graph, node)) return false;
    const Node* maker = rewriter.producer(node.inputs[0]);
    if (maker == nullptr || maker->opcode != node.opcode || is_integer(graph.value(node.outputs[0]).elem))
        return false;
    replace_by(rewriter, id, is(node, "neg") ? maker->inputs[0] : node.inputs[0]);
    return true;
}

/// Returns the product with a number that a factor is, perhaps seen through views, if nobody else reads it.
std::optional<NodeId> scaled_by_number(const Rewriter& rewriter, ValueId factor) {
    const Graph& graph = rewriter.graph;
    while (true) {
        const int32_t maker = rewriter.producer_id(factor);
        if (maker < 0 || rewriter.users(factor).size() != 1 || rewriter.is_output(factor)) return {};
        const Node& node = graph.nodes[static_cast<size_t>(maker)];
        if (is(node, "mul")) {
            const auto f = with_number(graph, node);
            const bool scale = f && std::isfinite(f->number) && f->number != 0 &&
                               is_float(graph.value(f->x).elem) &&
                               graph.value(f->x).shape == graph.value(node.outputs[0]).shape;
            return scale ? std::optional(static_cast<NodeId>(maker)) : std::nullopt;
        }
        if (!node.spec().traits.reorders) return {};
        factor = node.inputs[0];
    }
}

/// Merges (a * X) (b * Y), as attention scales queries and keys: (a * b * X) Y.
bool merge_scales(Rewriter& rewriter, NodeId id) {
    Graph& graph = rewriter.graph;
    const Node node = graph.nodes[id];
    if (!is_matrix_product(node) || !is_plain(graph, node)) return false;
    std::optional<NodeId> first = scaled_by_number(rewriter, node.inputs[0]),
                          second = scaled_by_number(rewriter, node.inputs[1]);
    if (!first || !second || first == second) return false;
    const auto elements = [&](NodeId scale) { return graph.value(graph.nodes[scale].outputs[0]).elements(); };
    if (elements(*first) > elements(*second)) std::swap(first, second);
    const WithNumber kept = *with_number(graph, graph.nodes[*first]),
                     dropped = *with_number(graph, graph.nodes[*second]);
    const double both = kept.number * dropped.number;
    become(rewriter, *first, "mul", {kept.x, number_like(rewriter, kept.constant, both)});
    replace_by(rewriter, *second, dropped.x);
    return true;
}

}  // namespace

const std::vector<Rule> arithmetic_rules = {drop_identity, cheapen,     merge_clamps,
                                            drop_cast,     drop_double, merge_scales};

}  // namespace kpu::passes
